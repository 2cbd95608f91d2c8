"""Reads OffsetFetch responses: the committed offsets of many groups, gathered with numpy.

From round to round a response has the same groups, topics and partitions at the same positions, so
a layout made from one response reads the next (``wire.layouts``). The numbers may vary, and so may
the metadata that consumers commit with an offset (Kafka Streams writes a timestamp there), as long
as its length stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from kafka.protocol.consumer import OffsetFetchResponse

from streaming.collector.groups.requests import SEVERAL_GROUPS, offset_fetch
from streaming.collector.listing import Array
from streaming.collector.wire.connections import EncodedRequest
from streaming.collector.wire.layouts import KeptLayouts, Layout, LayoutCursor, places, values

_HEAD_BYTES: Final = 16  # partition 4, offset 8, leader epoch 4
_OFFSET_AT, _EPOCH_AT = 4, 12
_RECORD_BYTES: Final = 20  # head 16, metadata 1 (its length), error 2, tags 1
_EMPTY: Final = 1
"""Kafka writes the length of a string plus one; 0 means null."""

_HAS_GROUP_ERROR: Final = 2
"""First version of OffsetFetch that has an error code of the whole group."""


@dataclass(frozen=True, slots=True, eq=False)
class CommittedOffsets:
    """The offsets of a response. Shapes: [g] groups of the request, [T] topics, [n] partitions."""

    group_error: Array  # [g] Kafka's error code, NO_ANSWER if the group is not in the response
    topic: tuple[str, ...]  # [T]
    group_of: Array  # [n] index into the groups of the request
    topic_of: Array  # [n] index into topic
    partition: Array  # [n]
    offset: Array  # [n] -1 if nothing is committed
    error: Array  # [n] error code of the partition


NO_ANSWER: Final = -2
"""In place of an error code: the group is in no response."""


class OffsetFetchBatch:
    """The request for some groups of one coordinator, and the layout of its response."""

    def __init__(self, groups: Sequence[str], version: int, client_id: str) -> None:
        self.groups = tuple(groups)
        self.request: EncodedRequest = offset_fetch(self.groups, version, client_id)
        self._version = version
        self._row = {name: i for i, name in enumerate(self.groups)}
        self.layouts: KeptLayouts[_OffsetFetchLayout] = KeptLayouts()

    def read(self, body: bytes) -> CommittedOffsets:
        """The numbers of a response."""
        if self._version >= SEVERAL_GROUPS:
            layout = self.layouts.find(0, body, lambda: _OffsetFetchLayout(body, self._row))
            if layout is not None:
                return layout.read(np.frombuffer(body, np.uint8))
        return decoded(body, self._version, self.groups)


class _OffsetFetchLayout(Layout):
    """Positions of the numbers in responses of one shape.

    Raises:
        MalformedBytes: the response ends early or has tagged fields.
    """

    __slots__ = ("_at", "_error_at", "_group_error_at", "_group_rows", "_read")

    def __init__(self, body: bytes, row: dict[str, int]) -> None:
        cursor, raw = LayoutCursor(body), np.frombuffer(body, np.uint8)
        throttle = cursor.skip(4)
        topics: dict[str, int] = {}
        runs = _Runs()
        group_rows, group_error_at = [], []
        for _ in range(cursor.count()):
            group = row.get(cursor.text(), -1)
            for _ in range(cursor.count()):
                topic = topics.setdefault(cursor.text(), len(topics))
                runs.take(cursor, raw, group, topic)
                cursor.no_tags()
            group_rows.append(group)
            group_error_at.append(cursor.skip(2))
            cursor.no_tags()
        cursor.end()
        at, error_at, metadata_at, group_of, topic_of = runs.arrays()
        group_errors = places(np.array(group_error_at, np.intp), 0, 2)
        super().__init__(
            body,
            [
                places([throttle], 0, 4), places(at, _OFFSET_AT, 8), places(at, _EPOCH_AT, 4),
                metadata_at, places(error_at, 0, 2), group_errors,
            ],
        )  # fmt: skip
        in_request, groups = group_of >= 0, np.array(group_rows, np.intp)
        self._at, self._error_at = at[in_request], error_at[in_request]
        self._group_error_at, self._group_rows = group_errors[groups >= 0], groups[groups >= 0]
        self._read = CommittedOffsets(
            group_error=np.full(len(row), NO_ANSWER, np.int16),
            topic=tuple(topics),
            group_of=group_of[in_request],
            topic_of=topic_of[in_request],
            partition=values(raw, places(self._at, 0, 4)),
            offset=np.zeros(0, np.int64),
            error=np.zeros(0, np.int16),
        )

    def read(self, raw: Array) -> CommittedOffsets:
        """The numbers of a response that has this layout."""
        shape = self._read
        group_error = shape.group_error.copy()
        group_error[self._group_rows] = values(raw, self._group_error_at)
        return CommittedOffsets(
            group_error=group_error,
            topic=shape.topic,
            group_of=shape.group_of,
            topic_of=shape.topic_of,
            partition=shape.partition,
            offset=values(raw, places(self._at, _OFFSET_AT, 8)),
            error=values(raw, places(self._error_at, 0, 2)),
        )


class _Runs:
    """Positions of partitions, collected as runs of equal distances."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int, int, int]] = []
        self._metadata: list[Array] = [np.zeros(0, np.intp)]

    def take(self, cursor: LayoutCursor, raw: Array, group: int, topic: int) -> None:
        """The partitions of a topic: all at once if none has metadata, else one by one."""
        count = cursor.count()
        start = cursor.skip(count * _RECORD_BYTES)  # no partition is shorter
        if _are_plain(cursor.body, raw, start, count):
            self._runs.append((start, count, _HEAD_BYTES + 1, group, topic))
            return
        cursor.at = start
        for _ in range(count):
            at = cursor.skip(_HEAD_BYTES)
            length = cursor.count()
            text_at = cursor.skip(length)
            self._metadata.append(np.arange(text_at, text_at + length))
            self._runs.append((at, 1, cursor.skip(2) - at, group, topic))
            cursor.no_tags()

    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """Positions of partitions, error codes and metadata; group and topic of each partition."""
        start, count, error_at, group, topic = np.array(self._runs, np.intp).reshape(-1, 5).T
        first = np.repeat(np.cumsum(count) - count, count)
        at = np.repeat(start, count) + _RECORD_BYTES * (np.arange(len(first)) - first)
        return (
            at,
            at + np.repeat(error_at, count),
            np.concatenate(self._metadata),
            np.repeat(group, count).astype(np.int32),
            np.repeat(topic, count).astype(np.int32),
        )


def _are_plain(body: bytes, raw: Array, start: int, count: int) -> bool:
    """Whether the partitions at these positions have no metadata, so that all have one length.

    This is exact: all partitions before the first one with metadata are at these positions.
    """
    if count <= _FEW:  # for so few, numpy would take longer
        return all(
            body[at + _HEAD_BYTES] <= _EMPTY and not body[at + _RECORD_BYTES - 1]
            for at in range(start, start + count * _RECORD_BYTES, _RECORD_BYTES)
        )
    records = raw[start : start + count * _RECORD_BYTES].reshape(count, _RECORD_BYTES)
    return bool((records[:, _HEAD_BYTES] <= _EMPTY).all() and not records[:, -1].any())


_FEW: Final = 20


def decoded(body: bytes, version: int, groups: Sequence[str]) -> CommittedOffsets:
    """The same numbers, read by the codec."""
    response: Any = OffsetFetchResponse.decode(body, version=version)
    row = {name: i for i, name in enumerate(groups)}
    if version >= SEVERAL_GROUPS:
        answered = [(row.get(g.group_id, -1), g.error_code, g.topics) for g in response.groups]
    else:
        error = response.error_code if version >= _HAS_GROUP_ERROR else 0
        answered = [(0, error, response.topics)]
    group_error = np.full(len(groups), NO_ANSWER, np.int16)
    topics: dict[str, int] = {}
    rows: list[tuple[int, int, int, int, int]] = []
    for group, error, answered_topics in answered:
        if group < 0:
            continue
        group_error[group] = error
        for named in answered_topics:
            topic = topics.setdefault(named.name, len(topics))
            rows += [
                (group, topic, p.partition_index, p.committed_offset, p.error_code)
                for p in named.partitions
            ]
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return CommittedOffsets(
        group_error=group_error,
        topic=tuple(topics),
        group_of=columns[0].astype(np.int32),
        topic_of=columns[1].astype(np.int32),
        partition=columns[2].astype(np.int32),
        offset=columns[3],
        error=columns[4].astype(np.int16),
    )
