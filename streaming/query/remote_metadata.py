"""``__remote_log_metadata`` as frames: what Spark runs on each batch of its records.

Each record tells of one partition's segment; it becomes a row of the table ``segments``, and rows
go to the shard of their topic as observations do. A record that cannot be used goes on as a row
that says why, so that the stateful step tells of it like of any other observation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from streaming import bus
from streaming.query.remote_records import RecordRefused, SegmentEvent, decode
from twin import frames
from twin.frames import Frame, Stamp
from twin.tables import SEGMENTS

TOPIC: Final = "__remote_log_metadata"

SCHEMA: Final = (
    "key string, value binary, topic string, partition int, offset long, timestamp_ms long, "
    "refused string"
)
"""Rows of the stateful step. ``refused`` is empty for one that is to be decoded."""

_ARROW: Final = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("refused", pa.string()),
    ]
)
_ROWS_A_FRAME: Final = 5_000
"""Half a megabyte of random ids: a frame below the limit of a message."""

_REFUSED_SHARD: Final = 0
_Placed = tuple[int, SegmentEvent]  # offset of its record, event


def as_observations(
    batches: Iterator[pa.RecordBatch], cluster: str, shards: int
) -> Iterator[pa.RecordBatch]:
    """Rows as SCHEMA has them, of batches with value, topic, partition, offset, timestamp_ms.

    The frames of a metadata partition bear times that never fall, so that they stay in order.
    """
    newest_ms: defaultdict[int, int] = defaultdict(int)
    for batch in batches:
        rows: list[tuple[object, ...]] = []
        told: defaultdict[tuple[int, int], list[_Placed]] = defaultdict(list)
        columns = (batch.column(name).to_pylist() for name in
                   ("value", "topic", "partition", "offset", "timestamp_ms"))  # fmt: skip
        for value, topic, partition, offset, at_ms in zip(*columns, strict=True):
            newest_ms[partition] = max(newest_ms[partition], at_ms)
            try:
                event = decode(value or b"")
            except RecordRefused as refusal:
                key = bus.key(cluster, _REFUSED_SHARD).decode()
                rows.append((key, b"", topic, partition, offset, at_ms, str(refusal)))
                continue
            if event is not None:
                shard = bus.shard_of(event.topic, shards)
                told[partition, shard].append((offset, event))
        for (partition, shard), placed in told.items():
            key = bus.key(cluster, shard).decode()
            for first in range(0, len(placed), _ROWS_A_FRAME):
                some = placed[first : first + _ROWS_A_FRAME]
                stamp = Stamp(SEGMENTS.kind, cluster, shard, shards, newest_ms[partition], 0)
                message = frames.encode(Frame(stamp, _table(some)))
                rows.append((key, message, TOPIC, partition, some[0][0], stamp.observed_at_ms, ""))
        columns_out = [[row[i] for row in rows] for i in range(len(_ARROW))]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns_out, _ARROW, strict=True)], schema=_ARROW
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
            else pa.array([getattr(event, c.name) for _, event in placed], c.dtype)
            for c in SEGMENTS.columns
        ],
        schema=SEGMENTS.schema,
    )
