"""Up to where records are committed, and whose number that is."""

from dataclasses import replace

import pytest

from tests.builders import (
    NOW_MS,
    Fetch,
    Group,
    Log,
    Partition,
    a_state,
    fetches_frame,
    group_offsets_frame,
    groups_frame,
)
from tests.reading import computed
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupLags
from twin.rules.reading.open_transactions import OpenTransactions
from twin.rules.replication.high_watermark import HighWatermarks, HighWatermarkSource
from twin.step import step
from twin.tables.state import LoggedHighWatermarks

PART = Partition(logs={2: Log(end=90), 3: Log(end=80)}, isr=(1, 2))
ANSWER = Fetch(NOW_MS - 100, offset=85, leader_end=100, high_watermark=85, part=PART)


def watermark(state: ShardState) -> tuple[int, int]:
    watermarks = state[HighWatermarks]
    [exported] = computed(state, "kafka_twin_partition_high_watermark_offset").tolist()
    assert exported == watermarks.high_watermark[0]
    return int(exported), int(watermarks.high_watermark_source[0])


def after(*fetches: Fetch) -> ShardState:
    state = a_state(PART)
    for fetch in fetches:
        state, _ = step(state, [fetches_frame([fetch])], NOW_MS)
    return state


def test_it_is_estimated_by_the_lowest_log_end_of_the_isr():
    assert watermark(a_state(PART)) == (90, HighWatermarkSource.ISR)


def test_each_leader_says_it_itself():
    logs = {1: Log(end=100, high_watermark=70), 2: Log(end=90)}
    assert watermark(a_state(replace(PART, logs=logs))) == (70, HighWatermarkSource.LEADER)


def test_the_high_watermark_stands_below_min_isr_whatever_the_log_ends_are():
    """KAFKA-15583, since Kafka 3.7; an older answer of the leader counts for nothing either."""
    part = Partition(isr=(1,), logs={1: Log(end=150, high_watermark=100, last_stable=100)})
    state = a_state(part, min_insync_replicas=2)
    assert watermark(state) == (100, HighWatermarkSource.LEADER)
    assert not len(state[OpenTransactions])
    silent_about_it = replace(part, logs={1: Log(end=150)})
    assert watermark(a_state(silent_about_it, min_insync_replicas=2)) == (UNKNOWN, UNKNOWN)
    assert watermark(a_state(silent_about_it, min_insync_replicas=1))[0] == 150


@pytest.mark.parametrize("who", [1, 2])
def test_a_sample_of_an_earlier_cycle_is_no_high_watermark_of_this_one(who):
    state = a_state(PART)
    state = a_state(replace(PART, silent=(who,)), since=state, at_ms=NOW_MS + 5_000)
    assert watermark(state) == (UNKNOWN, UNKNOWN)


def test_a_group_is_behind_by_the_leaders_word_although_a_follower_does_not_answer_the_twin():
    part = Partition(logs={1: Log(end=30_000, high_watermark=30_000), 2: Log(end=1_000)})
    state = a_state(part)
    part = replace(part, silent=(2,))
    group = Group(offsets=[(part, 1_000)])
    for after_ms in (5_000, 10_000):
        at_ms = NOW_MS + after_ms
        frames = [groups_frame([group], at_ms), group_offsets_frame([group], at_ms)]
        state, _ = step(a_state(part, since=state, at_ms=at_ms), frames, at_ms)
    assert state[GroupLags].lag_records.tolist() == [29_000]


def test_it_is_unknown_where_a_member_of_the_isr_never_answered():
    assert watermark(a_state(replace(PART, silent=(2,)))) == (UNKNOWN, UNKNOWN)


def test_the_leaders_own_number_is_taken_where_a_tap_saw_its_answer():
    assert watermark(after(ANSWER)) == (85, HighWatermarkSource.LEADER)


@pytest.mark.parametrize(
    "other",
    [
        replace(ANSWER, leader=3),  # not the leader
        replace(ANSWER, epoch=0),  # of an earlier leader epoch
        replace(ANSWER, high_watermark=UNKNOWN),  # not sent
        replace(ANSWER, error=6),
    ],
)
def test_an_answer_that_does_not_hold_is_not_taken(other):
    assert watermark(after(other)) == (90, HighWatermarkSource.ISR)


def test_the_newest_answer_holds_in_whatever_order_they_arrive():
    later = replace(ANSWER, arrived_ms=NOW_MS - 50, high_watermark=88, broker=3)
    assert watermark(after(ANSWER, later)) == watermark(after(later, ANSWER)) == (88, 1)
    assert len(after(ANSWER, later)[LoggedHighWatermarks]) == 1


def test_an_answer_from_before_the_previous_cycle_no_longer_holds():
    state = after(ANSWER)
    for seconds in (5, 10):
        state = a_state(PART, at_ms=NOW_MS + seconds * 1_000, since=state)
    assert watermark(state) == (90, HighWatermarkSource.ISR)


def test_a_repeated_answer_changes_nothing():
    state = after(ANSWER)
    again, _ = step(state, [fetches_frame([ANSWER])], NOW_MS)
    assert again[LoggedHighWatermarks] is state[LoggedHighWatermarks]
