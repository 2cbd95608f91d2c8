"""Bytes of each replica on disk, and how full the disks are: DescribeLogDirs.

Needs DESCRIBE on the cluster; without it every value is unknown, and a problem says so. A future
replica (one that is moved between directories) is not the size of a replica: it does not serve
reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import pyarrow as pa
from kafka.protocol.admin import DescribeLogDirsRequest

from streaming.bus.arrow import dictionary, numbers, texts
from streaming.collector.about import About, Acl, Needed
from streaming.collector.listing import Array, ListedPlacement
from streaming.collector.problem import Problem, from_code
from streaming.collector.reading import Answers, Reading, Rows, partition_keys
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from streaming.collector.wire.layouts import KeptLayouts
from streaming.collector.wire.log_dirs_layout import (
    BrokerSizes,
    Directories,
    LogDirsLayout,
    LogKind,
    decoded,
)
from streaming.collector.wire.volumes import Volumes
from streaming.runtime.config import CapacityConfig, DiskConfig
from twin.declarations.table import UNKNOWN
from twin.rules.brokers.log_dirs import MOST_LOG_DIRS, LogDirsFrame, ReplicaDirsFrame

LOG_DIRS: Final = About(
    "log dirs",
    "local log sizes and disks: thresholds in bytes are assumed to be met, and no log directory "
    "that has failed is named",
    Acl("DESCRIBE", "cluster"),
    needs=(Needed(DescribeLogDirsRequest, "Kafka 1.0"),),
)

_FIRST_FLEXIBLE: Final = 2

LOG_DIR_SHARD: Final = 0
"""The shard that gets the directories of all brokers."""

REPEAT_CYCLES: Final = 12
"""A shard gets the directories of all of its replicas once in so many cycles, a minute by default,
for a query that lost its state."""


@dataclass(frozen=True, slots=True, eq=False)
class BrokerDisks:
    """The log directories of one broker. ``volume``: [D] the first directory on the same volume."""

    directories: Directories
    volume: Array
    size_is_configured: bool = False

    @property
    def total_bytes(self) -> int:
        """The size of its volumes; UNKNOWN before Kafka 3.3."""
        return self._sum(self.directories.total_bytes)

    @property
    def usable_bytes(self) -> int:
        """The free space of its volumes; UNKNOWN before Kafka 3.3."""
        return self._sum(self.directories.usable_bytes)

    def with_size(self, size_bytes: int) -> BrokerDisks:
        """The same disks, taken for one volume of that size if the broker does not say theirs.

        Its free space is what logs do not take. A size of UNKNOWN changes nothing.
        """
        known = self.directories
        if size_bytes == UNKNOWN or (known.total_bytes != UNKNOWN).any():
            return self
        count = len(self.volume)
        free = max(size_bytes - int(known.bytes_by_kind.sum()), 0)
        sized = replace(
            known, total_bytes=np.full(count, size_bytes), usable_bytes=np.full(count, free)
        )
        return BrokerDisks(sized, np.zeros(count, np.int64), size_is_configured=True)

    def _sum(self, of_directory: Array) -> int:
        """The sum over volumes of known size: one that has several directories counts once."""
        known = (self.directories.total_bytes >= 0) & (self.directories.usable_bytes >= 0)
        counts = known & (self.volume == np.arange(len(self.volume)))
        return int(of_directory[counts].sum()) if counts.any() else UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class LogDirSizes(Reading):
    """Local log sizes, and the disks of each broker. Shapes: [N] replicas of the placement.

    ``directory`` is the number of each replica's log directory, UNKNOWN where its broker has one
    directory or did not say; ``is_due`` says of which replicas it is sent.
    """

    placement: ListedPlacement
    local_log_bytes: Array
    disks: Mapping[int, BrokerDisks]
    directory: Array
    is_due: Array
    limits: DiskConfig

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

    def tables(self, shard: int) -> Iterator[Rows]:
        """The directories of all brokers, and those of a shard's replicas that are due."""
        if shard == LOG_DIR_SHARD:
            yield LogDirsFrame, _log_dirs(self.disks, self.limits)
        first, stop = self.placement.replica_cuts[shard : shard + 2]
        due = first + np.flatnonzero(self.is_due[first:stop])
        if len(due):
            columns = {
                **partition_keys(self.placement, self.placement.partition_of[due]),
                "broker": numbers(self.placement.broker[due], pa.int32()),
                "number": numbers(self.directory[due], pa.int8()),
            }
            yield ReplicaDirsFrame, pa.table(columns, schema=ReplicaDirsFrame.schema())


class LogDirSource(EveryBrokerSource):
    """Keeps the request, and the layout of each broker's responses."""

    about = (LOG_DIRS,)
    problems: tuple[Problem, ...] = ()  # in this cycle

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.client_id, setup.config.capacity, setup.config.disk)

    def __init__(
        self,
        client_id: str,
        capacity: CapacityConfig = CapacityConfig(),
        disk: DiskConfig = DiskConfig(),
    ) -> None:
        self._client_id = client_id
        self._capacity = capacity
        self._disk = disk
        self._encoded: dict[int, EncodedRequest] = {}  # by version
        self._version: dict[int, int] = {}  # by broker
        self._layouts: dict[int, tuple[ListedPlacement, KeptLayouts[LogDirsLayout]]] = {}
        self._volumes = Volumes()
        self._sent: Array | None = None  # [N] the directories as the bus has them
        self._sent_of: ListedPlacement | None = None
        self._cycle = 0

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

    def read(self, placement: ListedPlacement, answers: Answers) -> LogDirSizes:
        """Read the answer of each broker."""
        local_log_bytes = np.full(len(placement.broker), UNKNOWN, np.int64)
        topics = frozenset(placement.topic)
        directory = np.full(len(placement.broker), UNKNOWN, np.int8)
        disks, problems = {}, []
        for broker, bodies in answers.items():
            for body in filter(None, bodies):
                read = self._read(broker, placement, topics, body)
                local_log_bytes[read.rows] = read.sizes
                if len(read.directories.path) > 1:
                    directory[read.rows] = np.where(
                        read.directory < MOST_LOG_DIRS, read.directory, UNKNOWN
                    )
                volume = self._volumes.of(broker, read.directories)
                size_bytes = self._capacity.of_broker(broker)["disk_bytes"]
                disks[broker] = BrokerDisks(read.directories, volume).with_size(size_bytes)
                if read.error_code:
                    problems.append(from_code(LOG_DIRS.name, read.error_code, read.reason, broker))
        self.problems = tuple(problems)
        is_due = self._due(placement, directory)
        return LogDirSizes(placement, local_log_bytes, disks, directory, is_due, self._disk)

    def _due(self, placement: ListedPlacement, directory: Array) -> Array:
        """[N] replicas in another directory than the bus has, and all of the shards in turn."""
        self._cycle += 1
        if self._sent is None or self._sent_of is not placement:
            self._sent_of, self._sent = placement, np.full(len(directory), UNKNOWN, np.int8)
        is_known = directory != UNKNOWN
        is_due = is_known & (directory != self._sent)
        cuts = placement.replica_cuts
        for shard in range(self._cycle % REPEAT_CYCLES, placement.shards, REPEAT_CYCLES):
            is_due[cuts[shard] : cuts[shard + 1]] |= is_known[cuts[shard] : cuts[shard + 1]]
        self._sent[is_due] = directory[is_due]
        return is_due

    def send_again(self, _: LogDirSizes) -> None:
        """Send the directories of all replicas: some did not reach the bus."""
        self._sent = None

    def _read(
        self, broker: int, placement: ListedPlacement, topics: frozenset[str], body: bytes
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


def _log_dirs(disks: Mapping[int, BrokerDisks], limits: DiskConfig) -> pa.Table:
    """A row a directory of these brokers."""
    path: list[str] = []
    columns: dict[str, list[Array]] = {c.name: [] for c in LogDirsFrame.columns}
    for broker, disk in sorted(disks.items()):
        of_broker = disk.directories
        count = len(of_broker.path)
        path += of_broker.path
        sizes = of_broker.bytes_by_kind
        values = {
            "broker": np.full(count, broker),
            "number": np.arange(count),
            "volume": disk.volume,
            "total_bytes": of_broker.total_bytes,
            "usable_bytes": of_broker.usable_bytes,
            "size_is_configured": np.full(count, disk.size_is_configured),
            "warn_before_ms": np.full(count, limits.warn_before_ms),
            "page_before_ms": np.full(count, limits.page_before_ms),
            "error_code": of_broker.error_code,
            "is_cordoned": of_broker.is_cordoned,
            "replica_bytes": sizes[:, LogKind.ASSIGNED],
            "future_bytes": sizes[:, LogKind.FUTURE],
            "unassigned_bytes": sizes[:, LogKind.UNASSIGNED],
            "unlisted_bytes": sizes[:, LogKind.UNLISTED],
        }
        for name, value in values.items():
            columns[name].append(value)
    entries = list(dict.fromkeys(path))
    place = {each: i for i, each in enumerate(entries)}
    arrays = [
        dictionary([place[each] for each in path], texts(entries))
        if column.name == "log_dir"
        else numbers(np.concatenate([[], *columns[column.name]]), column.arrow)
        for column in LogDirsFrame.columns
    ]
    return pa.Table.from_arrays(arrays, schema=LogDirsFrame.schema())
