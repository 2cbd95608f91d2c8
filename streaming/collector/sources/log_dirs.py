"""Bytes of each replica on disk, and how full the disks are: DescribeLogDirs.

Needs DESCRIBE on the cluster; without it every value is unknown, and a problem says so. A future
replica (one that is moved between directories) is not the size of a replica: it does not serve
reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from kafka.protocol.admin import DescribeLogDirsRequest

from streaming.collector.about import About, Acl, Needed
from streaming.collector.listing import Array, Placement
from streaming.collector.problem import Problem, from_code
from streaming.collector.reading import Answers, Reading
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.wire.brokers import EncodedRequest, Versions, negotiate_version
from streaming.collector.wire.layouts import KeptLayouts
from streaming.collector.wire.log_dirs import BrokerSizes, Directories, LogDirsLayout, decoded
from streaming.collector.wire.volumes import Volumes
from twin.declarations.table import UNKNOWN

LOG_DIRS: Final = About(
    "log dirs",
    "local log sizes, so that thresholds in bytes are assumed to be met",
    Acl("DESCRIBE", "cluster"),
    needs=(Needed(DescribeLogDirsRequest, "Kafka 1.0"),),
)

_FIRST_FLEXIBLE: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class BrokerDisks:
    """The log directories of one broker. ``volume``: [D] the first directory on the same volume."""

    directories: Directories
    volume: Array

    @property
    def total_bytes(self) -> int:
        """The size of its volumes; UNKNOWN before Kafka 3.3."""
        return self._sum(self.directories.total_bytes)

    @property
    def usable_bytes(self) -> int:
        """The free space of its volumes; UNKNOWN before Kafka 3.3."""
        return self._sum(self.directories.usable_bytes)

    def _sum(self, of_directory: Array) -> int:
        """The sum over volumes of known size: one that has several directories counts once."""
        known = (self.directories.total_bytes >= 0) & (self.directories.usable_bytes >= 0)
        counts = known & (self.volume == np.arange(len(self.volume)))
        return int(of_directory[counts].sum()) if counts.any() else UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class LogDirSizes(Reading):
    """Local log sizes, and the disks of each broker. Shapes: [N] replicas of the placement."""

    local_log_bytes: Array
    disks: Mapping[int, BrokerDisks]

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """The column of that name."""
        return {"local_log_bytes": self.local_log_bytes}

    @property
    def broker_columns(self) -> Mapping[str, Mapping[int, int]]:
        """The disk space of each broker."""
        return {
            "log_dir_total_bytes": {b: disks.total_bytes for b, disks in self.disks.items()},
            "log_dir_usable_bytes": {b: disks.usable_bytes for b, disks in self.disks.items()},
        }


class LogDirSource(EveryBrokerSource):
    """Keeps the request, and the layout of each broker's responses."""

    about = (LOG_DIRS,)
    problems: tuple[Problem, ...] = ()  # in this cycle

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.client_id)

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._encoded: dict[int, EncodedRequest] = {}  # by version
        self._version: dict[int, int] = {}  # by broker
        self._layouts: dict[int, tuple[Placement, KeptLayouts[LogDirsLayout]]] = {}
        self._volumes = Volumes()

    def requests(self, broker: int, versions: Versions) -> list[EncodedRequest]:
        """One request for all log directories of a broker."""
        version = negotiate_version(versions, DescribeLogDirsRequest)
        if version is None:
            return []
        if version not in self._encoded:
            request = DescribeLogDirsRequest(topics=None)
            self._encoded[version] = EncodedRequest.encode(request, version, self._client_id)
        self._version[broker] = version
        return [self._encoded[version]]

    def read(self, placement: Placement, answers: Answers) -> LogDirSizes:
        """Read the answer of each broker."""
        local_log_bytes = np.full(len(placement.broker), UNKNOWN, np.int64)
        topics = frozenset(placement.topic)
        disks, problems = {}, []
        for broker, bodies in answers.items():
            for body in filter(None, bodies):
                read = self._read(broker, placement, topics, body)
                local_log_bytes[read.rows] = read.sizes
                volume = self._volumes.of(broker, read.directories)
                disks[broker] = BrokerDisks(read.directories, volume)
                if read.error_code:
                    problems.append(from_code(LOG_DIRS.name, read.error_code, read.reason, broker))
        self.problems = tuple(problems)
        return LogDirSizes(local_log_bytes, disks)

    def _read(
        self, broker: int, placement: Placement, topics: frozenset[str], body: bytes
    ) -> BrokerSizes:
        version, replicas = self._version[broker], placement.replicas_on(broker)
        if version >= _FIRST_FLEXIBLE:
            known_for, layouts = self._layouts.get(broker, (None, KeptLayouts()))
            if known_for is not placement:
                layouts = KeptLayouts()
                self._layouts[broker] = placement, layouts
            layout = layouts.find(
                version, body, lambda: LogDirsLayout(body, version, replicas, topics)
            )
            if layout is not None:
                return layout.read(np.frombuffer(body, np.uint8))
        return decoded(body, version, replicas, topics)

    def forget(self, brokers: Collection[int]) -> None:
        """Drop the layouts of all brokers except these."""
        for broker in self._layouts.keys() - set(brokers):
            del self._layouts[broker]
        self._volumes.forget(brokers)
