"""Turns records of ``__remote_log_metadata`` into observations.

Each record describes one partition's segment; it becomes a row of the table ``segments``, and rows
go to the observations under the key of their topic's shard. An unusable record becomes an event
with its position and the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from streaming.bus import record
from streaming.bus.bus_topics import shard_of, topics
from streaming.bus.record import Record
from streaming.query import event_rows
from streaming.query.remote_log.records import RecordRefused, SegmentEvent, decode
from streaming.runtime.config import Config
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader, InvalidFrame
from twin.tables.observations import SegmentsFrame

_ROWS_A_FRAME: Final = 5_000
"""Half a megabyte of random ids, so that a frame is below the size limit of messages."""

_REFUSED_SHARD: Final = 0
_Placed = tuple[int, SegmentEvent]  # offset of the record, event


class Message(NamedTuple):
    """What is sent to a topic of the bus."""

    topic: str
    key: bytes
    value: bytes


class SegmentMessages:
    """Makes messages for the bus of the records of one cluster.

    The times in the frames of a metadata partition never decrease, so that they stay in order.
    """

    def __init__(self, config: Config) -> None:
        self._cluster, self._shards = config.cluster.name, config.bus.shards
        self._topics = topics(config)
        self._newest_ms: defaultdict[int, int] = defaultdict(int)

    def of(self, records: Iterable[Record]) -> Iterator[Message]:
        """The messages that say what these records say."""
        events_of: defaultdict[tuple[int, int], list[_Placed]] = defaultdict(list)
        for each in records:
            newest_ms = max(self._newest_ms[each.partition], each.timestamp_ms)
            self._newest_ms[each.partition] = newest_ms
            if each.value is None:  # a tombstone, once Kafka compacts this topic (KIP-1266)
                continue
            try:
                event = decode(each.value)
            except RecordRefused as refusal:
                yield self._refused(each, refusal)
                continue
            if event is not None:
                shard = shard_of(event.topic, self._shards)
                events_of[each.partition, shard].append((each.offset, event))
        for (partition, shard), placed in events_of.items():
            key = record.key(self._cluster, shard)
            header = FrameHeader(
                SegmentsFrame.kind, self._cluster, shard, self._shards,
                self._newest_ms[partition], 0,
            )  # fmt: skip
            for first in range(0, len(placed), _ROWS_A_FRAME):
                frame = Frame(header, _table(placed[first : first + _ROWS_A_FRAME]))
                yield Message(self._topics.observations, key, frames.encode(frame))

    def _refused(self, unusable: Record, refusal: RecordRefused) -> Message:
        shard_key = record.key(self._cluster, _REFUSED_SHARD).decode()
        why = InvalidFrame(refusal.reason, refusal.detail)
        key, value = event_rows.refused(shard_key, unusable, why)
        return Message(self._topics.events, key.encode(), value)


def _table(placed: list[_Placed]) -> pa.Table:
    topics = list(dict.fromkeys((event.topic, event.topic_id) for _, event in placed))
    at = {topic: i for i, topic in enumerate(topics)}
    index = pa.array([at[event.topic, event.topic_id] for _, event in placed], pa.int32())
    named = {
        "topic": pa.DictionaryArray.from_arrays(index, pa.array([n for n, _ in topics])),
        "topic_id": pa.DictionaryArray.from_arrays(
            index, pa.array([i for _, i in topics], pa.binary(16))
        ),
        "metadata_offset": pa.array([offset for offset, _ in placed], pa.int64()),
    }
    return pa.table(
        [
            named[c.name]
            if c.name in named
            else pa.array([getattr(event, c.name) for _, event in placed], c.arrow)
            for c in SegmentsFrame.columns
        ],
        schema=SegmentsFrame.schema(),
    )
