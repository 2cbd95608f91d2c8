"""Turns records of ``__remote_log_metadata`` into observations; Spark runs this on each batch.

Each record describes one partition's segment; it becomes a row of the table ``segments``, and rows
go to the observations under the key of their topic's shard. An unusable record becomes an event
with its position and the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from streaming.bus import record
from streaming.bus.bus_topics import shard_of
from streaming.query import event_rows
from streaming.query.remote_log.records import RecordRefused, SegmentEvent, decode
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader, InvalidFrame
from twin.tables.observations import SegmentsFrame

_ARROW: Final = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.binary())])
_ROWS_A_FRAME: Final = 5_000
"""Half a megabyte of random ids, so that a frame is below the size limit of messages."""

_REFUSED_SHARD: Final = 0
_Placed = tuple[int, SegmentEvent]  # offset of the record, event


class _Place(NamedTuple):
    """The position of a record, as in events."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def as_observations(
    batches: Iterator[pa.RecordBatch], cluster: str, shards: int, observations: str,
    events_topic: str,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """(topic, key, value) of batches with value, topic, partition, offset, timestamp_ms.

    The times in the frames of a metadata partition never decrease, so that they stay in order.
    """
    newest_ms: defaultdict[int, int] = defaultdict(int)
    for batch in batches:
        rows: list[tuple[str, str, bytes]] = []
        events_of: defaultdict[tuple[int, int], list[_Placed]] = defaultdict(list)
        columns = (
            batch.column(name).to_pylist()
            for name in ("value", "topic", "partition", "offset", "timestamp_ms")
        )
        for value, *where in zip(*columns, strict=True):
            place = _Place(*where)
            newest_ms[place.partition] = max(newest_ms[place.partition], place.timestamp_ms)
            if value is None:  # a tombstone, once Kafka compacts this topic (KIP-1266)
                continue
            try:
                event = decode(value)
            except RecordRefused as refusal:
                shard_key = record.key(cluster, _REFUSED_SHARD).decode()
                why = InvalidFrame(refusal.reason, refusal.detail)
                rows.append((events_topic, *event_rows.refused(shard_key, place, why)))
                continue
            if event is not None:
                shard = shard_of(event.topic, shards)
                events_of[place.partition, shard].append((place.offset, event))
        for (partition, shard), placed in events_of.items():
            key = record.key(cluster, shard).decode()
            header = FrameHeader(
                SegmentsFrame.kind, cluster, shard, shards, newest_ms[partition], 0
            )
            for first in range(0, len(placed), _ROWS_A_FRAME):
                message = frames.encode(
                    Frame(header, _table(placed[first : first + _ROWS_A_FRAME]))
                )
                rows.append((observations, key, message))
        out = [[row[i] for row in rows] for i in range(len(_ARROW))]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(out, _ARROW, strict=True)], schema=_ARROW
        )


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
