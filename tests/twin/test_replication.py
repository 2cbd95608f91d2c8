"""When a replica was caught up, and whether that makes it in sync."""

import numpy as np

from tests.builders import NOW_MS, Log, Partition, a_state
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.replication.caught_up import CaughtUp, InSync, Lag

LAG_MAX_MS = 30_000


def watched(
    *ends: tuple[int, int], interval_ms: int = 5_000, isr: tuple[int, ...] = (1, 2)
) -> ShardState:
    """The state after samples of (leader's end, follower's end), one a cycle."""
    state = None
    for i, (leader, follower) in enumerate(ends):
        part = Partition(replicas=(1, 2), isr=isr, logs={1: Log(end=leader), 2: Log(end=follower)})
        state = a_state(part, at_ms=NOW_MS + i * interval_ms, since=state)
    return state


def test_a_follower_at_the_leaders_end_is_caught_up_now():
    state = watched((100, 100))
    assert state[CaughtUp].caught_up_at_ms[0].tolist() == [NOW_MS, NOW_MS]
    assert state[InSync].in_sync[0].tolist() == [1, 1]


def test_a_follower_at_the_leaders_end_of_the_last_sample_was_caught_up_then():
    state = watched((100, 100), (150, 120))
    assert state[CaughtUp].caught_up_at_ms[0, 1] == NOW_MS


def test_a_follower_exactly_at_the_end_of_the_last_sample_counts():
    assert watched((100, 90), (150, 100))[CaughtUp].caught_up_at_ms[0, 1] == NOW_MS
    assert watched((100, 90), (150, 99))[CaughtUp].caught_up_at_ms[0, 1] == UNKNOWN


def test_a_follower_that_stands_still_falls_out_after_the_lag_limit():
    ends = [(100 + 50 * i, 100) for i in range(8)]
    in_sync = [watched(*ends[: i + 1])[InSync].in_sync[0, 1] for i in range(8)]
    # Caught up at second 0, judged at second 5, 10, ...: the limit of 30 s is still in.
    assert in_sync == [1] * 7 + [0]


def test_an_idle_partition_stays_in_sync_for_ever():
    assert watched(*[(100, 100)] * 3, interval_ms=3_600_000)[InSync].in_sync[0].tolist() == [1, 1]


def test_a_follower_never_observed_caught_up_is_unknown_while_the_controller_trusts_it():
    assert watched((100, 10))[InSync].in_sync[0, 1] == UNKNOWN
    assert watched((100, 10), isr=(1,))[InSync].in_sync[0, 1] == 0


def test_the_leader_is_in_sync_and_caught_up_when_it_answers():
    state = watched((100, 10), (200, 20))
    assert state[CaughtUp].caught_up_at_ms[0, 0] == NOW_MS + 5_000
    assert state[InSync].in_sync[0, 0] == 1


def test_a_silent_leader_proves_nothing_new():
    first = watched((100, 100))
    part = Partition(replicas=(1, 2), logs={2: Log(end=100)}, silent=(1,))
    state = a_state(part, at_ms=NOW_MS + 5_000, since=first)
    assert state[CaughtUp].caught_up_at_ms[0].tolist() == [NOW_MS, NOW_MS]


def test_a_dead_follower_of_an_idle_partition_was_caught_up_when_it_answered_last():
    """Its log end still equals the leader's, so it is in sync by Kafka's rule."""
    state = watched((100, 100), (100, 100))
    dead = Partition(replicas=(1, 2), logs={1: Log(end=100)}, silent=(2,))
    for cycle in (2, 3, 4):
        state = a_state(dead, at_ms=NOW_MS + cycle * 5_000, since=state)
    assert state[CaughtUp].caught_up_at_ms[0].tolist() == [NOW_MS + 20_000, NOW_MS + 5_000]
    assert state[InSync].in_sync[0, 1] == 1


def test_lag_is_unknown_where_either_end_is():
    state = watched((100, 60))
    assert state[Lag].lag_records[0].tolist() == [0, 40]
    silent = a_state(Partition(replicas=(1, 2), silent=(1,)))
    assert (silent[Lag].lag_records == UNKNOWN).all()


def test_the_lag_limit_is_the_clusters_own():
    part = Partition(replicas=(1, 2), logs={1: Log(end=9), 2: Log(end=9)})
    first = a_state(part, replica_lag_time_max_ms=3_000)
    behind = Partition(replicas=(1, 2), logs={1: Log(end=20), 2: Log(end=8)})
    state = a_state(behind, at_ms=NOW_MS + 4_000, since=first, replica_lag_time_max_ms=3_000)
    assert np.array_equal(state[InSync].in_sync[0], [1, 0])
