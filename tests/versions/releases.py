"""The Kafka releases that the twin is tried on, and in what a cluster of each differs.

A release other than that of ``deploy/jars.xml`` has a folder here with jars.xml and jars.sha256.
After a change of a list: ``python -m streaming.runtime.jars tests/versions/jars/VERSION``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streaming.runtime import jars
from tests.cluster.broker_client import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
)

RELEASES: Final = Path(__file__).parent / "jars"
"""A folder a release, named after its version."""

OWN: Final = "4.4.0"
"""The release of ``deploy/jars.xml``, which has no folder here."""

_NEWEST_TOOLS: Final = "4.3.1"
"""The newest release whose tools are on Maven; they ask newer brokers as well."""

IN_CI: Final = ("3.9.1", "4.1.2")
ALL: Final = ("3.5.2", "3.7.2", "3.9.1", "4.0.2", "4.1.2", "4.2.1", "4.3.1", OWN)
UPGRADES: Final = (("3.9.1", "4.0.2"), ("4.3.1", OWN))
"""From the first to the second while the twin runs."""


_OFFSET_KINDS: Final = {
    "log_end_offset": (LATEST, (0,)),
    "log_start_offset": (EARLIEST, (0,)),
    "local_log_start_offset": (EARLIEST_LOCAL, (3, 5)),
    "last_tiered_offset": (LATEST_TIERED, (3, 9)),
    "pending_upload_offset": (EARLIEST_PENDING_UPLOAD, (4, 2)),
}
"""Before that release, the tool takes the number for a time of records."""


@dataclass(frozen=True)
class Release:
    """A Kafka release by its version, such as ``3.9.1``."""

    version: str

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")))

    @property
    def kafka_version(self) -> str:
        """As the twin tells it from the requests that brokers offer."""
        major, minor, _ = self.number
        return "4.3+" if self.number >= (4, 3) else f"{major}.{minor}"

    @property
    def folder(self) -> Path | None:
        """The folder of its jars, as the local cluster wants it."""
        return None if self.version == OWN else RELEASES / self.version

    @property
    def has_tiers(self) -> bool:
        """The release has tiered storage, and the remote storage that is a folder."""
        return self.number >= (3, 6)

    @property
    def has_eligible_leaders(self) -> bool:
        """Eligible leader replicas are on in a new cluster."""
        return self.number >= (4, 1)

    @property
    def lists_fenced(self) -> bool:
        """DescribeCluster lists fenced brokers; before, a lost broker is not listed."""
        return self.number >= (4, 0)

    @property
    def offset_kinds(self) -> Mapping[str, int]:
        """The kinds of offsets that its GetOffsetShell asks for, by the column that holds each."""
        return {
            column: kind for column, (kind, since) in _OFFSET_KINDS.items() if self.number >= since
        }

    @property
    def settings(self) -> Mapping[str, str]:
        """Broker settings that this release needs."""
        return {} if self.has_tiers else {"remote.log.storage.system.enable": "false"}

    @property
    def small_segments(self) -> Mapping[str, str]:
        """Configs of a topic with segments of 16 kB; since 4.1 under an internal name."""
        name = "internal.segment.bytes" if self.number >= (4, 1) else "segment.bytes"
        return {name: "16384"}

    def tools(self, node: list[Path]) -> list[Path]:
        """The class path of Kafka's tools, given the jars of a node."""
        if self.version != OWN:
            cache = jars.default_cache() / self.version
            return [*jars.ensure("tools", cache, declared=RELEASES / self.version), *node]
        older = Release(_NEWEST_TOOLS)
        cache = jars.default_cache() / older.version
        return older.tools(jars.ensure("kafka", cache, declared=RELEASES / older.version))
