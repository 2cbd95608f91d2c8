"""Rows of a reading as messages for the bus."""

from __future__ import annotations

from collections import Counter

from streaming import bus
from streaming.tap.names import written
from streaming.tap.observing import Deployment, messages
from streaming.tap.reading import Reading
from tests.tap.lines import SAMPLE, SHRINK, T0_MS, TOPIC_ID, UTC_ZONE, opening, stamped
from twin import frames
from twin.frames import Frame
from twin.tables import UNKNOWN

OF = Deployment("c", 4)
KNOWN = {
    TOPIC_ID: ("orders", b"o" * 16),
    "orders-eu": ("orders-eu", b"e" * 16),
    "t5": ("t5", b"5" * 16),
}


def read(*lines: bytes) -> Reading:
    made = Reading(1, UTC_ZONE)
    for line in lines:
        made.take(line)
    made.rest()
    return made


def decoded(reading: Reading, dropped: Counter[str] | None = None) -> dict[tuple[int, str], Frame]:
    told = messages(OF, reading, KNOWN.get, Counter() if dropped is None else dropped)
    return {(shard, f.stamp.kind): f for shard, message in told for f in frames.decode(message)}


def test_each_topics_rows_go_to_its_shard_under_its_name():
    lines = [opening(T0_MS, {0: 40, 1: 7}), stamped(T0_MS + 5, SHRINK)]
    found = decoded(read(*lines))
    orders, eu = (bus.shard_of(name, 4) for name in ("orders", "orders-eu"))
    fetches, moves = found[orders, "fetches"], found[eu, "isr_changes"]
    assert fetches.rows.column("topic").to_pylist() == ["orders"] * 2
    assert fetches.rows.column("topic_id").to_pylist() == [b"o" * 16] * 2
    assert fetches.rows.column("leader").to_pylist() == [1, 1], "whose log it is"
    assert moves.rows.column("leader").to_pylist() == [4], "the log says it"
    assert moves.rows.column("left").to_pylist() == [True]
    assert (fetches.stamp.cluster, fetches.stamp.shards) == ("c", 4)
    assert fetches.stamp.observed_at_ms == T0_MS + 5, "the log's own time"


def test_a_reading_is_empty_once_its_rows_are_messages():
    reading = read(opening(T0_MS, {0: 40}))
    assert decoded(reading)
    assert decoded(reading) == {}


def test_topics_nobody_can_name_are_dropped_and_counted():
    dropped: Counter[str] = Counter()
    found = decoded(read(opening(T0_MS, {0: 40}, topic="unknown")), dropped)
    assert (found, dropped) == ({}, {"unknown_topic": 1})


def test_a_topic_id_is_written_as_kafka_does():
    assert written(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert len(written(b"\xff" * 16)) == 22


def test_the_sample_of_a_real_broker_replays_to_the_same_messages():
    lines = SAMPLE.read_bytes().splitlines()
    names = {key: (f"topic-{key}", key.encode()[:16].ljust(16)) for key in
             {row.topic for row in read(*lines).fetches} | {"t5"}}  # fmt: skip
    one, other = (list(messages(OF, read(*lines), names.get, Counter())) for _ in range(2))
    assert one == other
    assert one
    rows = [f.rows.num_rows for _, m in one for f in frames.decode(m) if f.stamp.kind == "fetches"]
    assert sum(rows) == len(read(*lines).fetches)
    assert UNKNOWN not in rows
