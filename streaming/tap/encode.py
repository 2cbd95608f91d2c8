"""Encodes parsed rows for the bus: one message for each shard, one frame in it for each table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from streaming.bus.arrow import dictionary, fixed, numbers, texts
from streaming.bus.bus_topics import shard_of
from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.topic_ids import LATER, Later, Topic
from twin.declarations.table import Table
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader
from twin.tables.observations import (
    FetchesFrame,
    IsrChangesFrame,
    LoggedUncleanElectionsFrame,
    PendingUploadLookupsFrame,
    TruncatedLogsFrame,
)

TopicRow = tuple[Topic, Any]

Resolve = Callable[[str], Topic | Later | None]
"""The topic of a name or of an id; ``LATER`` if it may be known soon; None if there is none."""


class RowCounts(NamedTuple):
    """Numbers of rows that were encoded and dropped."""

    encoded: Counter[str]  # by table
    dropped: Counter[str]  # by reason


class Deployment(NamedTuple):
    """The twin that the messages are for."""

    cluster: str
    shards: int


def messages(
    deployment: Deployment, parser: BrokerLogParser, resolve: Resolve, counts: RowCounts
) -> Iterator[tuple[int, bytes]]:
    """Shard and message of the rows of the parser whose topics are resolved.

    Rows stay with the parser while their topics may be resolved later. Rows of topics that do not
    exist are dropped.
    """
    by_shard: defaultdict[int, dict[str, list[TopicRow]]] = defaultdict(lambda: defaultdict(list))
    for table, rows in parser.rows_by_table():
        waiting = []
        for row in rows:
            topic = resolve(row.topic)
            if topic is None:
                counts.dropped["unknown_topic"] += 1
            elif topic == LATER:
                waiting.append(row)
            else:
                shard = shard_of(topic.name, deployment.shards)
                by_shard[shard][table.kind].append((topic, row))
                counts.encoded[table.kind] += 1
        rows[:] = waiting
    for shard, kinds in sorted(by_shard.items()):
        encoded: list[bytes] = []
        # ISR changes first: the query keeps a fetch longer if it was pending at such a change.
        for table in (
            IsrChangesFrame, FetchesFrame, PendingUploadLookupsFrame, TruncatedLogsFrame,
            LoggedUncleanElectionsFrame,
        ):  # fmt: skip
            if kinds[table.kind]:
                arrow = _arrow_table(table, kinds[table.kind], parser.broker)
                stamp = FrameHeader(
                    table.kind, deployment.cluster, shard, deployment.shards, parser.at_ms, 0
                )
                encoded += frames.encode_parts(Frame(stamp, arrow))
        for message in frames.batch_messages(encoded):
            yield shard, message


def _arrow_table(table: type[Table], topic_rows: Sequence[TopicRow], broker: int) -> pa.Table:
    """The rows in Arrow; in a column that they do not have (``leader``) all are ``broker``."""
    topics = list(dict.fromkeys(topic for topic, _ in topic_rows))
    position = {topic: i for i, topic in enumerate(topics)}
    indices = [position[topic] for topic, _ in topic_rows]
    columns = {
        "topic": dictionary(indices, texts([topic.name for topic in topics])),
        "topic_id": dictionary(indices, fixed([topic.topic_id for topic in topics], 16)),
    }
    fields = topic_rows[0][1]._fields
    for column in table.columns:
        if column.name in columns:
            continue
        values: Iterable[int] = (
            (getattr(row, column.name) for _, row in topic_rows)
            if column.name in fields
            else (broker for _ in topic_rows)
        )
        columns[column.name] = numbers(list(values), column.arrow)
    return pa.table([columns[c.name] for c in table.columns], schema=table.schema())
