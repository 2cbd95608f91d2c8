"""The stateful step as Spark runs it, in Spark's own tester: no JVM, no broker."""

from __future__ import annotations

import msgspec
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.query.processor import TwinProcessor
from tests.builders import (
    NOW_MS,
    Partition,
    Told,
    brokers_frame,
    epochs_frame,
    partitions_frame,
    replicas_frame,
    segments_frame,
)
from twin import fleet as fleets
from twin.frames import encode, join
from twin.tables import SegmentState

LATER_MS = NOW_MS + 5_000


def a_tester(shards: int = 1) -> TwsTester:
    return TwsTester(TwinProcessor(shards, "snapshots", "events"))


def rows(*messages: bytes, first_offset: int = 0) -> list[Row]:
    return [
        Row(
            key="c/0",
            value=value,
            topic="o",
            partition=3,
            offset=first_offset + i,
            timestamp_ms=NOW_MS,
        )
        for i, value in enumerate(messages)
    ]


def told(tester: TwsTester, *messages: bytes, key: str = "c/0", first_offset: int = 0):
    """(snapshots, events) that a batch gives."""
    # The tester makes a tuple of the key, as Spark does.
    out = tester.test(key, rows(*messages, first_offset=first_offset))
    snapshots = [fleets.decode(bytes(r.value)) for r in out if r.topic == "snapshots"]
    return snapshots, [msgspec.json.decode(bytes(r.value)) for r in out if r.topic == "events"]


def a_cycle(at_ms: int = NOW_MS, **partition) -> list[bytes]:
    parts = [Partition(**partition)]
    frames = (brokers_frame(at_ms=at_ms), partitions_frame(parts, at_ms))
    return [encode(frame) for frame in (*frames, replicas_frame(parts, at_ms))]


def test_a_batch_gives_one_snapshot_a_shard_and_no_news_at_first():
    snapshots, events = told(a_tester(), *a_cycle())
    assert [(f.observed_at_ms, len(f)) for f in snapshots] == [(NOW_MS, 1)]
    assert events == []


def test_several_cycles_of_one_batch_are_stepped_in_order_and_snapshot_once():
    late_first = [*a_cycle(LATER_MS, leader=2, epoch=2), *a_cycle()]
    snapshots, events = told(a_tester(), *late_first)
    assert [f.observed_at_ms for f in snapshots] == [LATER_MS]
    assert [e["text"] for e in events] == ["t-0 is led by 2, was 1"]


def test_the_state_carries_over_to_the_next_batch():
    tester = a_tester()
    told(tester, *a_cycle())
    _, events = told(tester, *a_cycle(LATER_MS, isr=(1, 2)))
    assert [e["text"] for e in events] == ["t-0: replica 3 left the ISR, [1, 2] stay"]


def test_a_shard_without_partitions_is_remembered_and_tells_what_changes():
    def empty(at_ms: int, **brokers) -> list[bytes]:
        frames = brokers_frame(at_ms=at_ms, **brokers), partitions_frame([], at_ms)
        return [encode(frame) for frame in frames]

    tester = a_tester()
    told(tester, *empty(NOW_MS))
    _, events = told(tester, *empty(NOW_MS + 1_000, fenced=[2]))
    assert [e["kind"] for e in events] == ["broker_fenced"]
    _, events = told(tester, *a_cycle(LATER_MS))
    assert "t-0 was created" in [e["text"] for e in events]


def test_a_batch_that_runs_again_says_the_same_again():
    cycles = [*a_cycle(), *a_cycle(LATER_MS, leader=2, epoch=2)]
    assert [e["id"] for e in told(a_tester(), *cycles)[1]] == [
        e["id"] for e in told(a_tester(), *cycles)[1]
    ]


def test_garbage_is_told_with_its_place_and_the_rest_still_counts():
    snapshots, events = told(a_tester(), b"garbage", *a_cycle(), first_offset=40)
    assert [len(f) for f in snapshots] == [1]
    assert [e["kind"] for e in events] == ["observation_refused"]
    place = {k: events[0][k] for k in ("reason", "key", "partition", "offset")}
    assert place == {"reason": "bytes", "key": "c/0", "partition": 3, "offset": 40}


def test_one_bad_frame_of_a_cycle_does_not_take_the_others_along():
    twice = encode(partitions_frame([Partition(), Partition()]))
    snapshots, events = told(a_tester(), twice, encode(replicas_frame([Partition()])))
    assert [len(f) for f in snapshots] == [1]
    assert [(e["reason"], e["offset"]) for e in events] == [("rows", 0)]


def test_frames_under_another_key_or_of_other_shards_are_refused():
    for tester, key in ((a_tester(), "c/7"), (a_tester(shards=4), "c/0")):
        snapshots, events = told(tester, *a_cycle(), key=key)
        assert snapshots == []
        assert {e["reason"] for e in events} == {"shard"}


def test_garbage_alone_leaves_no_state():
    tester = a_tester()
    assert told(tester, b"garbage")[0] == []
    snapshots, events = told(tester, *a_cycle())
    assert len(snapshots) == 1
    assert events == []


def test_what_was_seen_before_gives_no_snapshot():
    tester = a_tester()
    told(tester, *a_cycle(LATER_MS))
    assert told(tester, *a_cycle()) == ([], [])


def test_a_message_may_hold_all_frames_of_a_cycle():
    snapshots, _ = told(a_tester(), join(a_cycle()))
    assert len(snapshots[0].brokers.broker) == 3


def test_a_shard_without_partitions_is_known_and_its_first_topic_is_news():
    tester = a_tester()
    told(tester, encode(brokers_frame()), encode(partitions_frame([])))
    _, events = told(tester, *a_cycle(LATER_MS))
    assert [e["kind"] for e in events] == ["partition_created"]
    assert told(tester, encode(partitions_frame([]))) == ([], [])  # a late one


def a_copy(name: str = "a", first_offset: int = 0, **frame) -> list[bytes]:
    began = Told(SegmentState.COPY_STARTED, name, 0, 49, ((0, 0),))
    done = Told(SegmentState.COPY_FINISHED, name)
    events = segments_frame(Partition(), [began, done], first_offset=first_offset, **frame)
    return [encode(epochs_frame(Partition(), ((0, 0),))), encode(events)]


def test_remote_segments_are_remembered_from_batch_to_batch():
    tester = a_tester()
    snapshots, _ = told(tester, *a_cycle(), *a_copy())
    assert snapshots[0].lineage.remote_bytes.tolist() == [50]
    snapshots, _ = told(tester, *a_copy("b", first_offset=2))
    assert snapshots[0].lineage.remote_bytes.tolist() == [100]
    assert told(tester, *a_copy()) == ([], [])  # told again


def test_segments_that_were_told_before_their_partition_is_known_are_found_when_it_is():
    tester = a_tester()
    assert told(tester, *a_copy()) == ([], [])
    snapshots, _ = told(tester, *a_cycle())
    assert snapshots[0].lineage.remote_bytes.tolist() == [50]


def test_a_cycle_without_segments_neither_reads_nor_writes_the_archive():
    tester = a_tester()
    told(tester, *a_cycle(), *a_copy())
    unreadable = (b"would be discarded if it were read",)
    tester.updateValueState("archive", "c/0", unreadable)
    snapshots, events = told(tester, *a_cycle(LATER_MS))
    assert snapshots[0].lineage.remote_bytes.tolist() == [50]
    assert "state_discarded" not in [e["kind"] for e in events]
    assert tester.peekValueState("archive", "c/0") == unreadable


def test_an_event_that_cannot_be_does_not_take_the_others_along():
    bad = encode(segments_frame(Partition(), [Told(9, "b")]))
    snapshots, events = told(a_tester(), *a_cycle(), bad, *a_copy())
    assert snapshots[0].lineage.remote_bytes.tolist() == [50]
    assert [(e["kind"], e["reason"]) for e in events] == [("observation_refused", "rows")]


def test_events_of_another_number_of_shards_are_refused():
    tester = a_tester(shards=4)
    assert {e["reason"] for e in told(tester, *a_copy())[1]} == {"shard"}


def test_a_state_of_another_version_is_told_of_and_built_anew():
    tester = a_tester()
    told(tester, *a_cycle())
    for state in ("fleet", "archive"):
        tester.updateValueState(state, "c/0", (b"from another version",))
    snapshots, events = told(tester, *a_cycle(LATER_MS))
    assert [len(f) for f in snapshots] == [1]
    assert [e["kind"] for e in events] == ["state_discarded"] * 2
    assert "built anew" in events[0]["text"]
    _, events = told(tester, *a_cycle(LATER_MS + 5_000))
    assert events == []
