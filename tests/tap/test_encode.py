"""Parsed rows as messages for the bus."""

from __future__ import annotations

from collections import Counter

from streaming.bus.bus_topics import shard_of
from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.encode import Deployment, RowCounts, messages
from streaming.tap.topic_ids import LATER, Later, Topic
from tests.tap.lines import SAMPLE, SHRINK, SHRUNK, T0_MS, TOPIC_ID, UTC_ZONE, opening, stamped
from twin.declarations.table import UNKNOWN
from twin.engine import frames
from twin.engine.frames import Frame

DEPLOYMENT = Deployment("c", 4)
TOPICS = {
    TOPIC_ID: Topic("orders", b"o" * 16),
    "orders-eu": Topic("orders-eu", b"e" * 16),
    "t5": Topic("t5", b"5" * 16),
}


def parsed(*lines: bytes) -> BrokerLogParser:
    parser = BrokerLogParser(1, UTC_ZONE)
    for line in lines:
        parser.feed(line)
    parser.flush()
    return parser


def decoded(
    parser: BrokerLogParser, dropped: Counter[str] | None = None
) -> dict[tuple[int, str], Frame]:
    """Frames by shard and kind."""
    counts = RowCounts(Counter(), Counter() if dropped is None else dropped)
    encoded = messages(DEPLOYMENT, parser, TOPICS.get, counts)
    return {
        (shard, f.header.kind): f
        for shard, message in encoded
        for f in frames.decode(message).frames
    }


def test_each_topics_rows_go_to_its_shard_under_its_name():
    lines = [opening(T0_MS, {0: 40, 1: 7}), stamped(T0_MS + 4, SHRINK), stamped(T0_MS + 5, SHRUNK)]
    by_shard = decoded(parsed(*lines))
    orders, eu = (shard_of(name, 4) for name in ("orders", "orders-eu"))
    fetches, changes = by_shard[orders, "fetches"], by_shard[eu, "isr_changes"]
    assert fetches.rows.column("topic").to_pylist() == ["orders"] * 2
    assert fetches.rows.column("topic_id").to_pylist() == [b"o" * 16] * 2
    assert fetches.rows.column("leader").to_pylist() == [1, 1], "whose log it is"
    assert changes.rows.column("leader").to_pylist() == [4], "the log says it"
    assert changes.rows.column("left").to_pylist() == [True]
    assert (fetches.header.cluster, fetches.header.shards) == ("c", 4)
    assert fetches.header.observed_at_ms == T0_MS + 5, "the log's own time"


def test_a_parser_has_no_rows_once_they_are_messages():
    parser = parsed(opening(T0_MS, {0: 40}))
    assert decoded(parser)
    assert decoded(parser) == {}


def test_rows_of_unknown_topics_are_dropped_and_counted():
    dropped: Counter[str] = Counter()
    frames_by_shard = decoded(parsed(opening(T0_MS, {0: 40}, topic="unknown")), dropped)
    assert (frames_by_shard, dropped) == ({}, {"unknown_topic": 1})


def test_rows_wait_for_a_topic_that_may_be_resolved_later():
    parser = parsed(opening(T0_MS, {0: 40}), stamped(T0_MS + 4, SHRINK), stamped(T0_MS + 5, SHRUNK))
    counts = RowCounts(Counter(), Counter())
    topics: dict[str, Topic | Later] = TOPICS | {TOPIC_ID: LATER}
    [(shard, _)] = messages(DEPLOYMENT, parser, topics.get, counts)
    assert shard == shard_of("orders-eu", 4), "the others go on"
    assert (parser.row_count, counts) == (1, RowCounts(Counter(isr_changes=1), Counter()))

    [((_, kind), frame)] = decoded(parser).items()
    assert (kind, frame.rows.num_rows, parser.row_count) == ("fetches", 1, 0)


def test_the_log_of_a_real_broker_gives_the_same_messages_again():
    lines = SAMPLE.read_bytes().splitlines()
    keys = {row.topic for row in parsed(*lines).fetches} | {"t5"}
    topics = {key: Topic(f"topic-{key}", key.encode()[:16].ljust(16)) for key in keys}
    one, other = (
        list(messages(DEPLOYMENT, parsed(*lines), topics.get, RowCounts(Counter(), Counter())))
        for _ in range(2)
    )
    assert one == other
    assert one
    rows = [
        f.rows.num_rows
        for _, m in one
        for f in frames.decode(m).frames
        if f.header.kind == "fetches"
    ]
    assert sum(rows) == len(parsed(*lines).fetches)
    assert UNKNOWN not in rows
