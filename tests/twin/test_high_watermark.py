"""Up to where records are committed, and whose number that is."""

from dataclasses import replace

import pytest

from tests.builders import NOW_MS, Fetch, Log, Partition, a_state, fetches_frame
from tests.reading import computed
from twin.declarations.table import UNKNOWN
from twin.engine.state import ShardState
from twin.rules.replication.high_watermark import HighWatermarkSource, HighWatermarks
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
