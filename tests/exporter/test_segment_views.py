"""Remote segments and leader epochs of a partition, as the API has them."""

from __future__ import annotations

from dataclasses import replace

from tests.builders import (
    Log,
    Partition,
    SegmentEvent,
    a_state,
    epochs_frame,
    segments_frame,
)
from tests.exporter.test_exporter import a_client, a_store
from twin.engine.shard_state import ShardState
from twin.rules.tiering.remote_segments import (
    MOST_OF_PARTITION,
    LeaderEpochs,
    RemoteSegments,
    bounded_epochs,
    bounded_segments,
)
from twin.step import step_segments
from twin.tables.enums import SegmentState, SegmentVerdict

STARTED, FINISHED = SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED
PART = Partition(log=Log(end=100_000))
HISTORY = [(0, 0), (2, 50)]
URL = "/api/v1/partitions/t/0"


def tiered(*events: SegmentEvent) -> ShardState:
    frames = [epochs_frame(PART, HISTORY), segments_frame(PART, events)]
    return step_segments(a_state(PART), {}, frames)[0]


def copied(name: str, start: int, end: int, *epochs: tuple[int, int]) -> list[SegmentEvent]:
    return [SegmentEvent(STARTED, name, start, end, epochs), SegmentEvent(FINISHED, name)]


ORPHAN = copied("orphan", 50, 69, (0, 50), (1, 60))
STATE = tiered(
    *copied("first", 0, 49, (0, 0)), *ORPHAN, SegmentEvent(STARTED, "open", 50, 99, ((2, 50),))
)


def test_an_orphan_is_listed_with_its_id_offsets_and_epochs():
    answer = a_client(a_store(STATE)).get(f"{URL}/segments").json()
    assert [(s["start_offset"], s["end_offset"], s["verdict"]) for s in answer["segments"]] == [
        (0, 49, "on_lineage"),
        (50, 69, "orphan"),
        (50, 99, "dangling"),
    ]
    orphan = answer["segments"][1]
    assert orphan["segment_id"] == "b3JwaGFuICAgICAgICAgIA", "as Kafka writes ids"
    assert orphan["state"] == "copy_finished"
    assert orphan["log_bytes"] == 20
    assert orphan["leader_epochs"] == [
        {"leader_epoch": 0, "start_offset": 50},
        {"leader_epoch": 1, "start_offset": 60},
    ]
    assert (answer["segments_known"], answer["segments_left_out"]) == (3, 0)


def test_the_history_of_leader_epochs_is_listed_from_the_oldest_on():
    answer = a_client(a_store(STATE)).get(f"{URL}/epochs").json()
    assert answer["epochs"] == [
        {"leader_epoch": 0, "start_offset": 0},
        {"leader_epoch": 2, "start_offset": 50},
    ]
    assert (answer["leader"], answer["leader_epoch"], answer["log_end_offset"]) == (1, 1, 100_000)
    assert (answer["epochs_known"], answer["epochs_left_out"]) == (2, 0)


def test_what_is_left_out_is_counted_and_never_the_orphan():
    events = [e for i in range(300) for e in copied(f"s{i}", 100 + i, 100 + i, (2, 100 + i))]
    answer = a_client(a_store(tiered(*ORPHAN, *events))).get(f"{URL}/segments").json()
    assert len(answer["segments"]) == MOST_OF_PARTITION
    assert (answer["segments_known"], answer["segments_left_out"]) == (301, 101)
    assert answer["segments"][0]["verdict"] == "orphan"
    assert answer["segments"][-1]["end_offset"] == 399, "the newest of the others stay"


def test_a_shard_lists_the_remarkable_ones_first():
    listed = bounded_segments(STATE[RemoteSegments], 2)
    assert set(listed.verdict.tolist()) == {SegmentVerdict.ORPHAN, SegmentVerdict.DANGLING}


def test_of_a_long_history_the_newest_epochs_are_listed_and_the_others_counted():
    history = [(epoch, epoch * 10) for epoch in range(MOST_OF_PARTITION + 50)]
    state = step_segments(a_state(PART), {}, [epochs_frame(PART, history)])[0]
    answer = a_client(a_store(state)).get(f"{URL}/epochs").json()
    assert answer["epochs"][0] == {"leader_epoch": 50, "start_offset": 500}
    assert (answer["epochs_known"], answer["epochs_left_out"]) == (250, 50)


def test_a_partition_for_which_its_shard_has_no_room_says_that_all_is_left_out():
    parts = [replace(PART, topic="t"), replace(PART, topic="u")]
    frames = [
        frame
        for at_ms, part in enumerate(parts)
        for frame in (
            epochs_frame(part, HISTORY),
            segments_frame(part, [replace(e, at_ms=at_ms) for e in copied("s", 0, 49, (0, 0))]),
        )
    ]
    state = step_segments(a_state(*parts), {}, frames)[0]
    state = state.with_tables(
        bounded_segments(state[RemoteSegments], 1), bounded_epochs(state[LeaderEpochs], 1)
    )
    client = a_client(a_store(state))
    older, newer = (client.get(f"/api/v1/partitions/{t}/0/segments").json() for t in "tu")
    assert (older["segments"], older["segments_known"], older["segments_left_out"]) == ([], 1, 1)
    assert (len(newer["segments"]), newer["segments_left_out"]) == (1, 0)
    first, second = (client.get(f"/api/v1/partitions/{t}/0/epochs").json() for t in "tu")
    assert [e["leader_epoch"] for e in first["epochs"]] == [2], "the newest of its history"
    assert (first["epochs_known"], first["epochs_left_out"]) == (2, 1)
    assert (second["epochs"], second["epochs_known"], second["epochs_left_out"]) == ([], 2, 2)


def test_a_partition_that_is_not_tiered_has_none_and_one_that_is_not_there_is_404():
    client = a_client(a_store(a_state(PART)))
    assert client.get(f"{URL}/segments").json()["segments"] == []
    assert client.get(f"{URL}/segments").json()["segments_known"] is None
    assert client.get(f"{URL}/epochs").json()["epochs"] == []
    assert client.get(f"{URL}/epochs").json()["epochs_known"] is None
    for wrong in ("/api/v1/partitions/t/7/segments", "/api/v1/partitions/u/0/epochs"):
        assert client.get(wrong).status_code == 404
