"""How many bytes each replica has on disk, and how full the disks are: DescribeLogDirs.

Needs DESCRIBE on the cluster; without it every value stays unknown, and the missing right is told.
A future replica (one that moves between directories) is not counted: it is not the log that serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from kafka.errors import for_code
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from streaming.collector.brokers import EncodedRequest, Versions, negotiate_version
from streaming.collector.listing import Array, BrokerReplicas, Placement
from streaming.collector.wire import Cursor, Irregular, Layout, places, values
from twin.tables import UNKNOWN

_FIRST_FLEXIBLE: Final = 2
_RECORD_BYTES: Final = 22  # partition 4, size 8, offset lag 8, is future 1, tags 1
_SIZE_AT, _LAG_AT, _FUTURE_AT = 4, 12, 20


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The disks of one broker together, UNKNOWN before Kafka 3.3."""

    total_bytes: int = UNKNOWN
    usable_bytes: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class LogDirSizes:
    """What the brokers said of their disks. Shapes: [N] replicas of the placement."""

    local_log_bytes: Array
    volumes: dict[int, DiskSpace]
    problems: dict[int, str]  # of a broker that answered with an error


class LogDirSource:
    """Keeps the request, and where the answers of each broker stand."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._question: dict[int, EncodedRequest] = {}  # by version
        self._version: dict[int, int] = {}  # by broker
        self._reader: dict[int, tuple[Placement, _Reader]] = {}

    def questions(self, broker: int, versions: Versions) -> list[EncodedRequest]:
        """One request for everything a broker has on disk."""
        version = negotiate_version(versions, DescribeLogDirsRequest)
        if version is None:
            return []
        if version not in self._question:
            request = DescribeLogDirsRequest(topics=None)
            self._question[version] = EncodedRequest.encode(request, version, self._client_id)
        self._version[broker] = version
        return [self._question[version]]

    def read(self, placement: Placement, answers: Mapping[int, bytes | None]) -> LogDirSizes:
        """The answer of each broker."""
        size = np.full(len(placement.broker), UNKNOWN, np.int64)
        volumes, problems = {}, {}
        for broker, body in answers.items():
            if body is not None:
                rows, told, volumes[broker], problem = self._read(broker, placement, body)
                size[rows] = told
                if problem:
                    problems[broker] = problem
        return LogDirSizes(size, volumes, problems)

    def _read(
        self, broker: int, placement: Placement, body: bytes
    ) -> tuple[Array, Array, DiskSpace, str]:
        version, held = self._version[broker], placement.replicas_on(broker)
        if version >= _FIRST_FLEXIBLE:
            raw = np.frombuffer(body, np.uint8)
            known, reader = self._reader.get(broker, (None, None))
            if reader is None or known is not placement or not reader.layout.fits(raw):
                try:
                    reader = _Reader(body, version, held)
                    self._reader[broker] = (placement, reader)
                except Irregular:
                    reader = None
            if reader is not None:
                return reader.rows, values(raw, reader.size_at), reader.volumes(raw), ""
        return decoded(body, version, held)

    def forget(self, brokers: set[int]) -> None:
        """Drop what is kept of all brokers but these."""
        for broker in self._reader.keys() - brokers:
            del self._reader[broker]


class _Reader:
    """Where the numbers stand in an answer of one shape, without errors."""

    __slots__ = ("layout", "rows", "size_at", "total_at", "usable_at")

    def __init__(self, body: bytes, version: int, held: BrokerReplicas) -> None:
        cursor = Cursor(body)
        raw = np.frombuffer(body, np.uint8)
        variable = [places([cursor.skip(4)], 0, 4)]  # throttle time
        if version >= 3 and cursor.number(2):
            raise Irregular("the broker answers with an error")
        starts, rows, totals = [], [], []
        for _ in range(cursor.count()):
            if cursor.number(2):
                raise Irregular("a log directory has an error")
            cursor.text()
            for _ in range(cursor.count()):
                name = cursor.text()
                count = cursor.count()
                start = cursor.skip(count * _RECORD_BYTES)
                at = start + _RECORD_BYTES * np.arange(count)
                if raw[at + _RECORD_BYTES - 1].any():
                    raise Irregular("a partition has tagged fields")
                starts.append(at)
                row = held.find(name, values(raw, places(at, 0, 4)))
                rows.append(np.where(raw[at + _FUTURE_AT] == 0, row, -1))
                cursor.no_tags()
            if version >= 4:
                totals.append(cursor.skip(16))
            if version >= 5:
                cursor.skip(1)  # is cordoned
            cursor.no_tags()
        cursor.end()
        at = np.concatenate([np.zeros(0, np.intp), *starts])
        row = np.concatenate([np.zeros(0, np.intp), *rows])
        size_at = places(at, _SIZE_AT, 8)
        self.total_at, self.usable_at = places(totals, 0, 8), places(totals, 8, 8)
        variable += [size_at, places(at, _LAG_AT, 8), self.total_at, self.usable_at]
        self.layout = Layout(body, variable)
        listed = row >= 0
        self.rows, self.size_at = row[listed], size_at[listed]

    def volumes(self, raw: Array) -> DiskSpace:
        return _together(values(raw, self.total_at), values(raw, self.usable_at))


def decoded(body: bytes, version: int, held: BrokerReplicas) -> tuple[Array, Array, DiskSpace, str]:
    """The same through the codec: [n] replicas, their bytes, the disks, and what went wrong."""
    answer = DescribeLogDirsResponse.decode(body, version=version)
    problem = for_code(answer.error_code).__name__ if answer.error_code else ""
    rows, sizes = [np.zeros(0, np.intp)], [np.zeros(0, np.int64)]
    for directory in answer.results:
        if directory.error_code:
            problem = f"{directory.log_dir}: {for_code(directory.error_code).__name__}"
        for topic in directory.topics:
            current = [p for p in topic.partitions if not p.is_future_key]
            numbers = np.fromiter((p.partition_index for p in current), np.int64)
            rows.append(held.find(topic.name, numbers))
            sizes.append(np.fromiter((p.partition_size for p in current), np.int64))
    row, size = np.concatenate(rows), np.concatenate(sizes)
    volumes = _together(
        np.array([d.total_bytes for d in answer.results], np.int64),
        np.array([d.usable_bytes for d in answer.results], np.int64),
    )
    return row[row >= 0], size[row >= 0], volumes, problem


def _together(total: Array, usable: Array) -> DiskSpace:
    """The sum over the directories that are known; several on one volume count it several times."""
    known = (total >= 0) & (usable >= 0)
    if not known.any():
        return DiskSpace()
    return DiskSpace(int(total[known].sum()), int(usable[known].sum()))
