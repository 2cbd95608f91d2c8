"""A leader's state of a follower: KIP-501's own example, and fetches that come as events."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Fetch, Log, Partition, a_state, empty, fetches_frame
from tests.cycles import listed_frames
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.signature import parameters
from twin.declarations.table import UNKNOWN, Int64
from twin.engine import codec
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.kafka.follower_state import (
    ReplicaState,
    is_caught_up,
    is_caught_up_pending,
    update_fetch_state,
    update_fetch_state_solution_1,
)
from twin.rules.replication.caught_up import CaughtUp, InSync, caught_up_uncertainty_ms
from twin.rules.tiering.coverage import ReplicaCoverage
from twin.step import step
from twin.tables.state import FollowerStates

LAG_MAX_MS = 10_000
TX, TY = 100_000, 101_000


def one(value: int) -> Int64:
    return np.array([value], np.int64)


class TestTheExampleOfKip501:
    """Replica 1002 fetches 950 at tx while the leader ends at 1002, then 1002 at ty (1100).

    The second request takes the leader 25 s.
    """

    before = update_fetch_state(ReplicaState.blank(1), one(950), one(0), one(TX), one(1_002))

    def in_sync(self, now_ms: int, *, pending: bool | None = None) -> bool:
        asked = (one(1_100), one(now_ms), one(LAG_MAX_MS))
        if pending is None:
            return bool(is_caught_up(self.before, *asked)[0])
        offset = one(1_002 if pending else UNKNOWN)
        return bool(is_caught_up_pending(self.before, offset, *asked)[0])

    def test_the_leader_throws_out_a_healthy_follower_while_it_works_on_its_fetch(self):
        assert not self.in_sync(TX + LAG_MAX_MS + 1)

    def test_solution_1_keeps_it_as_long_as_that_fetch_is_pending(self):
        for now_ms in (TX + LAG_MAX_MS + 1, TY + 24_999):
            assert self.in_sync(now_ms, pending=True)
            assert not self.in_sync(now_ms, pending=False)

    def test_a_pending_fetch_below_the_earlier_end_proves_nothing(self):
        behind = is_caught_up_pending(
            self.before, one(1_001), one(1_100), one(TY + 20_000), one(LAG_MAX_MS)
        )
        assert not behind[0]

    def test_once_served_it_was_caught_up_at_tx_for_kafka_and_at_the_end_for_kip501(self):
        fetch = (one(1_002), one(0), one(TY))
        stock = update_fetch_state(self.before, *fetch, one(1_100))
        solution = update_fetch_state_solution_1(self.before, *fetch, one(TY + 25_000), one(1_100))
        assert stock.caught_up_at_ms.tolist() == [TX]
        assert solution.caught_up_at_ms.tolist() == [TY + 25_000]
        assert not is_caught_up(stock, one(1_200), one(TY + 26_000), one(LAG_MAX_MS))[0]
        assert is_caught_up(solution, one(1_200), one(TY + 26_000), one(LAG_MAX_MS))[0]


def after(*fetches: Fetch, state: ShardState | None = None) -> ShardState:
    before = a_state(Partition()) if state is None else state
    return step(before, [fetches_frame(fetches)], NOW_MS)[0]


def follower_state(state: ShardState) -> tuple[int, int, int, int]:
    table = state[FollowerStates]
    assert len(table) == 1
    return (int(table.log_end_offset[0]), int(table.last_fetch_leader_end_offset[0]),
            int(table.last_fetch_at_ms[0]), int(table.caught_up_at_ms[0]))  # fmt: skip


def uncertainty_ms(state: ShardState) -> Int64:
    return state.call(caught_up_uncertainty_ms, parameters(caught_up_uncertainty_ms))


def test_fetches_are_noted_in_order_of_arrival_whatever_their_order_in_the_frame():
    first, second = Fetch(NOW_MS, 90, 100), Fetch(NOW_MS + 50, 100, 110)
    assert follower_state(after(first, second)) == (100, 110, NOW_MS + 50, NOW_MS)
    assert follower_state(after(second, first)) == (100, 110, NOW_MS + 50, NOW_MS)


def test_a_repeated_fetch_changes_nothing():
    state = after(Fetch(NOW_MS))
    assert step(state, [fetches_frame([Fetch(NOW_MS)])], NOW_MS) == (state, [])


def test_fetches_count_however_old_their_frame_is_and_move_no_clock():
    state = a_state(Partition())
    late = fetches_frame([Fetch(NOW_MS - 9_000)], at_ms=NOW_MS - 60_000)
    merged, _ = step(state, [late], NOW_MS - 60_000)
    assert len(merged[FollowerStates]) == 1
    assert merged.observed_at_ms == state.observed_at_ms
    was, now = (each[ReplicaCoverage].coverage for each in (state, merged))
    assert np.array_equal(was, now)


def test_another_leader_starts_a_new_state_and_a_former_one_is_ignored_from_then_on():
    state = after(Fetch(NOW_MS, 90, 100))
    state = after(Fetch(NOW_MS + 10, 95, 120, leader=3, epoch=2), state=state)
    assert follower_state(state) == (95, 120, NOW_MS + 10, 0)
    assert after(Fetch(NOW_MS + 20, 100, 100, leader=1, epoch=1), state=state) is state


def test_a_failed_fetch_and_an_unlisted_partition_are_left_out():
    state = a_state(Partition())
    assert after(Fetch(NOW_MS, error=6), state=state) is state
    assert after(Fetch(NOW_MS, part=Partition("unknown")), state=state) is state


def test_an_unknown_leader_end_proves_nothing_of_its_fetch_nor_of_the_next():
    first, unknown = Fetch(NOW_MS, 90, 100), Fetch(NOW_MS + 50, 95, UNKNOWN)
    # The leader may have stood at 500 by then, so 100 does not say "caught up 50 ms ago".
    assert follower_state(after(first, unknown, Fetch(NOW_MS + 90, 100, 600)))[3] == 0
    at_earlier_end = replace(unknown, offset=100)
    assert follower_state(after(first, at_earlier_end)) == (100, UNKNOWN, NOW_MS + 50, NOW_MS)
    solution = update_fetch_state_solution_1(
        ReplicaState.blank(1), one(95), one(0), one(TX), one(TY), one(UNKNOWN)
    )
    assert solution.caught_up_at_ms.tolist() == [0]


def test_two_fetches_of_one_millisecond_are_distinguished_by_their_offset():
    first, second = Fetch(NOW_MS, 50, 100), Fetch(NOW_MS, 80, 500)
    for order in ((first, second), (second, first)):
        state = after(*order, Fetch(NOW_MS + 9, 100, 900))
        assert follower_state(state) == (100, 900, NOW_MS + 9, 0)
    state = after(first, second)
    assert after(first, second, state=state) is state


def test_a_negative_follower_is_refused():
    with pytest.raises(InvalidFrame) as refusal:
        after(Fetch(NOW_MS, broker=-1))
    assert refusal.value.reason == "rows"


def test_followers_give_the_same_state_in_whatever_order_their_fetches_come():
    two, three = Fetch(NOW_MS, broker=2), Fetch(NOW_MS, broker=3)
    one_way, other_way = after(three, state=after(two)), after(two, state=after(three))
    assert codec.encode(one_way) == codec.encode(other_way)


def test_the_state_of_a_follower_that_is_no_replica_any_more_goes_with_the_next_cycle():
    state = after(Fetch(NOW_MS, broker=3))
    for cycle in (1, 2):
        moved = Partition(replicas=(1, 2, 4), epoch=2)
        state = a_state(moved, at_ms=NOW_MS + cycle * 5_000, since=state)
    assert len(state[FollowerStates]) == 0


def test_samples_hold_until_a_fetch_proves_the_follower_caught_up():
    """The leader noted more than the twin observed: before the first fetch, at an election."""
    state = after(Fetch(NOW_MS + 1, 100, 130))
    behind = Partition(logs={1: Log(end=200), 2: Log(end=150), 3: Log(end=150)})
    state = a_state(behind, at_ms=NOW_MS + 5_000, since=state)
    assert state[CaughtUp].caught_up_at_ms[0, 1] == NOW_MS
    assert state[InSync].in_sync[0, 1] == 1
    assert uncertainty_ms(state)[0, 1] == 5_000


def test_a_state_without_the_leaders_end_is_a_lower_bound_and_no_more():
    state = after(Fetch(NOW_MS + 10), Fetch(NOW_MS + 20, 100, UNKNOWN))
    assert state[CaughtUp].caught_up_at_ms[0, 1] == NOW_MS + 10
    state = a_state(at_ms=NOW_MS + 5_000, since=state)
    assert state[CaughtUp].caught_up_at_ms[0, 1] == NOW_MS + 5_000
    assert uncertainty_ms(state)[0, 1] == 5_000


def test_the_estimate_is_as_uncertain_as_the_leader_was_silent():
    state = a_state(Partition())
    for cycle in (1, 2, 3):
        state = a_state(Partition(silent=(1,)), at_ms=NOW_MS + cycle * 5_000, since=state)
    assert uncertainty_ms(state)[0].tolist() == [15_000] * 3


def test_where_the_leaders_own_state_is_known_it_gives_the_caught_up_time():
    """By samples replica 2 was never caught up; its fetch 40 ms ago says otherwise."""
    part = Partition(logs={2: Log(end=90)})
    at_ms = NOW_MS + 5_000
    state, _ = step(a_state(part), listed_frames([part], at_ms), at_ms)
    assert state[CaughtUp].caught_up_at_ms[0, 1] == UNKNOWN
    assert uncertainty_ms(state)[0].tolist() == [5_000] * 3
    state = after(Fetch(at_ms - 40, 100, 100), state=state)
    assert state[CaughtUp].caught_up_at_ms[0, 1] == at_ms - 40
    assert uncertainty_ms(state)[0].tolist() == [5_000, 0, 5_000]


def test_follower_states_survive_the_codec():
    state = after(Fetch(NOW_MS))
    assert follower_state(codec.decode(codec.encode(state), CATALOG).state) == follower_state(state)


@examples(100)
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 12))
def test_frames_cut_anywhere_give_the_same_and_more_fetches_are_never_caught_up_earlier(seed, cut):
    rng = random.Random(seed)
    end, made = 100, []
    for i in range(12):
        end += rng.choice([0, 0, 5])
        made.append(Fetch(NOW_MS + 10 * i, max(end - rng.choice([0, 0, 3, 50]), 0), end))
    whole = after(*made)
    if cut:
        first = after(*made[:cut])
        assert follower_state(whole) == follower_state(after(*made[cut:], state=first))
        assert follower_state(whole)[3] >= follower_state(first)[3]


@examples(100)
@given(seed=st.integers(0, 10**6))
def test_frames_of_a_cycle_with_fetches_give_the_same_state_in_any_order_and_repeated(seed):
    """After the first cycle: fetches of unlisted partitions are left out."""
    rng = random.Random(seed)
    shard = SimulatedShard(Shape(topics=1, partitions=4, fetches=True), seed)
    at_ms = NOW_MS
    whole, _ = step(empty("sim"), shard.observe(at_ms), at_ms)
    one_by_one = whole
    for frames in shard.run(3, NOW_MS + 5_000):
        at_ms = frames[0].header.observed_at_ms
        whole, _ = step(whole, frames, at_ms)
        shuffled = [*frames, rng.choice(frames)]
        rng.shuffle(shuffled)
        for frame in shuffled:
            one_by_one, _ = step(one_by_one, [frame], at_ms)
        assert codec.encode(one_by_one) == codec.encode(whole)


def test_the_simulator_reports_fetches_only_when_asked_and_the_rest_is_the_same():
    plain, more = (
        SimulatedShard(Shape(fetches=fetches), 7).observe(NOW_MS) for fetches in (False, True)
    )
    assert [f.header.kind for f in more] == [*(f.header.kind for f in plain), "fetches"]
    assert all(a.rows.equals(b.rows) for a, b in zip(plain, more, strict=False))
    state, _ = step(empty("sim"), more, NOW_MS)
    assert len(state[FollowerStates]) == 2 * state.partitions
