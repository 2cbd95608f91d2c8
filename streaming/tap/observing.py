"""What was read from logs as messages for the bus: one a shard, with a frame a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from streaming import bus
from streaming.bus.arrow import dictionary, fixed, numbers, texts
from streaming.tap.reading import Reading
from twin import frames
from twin.frames import Frame, Stamp
from twin.tables import FETCHES, ISR_CHANGES, TIER_STARTS, Table

Topic = tuple[str, bytes]
Named = tuple[Topic, Any]


class Deployment(NamedTuple):
    """Whom the messages are for."""

    cluster: str
    shards: int


def messages(
    of: Deployment,
    reading: Reading,
    name_of: Callable[[str], Topic | None],
    dropped: Counter[str],
) -> Iterator[tuple[int, bytes]]:
    """Shard and message of all that waits in a reading, which is empty then.

    Rows of topics that nobody can name are dropped, and counted.
    """
    by_shard: defaultdict[int, dict[str, list[Named]]] = defaultdict(lambda: defaultdict(list))
    for table, rows in (
        (FETCHES, reading.fetches),
        (ISR_CHANGES, reading.moves),
        (TIER_STARTS, reading.starts),
    ):
        for row in rows:
            topic = name_of(row.topic)
            if topic is None:
                dropped["unknown_topic"] += 1
                continue
            by_shard[bus.shard_of(topic[0], of.shards)][table.kind].append((topic, row))
        rows.clear()
    for shard, kinds in sorted(by_shard.items()):
        encoded: list[bytes] = []
        # Departures first: of fetches those are remembered that waited at such a moment.
        for table in (ISR_CHANGES, FETCHES, TIER_STARTS):
            if kinds[table.kind]:
                rows = _table(table, kinds[table.kind], reading.broker)
                stamp = Stamp(table.kind, of.cluster, shard, of.shards, reading.at_ms, 0)
                encoded += frames.encode_parts(Frame(stamp, rows))
        for message in frames.packed(encoded):
            yield shard, message


def _table(table: Table, named: Sequence[Named], broker: int) -> pa.Table:
    """The rows as the table has them; ``leader`` is the broker whose log it is, if no row says."""
    topics = list(dict.fromkeys(topic for topic, _ in named))
    at = {topic: i for i, topic in enumerate(topics)}
    index = [at[topic] for topic, _ in named]
    names, ids = texts([n for n, _ in topics]), fixed([i for _, i in topics], 16)
    columns = {"topic": dictionary(index, names), "topic_id": dictionary(index, ids)}
    given = named[0][1]._fields
    for column in table.columns:
        if column.name in columns:
            continue
        values: Iterable[int] = (
            (getattr(row, column.name) for _, row in named)
            if column.name in given
            else (broker for _ in named)
        )
        columns[column.name] = numbers(list(values), column.dtype)
    return pa.table([columns[c.name] for c in table.columns], schema=table.schema)
