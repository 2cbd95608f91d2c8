"""The expositions of several clusters as one: a metric is declared once, as the formats demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_HEADER: Final = b"# HELP "
_WITH_CLUSTER: Final = b"# HELP kafka_twin_"
"""Names of other exporters, which may be served as well, have no label for a cluster."""


def merged(expositions: Iterable[Sequence[bytes]]) -> list[bytes]:
    """The blocks of all, each metric's together behind its header, which is a block of its own."""
    families: dict[bytes, list[bytes]] = {}
    for blocks in expositions:
        header = b""
        for block in blocks:
            if block.startswith(_HEADER):
                header = block
                families.setdefault(header, [])
            elif header.startswith(_WITH_CLUSTER) and not block.startswith(b"#"):
                families[header].append(block)
    with_samples = {h: b for h, b in families.items() if any(b) and h.startswith(_WITH_CLUSTER)}
    return [block for header, bodies in with_samples.items() for block in (header, *bodies)]
