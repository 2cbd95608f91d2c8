"""Which Kafka a cluster runs, and between which two it is while it is upgraded."""

from __future__ import annotations

import re
from typing import Final

from twin.tables.state import Brokers

_NUMBER: Final = re.compile(r"\d+")


def kafka_version_of(brokers: Brokers) -> str | None:
    """The release of all brokers that are listed, such as ``4.0``.

    ``3.9 to 4.0`` is from the lowest to the highest of those that are known; None: none is.
    """
    known = {*brokers.kafka_version[brokers.listed].tolist()} - {""}
    lowest, highest = min(known, key=_order, default=None), max(known, key=_order, default=None)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def _order(version: str) -> tuple[list[int], str]:
    """By numbers, so that 3.10 is above 3.9; whatever text a collector may send has an order."""
    return [*map(int, _NUMBER.findall(version))], version
