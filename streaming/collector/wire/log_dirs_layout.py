"""Reads what a broker says of its log directories, and of the replicas in each.

Source: ReplicaManager.describeLogDirs, Kafka 4.3. A size is that of the segments' records; indexes
are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any, Final

import numpy as np
from kafka.protocol.admin import DescribeLogDirsResponse

from streaming.collector.listing import Array, BrokerReplicas
from streaming.collector.wire.layouts import (
    Irregular,
    Layout,
    LayoutCursor,
    joined,
    places,
    topic_records,
    values,
)
from twin.declarations.table import UNKNOWN

_RECORD_BYTES: Final = 22  # partition 4, size 8, offset lag 8, is future 1, tags 1
_SIZE_AT, _LAG_AT, _FUTURE_AT = 4, 12, 20
_UNLISTED_ROW: Final = -2

_REMOTE: Final = "remote://"
"""Redpanda lists its object store as one more directory: redpanda-data/redpanda#10910."""


class LogKind(IntEnum):
    """The kind of a log in a directory, by the listing of the partition."""

    ASSIGNED = 0  # a replica that the listing assigns to the broker
    FUTURE = 1  # a replica that is being moved into the directory (KIP-113)
    UNASSIGNED = 2  # of a listed topic, and assigned to other brokers: of nobody
    UNLISTED = 3  # of a topic that the listing does not have: deleted, excluded, or hidden


@dataclass(frozen=True, slots=True, eq=False)
class Directories:
    """The log directories of a broker, sorted by path, without remote storage. Shapes: [D]."""

    path: tuple[str, ...]
    error_code: Array  # 0 for none
    total_bytes: Array  # of its volume; UNKNOWN before Kafka 3.3, or if the directory has failed
    usable_bytes: Array
    is_cordoned: Array  # tri-state; UNKNOWN before Kafka 4.3 (KIP-1066)
    bytes_by_kind: Array  # [D, 4] the sizes of the logs in it, by LogKind


_NONE: Final = np.zeros(0, np.int64)
NO_DIRECTORIES: Final = Directories((), _NONE, _NONE, _NONE, _NONE, _NONE.reshape(0, len(LogKind)))


@dataclass(frozen=True, slots=True)
class BrokerSizes:
    """The response of one broker. Shapes: [n] replicas that the listing assigns to the broker."""

    rows: Array  # [n] index into the replicas of the placement
    sizes: Array  # [n] bytes
    directory: Array  # [n] index into the directories
    directories: Directories = NO_DIRECTORIES
    error_code: int = 0
    reason: str = ""


class LogDirsLayout(Layout):
    """Positions of the numbers in responses of one shape, without errors.

    Brokers list the partitions of a topic that is written in another order each time, so the
    partitions' numbers are read from each response.

    Raises:
        MalformedBytes: the response ends early, or has an error or tagged fields.
    """

    __slots__ = (
        "_all_size_at", "_cell", "_cordoned", "_cuts", "_directory_of", "_find", "_future",
        "_local", "_number", "_number_at", "_path", "_row", "_rows", "_shown", "_size_at", "_topic",
        "_total_at", "_usable_at", "directory",
    )  # fmt: skip

    def __init__(
        self, body: bytes, version: int, replicas: BrokerReplicas, topics: Set[str]
    ) -> None:
        """
        Args:
            body: the response.
            version: of the response, at least 2.
            replicas: those that the listing assigns to the broker.
            topics: the names of all topics that the listing has.
        """
        cursor = LayoutCursor(body)
        raw = np.frombuffer(body, np.uint8)
        variable = [places([cursor.skip(4)], 0, 4)]  # throttle time
        if version >= 3 and cursor.number(2):
            raise Irregular("the response has an error")
        paths, logs, totals, cordoned = [], [], [], []
        for _ in range(cursor.count()):
            if cursor.number(2):
                raise Irregular("a log directory has an error")
            paths.append(cursor.text())
            logs.append([*topic_records(cursor, raw, _RECORD_BYTES)])
            if version >= 4:
                totals.append(cursor.skip(16))
            cordoned.append(int(raw[cursor.skip(1)]) if version >= 5 else UNKNOWN)
            cursor.no_tags()
        cursor.end()
        rank = _ranks(paths)
        self._path = tuple(sorted(path for path in paths if not path.startswith(_REMOTE)))
        self._shown = shown = np.argsort(np.where(rank < 0, len(paths), rank), kind="stable")[
            : len(self._path)
        ]
        self._cordoned = np.array(cordoned, np.int64)[shown]
        self._total_at, self._usable_at = places(totals, 0, 8), places(totals, 8, 8)
        starts = [[at for _, at in each] for each in logs]
        at = joined(chain(*starts))
        self._number_at, size_at = places(at, 0, 4), places(at, _SIZE_AT, 8)
        variable += [self._number_at, size_at, places(at, _LAG_AT, 8)]
        super().__init__(body, [*variable, self._total_at, self._usable_at])
        self._topic = [name for each in logs for name, _ in each]
        self._cuts = np.cumsum([0, *map(len, chain(*starts))])
        directory = np.repeat(rank, [sum(map(len, each)) for each in starts])
        self._local = directory >= 0
        self._directory_of, self._future = directory, raw[at + _FUTURE_AT] != 0
        self._all_size_at = size_at[self._local]
        self._find = _finder(replicas, topics)
        self._number, self._row = values(raw, self._number_at), np.zeros(len(at), np.intp)
        self._locate(range(len(self._topic)))

    def _locate(self, topics: Iterable[int]) -> None:
        """Find the rows of these topics' partitions (index), and with them what each log is."""
        for topic in topics:
            start, stop = self._cuts[topic], self._cuts[topic + 1]
            self._row[start:stop] = self._find(self._topic[topic], self._number[start:stop])
        kind = _kinds(self._row, self._future)
        self._cell = (self._directory_of * len(LogKind) + kind)[self._local]
        is_assigned = self._local & (kind == LogKind.ASSIGNED)
        self._rows = self._row[is_assigned]
        self._size_at = self._all_size_at[is_assigned[self._local]]
        self.directory = self._directory_of[is_assigned]

    def read(self, raw: Array) -> BrokerSizes:
        """The numbers of a response that has this layout."""
        number = values(raw, self._number_at)
        moved = np.flatnonzero(number != self._number)
        if len(moved):
            self._number = number
            self._locate(np.unique(np.searchsorted(self._cuts, moved, side="right") - 1).tolist())
        count = len(self._path)
        total, usable = values(raw, self._total_at), values(raw, self._usable_at)
        unknown = np.full(count, UNKNOWN, np.int64)
        directories = Directories(
            self._path,
            np.zeros(count, np.int64),
            total[self._shown] if len(total) else unknown,
            usable[self._shown] if len(usable) else unknown,
            self._cordoned,
            _sums(self._cell, values(raw, self._all_size_at), count),
        )
        return BrokerSizes(self._rows, values(raw, self._size_at), self.directory, directories)


def decoded(body: bytes, version: int, replicas: BrokerReplicas, topics: Set[str]) -> BrokerSizes:
    """The same numbers, read by the codec, with the last error in the response."""
    response = DescribeLogDirsResponse.decode(body, version=version)
    error_code, reason = response.error_code, "local log sizes stay unknown"
    local = [each for each in response.results if not each.log_dir.startswith(_REMOTE)]
    local.sort(key=lambda each: each.log_dir)
    find = _finder(replicas, topics)
    rows, sizes, cells = [np.zeros(0, np.intp)], [np.zeros(0, np.int64)], [np.zeros(0, np.intp)]
    for place, directory in enumerate(local):
        if directory.error_code:
            error_code = directory.error_code
            reason = f"log directory {directory.log_dir}"
        for topic in directory.topics:
            listed = topic.partitions
            row = find(topic.name, np.fromiter((p.partition_index for p in listed), np.int64))
            kind = _kinds(row, np.fromiter((p.is_future_key for p in listed), bool))
            rows.append(row)
            sizes.append(np.fromiter((p.partition_size for p in listed), np.int64))
            cells.append(place * len(LogKind) + kind)
    row, size, cell = np.concatenate(rows), np.concatenate(sizes), np.concatenate(cells)
    is_assigned = cell % len(LogKind) == LogKind.ASSIGNED

    def column(value: Callable[[Any], int]) -> Array:
        return np.fromiter(map(value, local), np.int64, len(local))

    directories = Directories(
        tuple(each.log_dir for each in local),
        column(lambda each: each.error_code),
        column(lambda each: each.total_bytes if version >= 4 else UNKNOWN),
        column(lambda each: each.usable_bytes if version >= 4 else UNKNOWN),
        column(lambda each: each.is_cordoned if version >= 5 else UNKNOWN),
        _sums(cell, size, len(local)),
    )
    return BrokerSizes(
        row[is_assigned], size[is_assigned], cell[is_assigned] // len(LogKind), directories,
        error_code, reason,
    )  # fmt: skip


def _finder(replicas: BrokerReplicas, topics: Set[str]) -> Callable[[str, Array], Array]:
    """The rows of partitions of a topic, negative where the broker has no replica of one."""

    def find(topic: str, partition: Array) -> Array:
        row = replicas.find(topic, partition)
        return row if topic in topics else np.where(row < 0, _UNLISTED_ROW, row)

    return find


def _kinds(row: Array, is_future: Array) -> Array:
    """[n] what each log is, as ``LogKind``."""
    otherwise = np.where(row == _UNLISTED_ROW, LogKind.UNLISTED, LogKind.UNASSIGNED)
    return np.where(is_future, LogKind.FUTURE, np.where(row >= 0, LogKind.ASSIGNED, otherwise))


def _ranks(paths: Sequence[str]) -> Array:
    """[D] the place of each directory once they are sorted; UNKNOWN for remote storage."""
    local = sorted(path for path in paths if not path.startswith(_REMOTE))
    place = {path: i for i, path in enumerate(local)}
    return np.array([place.get(path, UNKNOWN) for path in paths], np.int64)


def _sums(cell: Array, size: Array, count: int) -> Array:
    """[D, 4] the sizes added up by directory and ``LogKind``."""
    sums = np.zeros(count * len(LogKind), np.int64)
    np.add.at(sums, cell, size)
    return sums.reshape(count, len(LogKind))
