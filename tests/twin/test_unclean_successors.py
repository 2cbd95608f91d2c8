"""The cost of an unclean election, and where replicas that were away truncate."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.asking import partition_object
from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    SegmentEvent,
    a_state,
    epoch_ends_frame,
    epochs_frame,
    segments_frame,
)
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.step import step, step_segments
from twin.tables.enums import SegmentState

UPLOADED = ((0, 39), (40, 79), (80, 99))


def partition(**more: Any) -> Partition:
    """Broker 1 leads alone up to 120; 2 ends at 60 and 3 is not known."""
    return Partition(isr=(1,), logs={1: Log(end=120), 2: Log(end=60)}, silent=(3,), **more)


def tiered(part: Partition, uploaded: tuple[tuple[int, int], ...] = UPLOADED) -> ShardState:
    events = []
    for start, end in uploaded:
        name = f"s{start}"
        events += [
            SegmentEvent(SegmentState.COPY_STARTED, name, start, end, ((0, start),)),
            SegmentEvent(SegmentState.COPY_FINISHED, name),
        ]
    topics = {"t": {"unclean_leader_election": 1, "remote_storage": 1}}
    frames = [epochs_frame(part, [(0, 0)]), segments_frame(part, events)]
    return step_segments(a_state(part, topics=topics), {}, frames)[0]


def shown(state: ShardState) -> dict[str, Any]:
    return partition_object(state, NOW_MS)


def test_each_replica_outside_the_isr_says_what_it_would_lose_and_orphan():
    assert shown(tiered(partition()))["unclean_successors"] == [
        {"broker": 2, "records_lost": 60, "orphaned_segments": 2, "orphaned_bytes": 60},
        {"broker": 3, "records_lost": None, "orphaned_segments": None, "orphaned_bytes": None},
    ]
    assert shown(tiered(partition(elr=(2, 3))))["unclean_successors"] == []


def test_without_known_segments_orphans_are_unknown():
    [second, _] = shown(a_state(partition()))["unclean_successors"]
    assert (second["records_lost"], second["orphaned_bytes"]) == (60, None)


def test_segments_that_are_not_listed_make_orphans_unknown_unless_the_listed_reach_below():
    """Of 300 segments the last 200 are listed: those that begin at offset 100 and above."""
    many = tuple((n, n) for n in range(300))
    for end, orphans in ((50, None), (100, None), (101, 199), (250, 50)):
        part = Partition(isr=(1,), logs={1: Log(end=300), 2: Log(end=end)}, silent=(3,))
        [second, _] = shown(tiered(part, many))["unclean_successors"]
        assert second["orphaned_segments"] == orphans


def test_losing_the_leader_shows_the_bytes_that_an_unclean_successor_orphans():
    state = tiered(partition(offline=(3,)))
    loss = whatif.lose(state, [1])
    assert whatif.successor_costs(state, loss, np.array([0])).orphaned_bytes.tolist() == [60]


def test_what_a_replica_that_must_truncate_has_in_common_ends_where_it_truncates():
    """Leader 1 was lost at 120, 2 began at 60 and is at 90 and then at 150."""
    before = a_state(partition())
    for end in (90, 150):
        logs = {1: Log(end=120), 2: Log(end=end), 3: Log(end=end)}
        part = Partition(leader=2, isr=(2, 3), epoch=2, logs=logs, silent=(1,))
        state = a_state(part, since=before, at_ms=NOW_MS + 5_000)
        assert shown(state)["unclean_successors"][0]["records_lost"] is None, "not known yet"
        state, _ = step(state, [epoch_ends_frame(part, 1, 60, NOW_MS + 5_000)], NOW_MS + 5_000)
        assert shown(state)["unclean_successors"] == [
            {"broker": 1, "records_lost": end - 60, "orphaned_segments": None,
             "orphaned_bytes": None}
        ]  # fmt: skip


def test_a_replica_truncates_to_where_the_new_leader_began_for_as_long_as_it_is_away():
    def led_by_2(at_ms: int, since: ShardState, silent: tuple[int, ...]) -> ShardState:
        logs = {1: Log(end=60), 2: Log(end=95)}
        part = Partition(leader=2, isr=(2,), epoch=2, logs=logs, silent=silent)
        state = a_state(part, since=since, at_ms=at_ms)
        return step(state, [epoch_ends_frame(part, 1, 60, at_ms)], at_ms)[0]

    before = a_state(partition())
    assert shown(before)["truncations"] == []
    state = led_by_2(NOW_MS + 5_000, before, (1, 3))
    for hours in (0, 1, 30):
        state = led_by_2(NOW_MS + 6_000 + hours * 3_600_000, state, (1, 3))
        assert shown(state)["truncations"] == [{"broker": 1, "to_offset": 60, "records": 60}]
    state = led_by_2(NOW_MS + 40 * 3_600_000, state, (3,))
    assert shown(state)["truncations"] == [], "it is back, and has done so"


def test_without_the_leaders_epochs_it_is_unknown_where_a_replica_truncates():
    part = Partition(leader=2, isr=(2,), epoch=2, logs={2: Log(end=95)}, silent=(1, 3))
    state = a_state(partition())
    for ms in (5_000, 20_000, 25_000):
        state = a_state(part, since=state, at_ms=NOW_MS + ms)
    assert shown(state)["truncations"] == [{"broker": 1, "to_offset": None, "records": None}]
    assert [s["records_lost"] for s in shown(state)["unclean_successors"]] == [None, None]


def test_a_longer_log_that_parted_before_loses_all_since_then():
    """1 began at 450 while 2, which ends at 600, was away; then 1 is lost at 500 and 2 leads."""
    silent = {"silent": (2, 3)}
    second = Partition(leader=2, isr=(2,), epoch=1, logs={2: Log(end=600)}, silent=(1, 3))
    first = Partition(leader=1, isr=(1,), epoch=2, logs={1: Log(end=500)}, **silent)
    again = Partition(leader=2, isr=(2,), epoch=3, logs={2: Log(end=610)}, silent=(1, 3))
    state = a_state(second)
    for n, (part, prev_epoch, end) in enumerate([(first, 1, 450), (again, 2, 600)], start=1):
        at_ms = NOW_MS + n * 5_000
        state = a_state(part, since=state, at_ms=at_ms)
        state, _ = step(state, [epoch_ends_frame(part, prev_epoch, end, at_ms)], at_ms)
    first_loss, second_loss = shown(state)["records_lost"]
    assert (first_loss["start_offset"], first_loss["end_offset"]) == (450, 600)
    assert (second_loss["start_offset"], second_loss["end_offset"]) == (450, 500)
    assert shown(state)["truncations"] == [{"broker": 1, "to_offset": 450, "records": 50}]


def test_a_former_leader_that_answers_while_its_leader_does_not_may_not_have_truncated():
    """Leader 1 was lost at 120, 2 began at 60; 1 is back at 130 while 2 is silent at 90."""

    def led_by_2(since: ShardState, seconds: int, silent: tuple[int, ...]) -> ShardState:
        logs = {1: Log(end=130), 2: Log(end=90)}
        part = Partition(leader=2, isr=(2,), epoch=2, logs=logs, silent=silent)
        at_ms = NOW_MS + seconds * 1_000
        state = a_state(part, since=since, at_ms=at_ms)
        ends = [epoch_ends_frame(part, 1, 60, at_ms)] if 2 not in silent else []
        return step(state, ends, at_ms)[0]

    state = led_by_2(a_state(partition()), 5, (1, 3))
    assert shown(state)["unclean_successors"][0]["records_lost"] == 30
    back = led_by_2(state, 10, (2, 3))
    assert shown(back)["unclean_successors"][0]["records_lost"] is None
    assert shown(back)["truncations"] == []
    stands = led_by_2(back, 15, (3,))
    assert shown(stands)["unclean_successors"][0]["records_lost"] == 30, "130 is not of 2's log"
    assert shown(stands)["truncations"] == [{"broker": 1, "to_offset": 60, "records": 70}]

    leads = Partition(leader=1, isr=(1,), epoch=3, logs={1: Log(end=130)}, silent=(2, 3))
    state = a_state(leads, since=back, at_ms=NOW_MS + 15_000)
    state, _ = step(state, [epoch_ends_frame(leads, 2, 130, NOW_MS + 15_000)], NOW_MS + 15_000)
    loss = shown(state)["records_lost"][-1]
    assert (loss["start_offset"], loss["end_offset"]) == (60, 90)
    assert not loss["start_is_exact"]


def test_a_replica_that_has_truncated_is_not_expected_to_truncate_there_again():
    """1 truncates to 60 and follows 2 to 200; then it is away while 3 begins at 180."""
    state = a_state(partition())
    second = {"leader": 2, "isr": (2, 3), "epoch": 2, "logs": {n: Log(end=200) for n in (1, 2, 3)}}
    third = {**second, "leader": 3, "isr": (3,), "epoch": 3, "logs": {3: Log(end=210)}}
    cycles = (
        (Partition(**second, silent=(1,)), 1, 60),
        (Partition(**second), None, None),
        (Partition(**third, silent=(1, 2)), 2, 180),
    )
    for n, (part, prev_epoch, end) in enumerate(cycles, start=1):
        at_ms = NOW_MS + n * 5_000
        state = a_state(part, since=state, at_ms=at_ms)
        if end:
            state, _ = step(state, [epoch_ends_frame(part, prev_epoch, end, at_ms)], at_ms)
    assert shown(state)["truncations"] == [
        {"broker": 1, "to_offset": 180, "records": 20},
        {"broker": 2, "to_offset": 180, "records": 20},
    ]


def test_what_a_replica_answered_in_the_new_epoch_may_be_of_that_epoch():
    """1 leads on in epoch 2 from 60, unseen for a cycle in which 2 answers that it ends at 70."""
    state = a_state(Partition(isr=(1, 2), logs={1: Log(60), 2: Log(60)}, silent=(3,)))
    for n, (end, silent) in enumerate([(70, (1, 3)), (90, (2, 3))], start=1):
        logs = {1: Log(90), 2: Log(end)}
        part = Partition(isr=(1,), epoch=2, logs=logs, silent=silent)
        state = a_state(part, since=state, at_ms=NOW_MS + n * 5_000)
    state, _ = step(state, [epoch_ends_frame(part, 1, 60, NOW_MS + 10_000)], NOW_MS + 10_000)
    assert shown(state)["truncations"] == []
    assert shown(state)["unclean_successors"][0] == {
        "broker": 2, "records_lost": None, "orphaned_segments": None, "orphaned_bytes": None
    }  # fmt: skip


def test_a_diverged_leader_that_answers_late_loses_all_since_it_diverged():
    """2, which ends at 600 and differs from 450 on, leads for a cycle before it answers."""
    second = Partition(leader=2, isr=(2,), epoch=1, logs={2: Log(end=600)}, silent=(1, 3))
    first = Partition(leader=1, isr=(1,), epoch=2, logs={1: Log(end=500)}, silent=(2, 3))
    again = {"leader": 2, "isr": (2,), "epoch": 3, "logs": {2: Log(end=610)}}
    cycles = (
        (first, 1, 450),
        (Partition(**again, silent=(1, 2, 3)), None, None),
        (Partition(**again, silent=(1, 3)), 2, 600),
    )
    state = a_state(second)
    for n, (part, prev_epoch, end) in enumerate(cycles, start=1):
        at_ms = NOW_MS + n * 5_000
        state = a_state(part, since=state, at_ms=at_ms)
        if end:
            state, _ = step(state, [epoch_ends_frame(part, prev_epoch, end, at_ms)], at_ms)
    loss = shown(state)["records_lost"][-1]
    assert (loss["start_offset"], loss["end_offset"]) == (450, 500)


def test_what_a_replica_wrote_while_it_led_unseen_is_not_what_the_leader_has():
    """1 led epoch 2 up to 70 without an answer; 2 leads from 60, and hangs when 1 returns."""
    state = a_state(Partition(isr=(1, 2, 3), log=Log(60), leader=3))
    again = {"leader": 2, "isr": (2,), "epoch": 3, "silent": (1, 3)}
    cycles = (
        Partition(leader=1, isr=(1, 2), epoch=2, logs={2: Log(60)}, silent=(1, 2, 3)),
        Partition(**again, logs={2: Log(90)}),
        Partition(**{**again, "silent": (2, 3)}, logs={1: Log(70), 2: Log(90)}),
    )
    for n, part in enumerate(cycles, start=1):
        at_ms = NOW_MS + n * 5_000
        state = a_state(part, since=state, at_ms=at_ms)
        if n == 2:
            state, _ = step(state, [epoch_ends_frame(part, 1, 60, at_ms)], at_ms)
    lacking = {s["broker"]: s["records_lost"] for s in shown(state)["unclean_successors"]}
    assert lacking[1] is None


def test_a_replica_that_has_records_of_the_old_leaders_epoch_had_truncated_to_its_log():
    """1 differed from 2 from 60 on, was back and followed it to 90 while 2 was not polled."""
    state = a_state(Partition(isr=(1, 2), logs={1: Log(70), 2: Log(60)}, silent=(3,)))
    second = {"leader": 2, "isr": (2,), "epoch": 2}
    cycles = (
        (Partition(**second, logs={2: Log(90)}, silent=(1, 3)), 1, 60, 1),
        (Partition(**second, logs={1: Log(90), 2: Log(90)}, silent=(2, 3)), None, None, 0),
        (Partition(isr=(1,), epoch=3, logs={1: Log(90), 2: Log(90)}, silent=(2, 3)), 2, 90, 2),
    )
    for n, (part, prev_epoch, end, found_epoch) in enumerate(cycles, start=1):
        at_ms = NOW_MS + n * 5_000
        state = a_state(part, since=state, at_ms=at_ms)
        if end:
            frame = epoch_ends_frame(part, prev_epoch, end, at_ms, found_epoch)
            state, _ = step(state, [frame], at_ms)
    assert shown(state)["truncations"] == []
    assert [loss["cause"] for loss in shown(state)["records_lost"]] == ["acks_1"]


def after_cycles(
    state: ShardState, cycles: tuple[tuple[Partition, int, int, int] | Partition, ...]
) -> ShardState:
    """After each: a partition, and perhaps the epoch before, where it ends, the epoch found."""
    for n, each in enumerate(cycles, start=1):
        part, *end = each if isinstance(each, tuple) else (each,)
        at_ms = NOW_MS + n * 5_000
        state = a_state(part, since=state, at_ms=at_ms)
        if end:
            prev_epoch, end_offset, found_epoch = end
            frame = epoch_ends_frame(part, prev_epoch, end_offset, at_ms, found_epoch)
            state, _ = step(state, [frame], at_ms)
    return state


def test_a_follower_that_truncated_between_two_polls_and_leads_then_has_not_lost_records():
    """3 followed 1 to 28, truncates to 16 under 2, and leads in sync before it has more."""
    second = {"leader": 2, "isr": (2, 3), "epoch": 2, "offline": (1,), "silent": (1,)}
    third = {"leader": 3, "isr": (3,), "epoch": 3, "offline": (1, 2), "silent": (1, 2)}
    state = after_cycles(
        a_state(Partition(isr=(1, 2, 3), logs={1: Log(28), 2: Log(16), 3: Log(28)})),
        (
            (Partition(**second, logs={2: Log(21), 3: Log(16)}), 1, 16, 1),
            (Partition(**third, logs={3: Log(30)}), 2, 16, 1),
        ),
    )
    assert [loss["cause"] for loss in shown(state)["records_lost"]] == ["acks_1", "acks_1"]


def test_a_leader_from_the_elr_that_never_truncated_loses_all_since_it_diverged():
    """1 was lost with 20 records; 2 leads from 9, and is lost when 1 is back, still in the ELR."""
    second = {"leader": 2, "isr": (2,), "elr": (1,), "epoch": 2, "silent": (1, 3)}
    first = {"leader": 1, "isr": (1,), "elr": (2,), "epoch": 3, "silent": (2, 3)}
    state = after_cycles(
        a_state(Partition(isr=(1, 2), logs={1: Log(11), 2: Log(9)}, silent=(3,))),
        (
            (Partition(**second, logs={2: Log(23)}), 1, 9, 1),
            (Partition(**first, logs={1: Log(20)}), 2, 20, 1),
        ),
    )
    loss = shown(state)["records_lost"][-1]
    assert (loss["start_offset"], loss["end_offset"]) == (9, 23)


def test_who_is_away_may_have_more_than_it_last_answered():
    """3 was last polled at 14, and had 18 when it was lost; 2 leads from 16."""
    second = {"leader": 2, "isr": (2,), "epoch": 2}
    state = after_cycles(
        a_state(Partition(isr=(1, 2, 3), logs={1: Log(16), 2: Log(14), 3: Log(14)})),
        (
            (Partition(**second, logs={2: Log(20)}, silent=(1, 3)), 1, 16, 1),
            Partition(**second, logs={2: Log(20), 3: Log(18)}, silent=(1, 2)),
        ),
    )
    lacking = {s["broker"]: s["records_lost"] for s in shown(state)["unclean_successors"]}
    assert lacking[3] is None
