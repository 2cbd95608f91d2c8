"""Bytes of each replica on disk, and how full the disks are: DescribeLogDirs.

Needs DESCRIBE on the cluster; without it every value is unknown, and a problem says so. A future
replica (one that is moved between directories) is not counted: it does not serve reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from streaming.collector.about import About, Acl, Needed
from streaming.collector.listing import Array, BrokerReplicas, Placement
from streaming.collector.problem import Problem, from_code
from streaming.collector.reading import Answers, Reading
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.wire.brokers import EncodedRequest, Versions, negotiate_version
from streaming.collector.wire.layouts import (
    Irregular,
    KeptLayouts,
    Layout,
    LayoutCursor,
    partition_records,
    places,
    values,
)
from twin.declarations.table import UNKNOWN

LOG_DIRS: Final = About(
    "log dirs",
    "local log sizes, so that thresholds in bytes are assumed to be met",
    Acl("DESCRIBE", "cluster"),
    needs=(Needed(DescribeLogDirsRequest, "Kafka 1.0"),),
)

_FIRST_FLEXIBLE: Final = 2
_RECORD_BYTES: Final = 22  # partition 4, size 8, offset lag 8, is future 1, tags 1
_SIZE_AT, _LAG_AT, _FUTURE_AT = 4, 12, 20


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The sum over the disks of one broker, UNKNOWN before Kafka 3.3."""

    total_bytes: int = UNKNOWN
    usable_bytes: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class LogDirSizes(Reading):
    """Local log sizes, and the disk space of each broker. Shapes: [N] replicas of the placement."""

    local_log_bytes: Array
    disk_space: dict[int, DiskSpace]

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """The column of that name."""
        return {"local_log_bytes": self.local_log_bytes}

    @property
    def broker_columns(self) -> Mapping[str, Mapping[int, int]]:
        """The disk space of each broker."""
        return {
            "log_dir_total_bytes": {b: s.total_bytes for b, s in self.disk_space.items()},
            "log_dir_usable_bytes": {b: s.usable_bytes for b, s in self.disk_space.items()},
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
        disk_space, problems = {}, []
        for broker, bodies in answers.items():
            for body in filter(None, bodies):
                read = self._read(broker, placement, body)
                local_log_bytes[read.rows] = read.sizes
                disk_space[broker] = read.disk_space
                if read.error_code:
                    problems.append(from_code(LOG_DIRS.name, read.error_code, read.reason, broker))
        self.problems = tuple(problems)
        return LogDirSizes(local_log_bytes, disk_space)

    def _read(self, broker: int, placement: Placement, body: bytes) -> BrokerSizes:
        version, replicas = self._version[broker], placement.replicas_on(broker)
        if version >= _FIRST_FLEXIBLE:
            known_for, layouts = self._layouts.get(broker, (None, KeptLayouts()))
            if known_for is not placement:
                layouts = KeptLayouts()
                self._layouts[broker] = placement, layouts
            layout = layouts.find(version, body, lambda: LogDirsLayout(body, version, replicas))
            if layout is not None:
                return layout.read(np.frombuffer(body, np.uint8))
        return decoded(body, version, replicas)

    def forget(self, brokers: Collection[int]) -> None:
        """Drop the layouts of all brokers except these."""
        for broker in self._layouts.keys() - set(brokers):
            del self._layouts[broker]


@dataclass(frozen=True, slots=True)
class BrokerSizes:
    """The response of one broker. Shapes: [n] replicas of the broker."""

    rows: Array  # [n] index into the replicas of the placement
    sizes: Array  # [n] bytes
    disk_space: DiskSpace
    error_code: int = 0
    reason: str = ""


class LogDirsLayout(Layout):
    """Positions of the numbers in responses of one shape, without errors.

    Raises:
        MalformedBytes: the response ends early, or has an error or tagged fields.
    """

    __slots__ = ("_rows", "_size_at", "_total_at", "_usable_at")

    def __init__(self, body: bytes, version: int, replicas: BrokerReplicas) -> None:
        cursor = LayoutCursor(body)
        raw = np.frombuffer(body, np.uint8)
        variable = [places([cursor.skip(4)], 0, 4)]  # throttle time
        if version >= 3 and cursor.number(2):
            raise Irregular("the response has an error")
        starts, rows, totals = [], [], []
        for _ in range(cursor.count()):
            if cursor.number(2):
                raise Irregular("a log directory has an error")
            cursor.text()
            at, row = partition_records(cursor, raw, _RECORD_BYTES, replicas.find)
            starts.append(at)
            rows.append(np.where(raw[at + _FUTURE_AT] == 0, row, -1))
            if version >= 4:
                totals.append(cursor.skip(16))
            if version >= 5:
                cursor.skip(1)  # is the directory cordoned
            cursor.no_tags()
        cursor.end()
        at = np.concatenate([np.zeros(0, np.intp), *starts])
        row = np.concatenate([np.zeros(0, np.intp), *rows])
        self._total_at, self._usable_at = places(totals, 0, 8), places(totals, 8, 8)
        size_at = places(at, _SIZE_AT, 8)
        variable += [size_at, places(at, _LAG_AT, 8), self._total_at, self._usable_at]
        super().__init__(body, variable)
        listed = row >= 0
        self._rows, self._size_at = row[listed], size_at[listed]

    def read(self, raw: Array) -> BrokerSizes:
        """The numbers of a response that has this layout."""
        space = _sum(values(raw, self._total_at), values(raw, self._usable_at))
        return BrokerSizes(self._rows, values(raw, self._size_at), space)


def decoded(body: bytes, version: int, replicas: BrokerReplicas) -> BrokerSizes:
    """The same numbers, read by the codec, with the last error in the response."""
    response = DescribeLogDirsResponse.decode(body, version=version)
    error_code, reason = response.error_code, "local log sizes stay unknown"
    rows, sizes = [np.zeros(0, np.intp)], [np.zeros(0, np.int64)]
    for directory in response.results:
        if directory.error_code:
            error_code = directory.error_code
            reason = f"log directory {directory.log_dir}"
        for topic in directory.topics:
            current = [p for p in topic.partitions if not p.is_future_key]
            numbers = np.fromiter((p.partition_index for p in current), np.int64)
            rows.append(replicas.find(topic.name, numbers))
            sizes.append(np.fromiter((p.partition_size for p in current), np.int64))
    row, size = np.concatenate(rows), np.concatenate(sizes)
    space = _sum(
        np.array([d.total_bytes for d in response.results], np.int64),
        np.array([d.usable_bytes for d in response.results], np.int64),
    )
    return BrokerSizes(row[row >= 0], size[row >= 0], space, error_code, reason)


def _sum(total: Array, usable: Array) -> DiskSpace:
    """The sum over the directories whose space is known.

    A volume with several directories counts several times.
    """
    has_space = (total >= 0) & (usable >= 0)
    if not has_space.any():
        return DiskSpace()
    return DiskSpace(int(total[has_space].sum()), int(usable[has_space].sum()))
