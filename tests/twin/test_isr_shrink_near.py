"""Replicas that are late, before the ISR shrinks."""

import pytest

from tests.builders import NOW_MS, Log, Partition, a_state
from tests.reading import open_risks
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.replication.caught_up import InSync, Lag
from twin.rules.replication.isr_shrink_near import IsrShrinkNear
from twin.totals import shard_totals

INTERVAL_MS = 5_000
LAG_MAX_MS = 30_000
BEHIND = {2: Log(end=100), 1: Log(end=200), 3: Log(end=200)}


def after(state: ShardState, part: Partition, after_ms: int = INTERVAL_MS, **more) -> ShardState:
    return a_state(part, since=state, at_ms=state.observed_at_ms + after_ms, **more)


def behind_for(late_ms: int, part: Partition = Partition(logs=BEHIND), **more) -> ShardState:
    """Replica 2 was caught up at NOW_MS, and is observed to be behind until so long after it."""
    state = a_state(Partition(), **more)
    state = after(state, part, late_ms - INTERVAL_MS, **more)
    return after(state, part, **more)


def near(state: ShardState) -> list[int]:
    return state[IsrShrinkNear].isr_shrink_near[0].tolist()


@pytest.mark.parametrize(
    ("late_ms", "is_near"), [(LAG_MAX_MS // 2 + INTERVAL_MS, 0), (LAG_MAX_MS // 2 + 5_001, 1)]
)
def test_a_replica_is_near_once_it_is_late_by_half_the_limit_and_a_cycle(late_ms, is_near):
    state = behind_for(late_ms)
    assert near(state) == [0, is_near, 0]
    assert ("isr_shrink_near" in open_risks(state)) == bool(is_near)
    counted = shard_totals(state)["kafka_twin_broker_replicas_near_isr_shrink"]
    assert counted[("2",)] == is_near
    assert counted[("1",)] == counted[("3",)] == 0


def test_the_limit_is_that_of_the_cluster():
    assert near(behind_for(21_000)) == [0, 1, 0]
    assert near(behind_for(21_000, replica_lag_time_max_ms=60_000)) == [0, 0, 0]
    assert near(behind_for(21_000, replica_lag_time_max_ms=UNKNOWN)) == [0, UNKNOWN, UNKNOWN]


def test_the_limit_is_that_of_the_leaders_broker_where_it_has_its_own():
    assert near(behind_for(21_000, own_lag_time_max_ms={1: 60_000})) == [0, 0, 0]
    assert near(behind_for(36_000, own_lag_time_max_ms={1: 60_000})) == [0, 1, 0]
    assert near(behind_for(21_000, own_lag_time_max_ms={2: 60_000})) == [0, 1, 0]


def test_a_replica_at_the_leaders_end_does_not_leave():
    assert near(behind_for(60_000, Partition())) == [0, 0, 0]


def test_a_replica_outside_the_isr_cannot_leave_it():
    assert near(behind_for(60_000, Partition(logs=BEHIND, isr=(1, 3)))) == [0, 0, 0]


def test_a_replica_that_does_not_answer_is_late_where_the_high_watermark_stands():
    logs = BEHIND | {1: Log(end=200, high_watermark=100)}
    assert near(behind_for(25_000, Partition(logs=logs, silent=(2,)))) == [0, 1, 0]


def test_a_replica_that_only_the_twin_cannot_reach_is_not_late():
    state = a_state(Partition())
    for end in range(200, 2_000, 100):
        logs = {1: Log(end=end, high_watermark=end - 10), 3: Log(end=end)}
        state = after(state, Partition(logs=logs, silent=(2,)))
        assert near(state) == [0, 0, 0]
    assert state[InSync].in_sync.tolist() == [[1, 1, 1]]
    assert state[Lag].lag_records.tolist() == [[0, 10, 0]]


def test_a_replica_that_does_not_answer_is_unknown_where_its_leader_says_nothing():
    assert near(behind_for(25_000, Partition(logs=BEHIND, silent=(2,)))) == [0, UNKNOWN, 0]


def test_a_replica_that_was_never_seen_caught_up_is_unknown():
    state = a_state(Partition(logs=BEHIND))
    assert near(after(state, Partition(logs=BEHIND), 60_000)) == [0, UNKNOWN, 0]


def test_a_busy_replica_that_keeps_up_a_cycle_later_is_never_near():
    """Its log end trails the leader's in every sample, and reaches the one of the cycle before."""
    state = a_state(Partition(), replica_lag_time_max_ms=6_000)
    for end in range(200, 2_000, 100):
        logs = {1: Log(end=end), 2: Log(end=end - 100), 3: Log(end=end)}
        state = after(state, Partition(logs=logs), replica_lag_time_max_ms=6_000)
        assert near(state) == [0, 0, 0]
        assert state.observed_at_ms > NOW_MS
