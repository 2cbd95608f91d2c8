"""Leaderships of a broker for others: to warm replicas in sync, evenly, and nothing comes back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Log, Partition, a_state
from tests.examples import examples
from tests.twin.test_gate import simulated
from twin.engine.shard_state import ShardState
from twin.plans.demote import Demotion, demote, leaders_of
from twin.plans.reordering import Obstacle, could_lead
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.state import Assignment, Brokers, Partitions

COLD = {2: Log(local_start=1, size_bytes=10)}
THRESHOLD = {"eligible_local_log_bytes": 100}


def plan(*parts: Partition, broker: int = 1, **more: object) -> Demotion:
    state = a_state(*parts, **more)
    return demote(state, broker, leaders_of(state, state[Brokers].broker))


def orders(demotion: Demotion) -> list[list[int]]:
    return demotion.changes.after.tolist()


def undone(demotion: Demotion) -> dict[Obstacle, list[int]]:
    return {why: rows.tolist() for why, rows in demotion.obstacles.items()}


def test_the_new_leader_comes_first_and_the_broker_last():
    demotion = plan(Partition())
    assert orders(demotion) == [[2, 3, 1]]
    assert demotion.elect.tolist() == [2]


def test_a_cold_replica_or_one_out_of_sync_does_not_lead():
    assert orders(plan(Partition(logs=COLD), **THRESHOLD)) == [[3, 2, 1]]
    assert orders(plan(Partition(isr=(1, 3)))) == [[3, 2, 1]]
    assert orders(plan(Partition(), fenced=(2,), silent=(2,))) == [[3, 2, 1]]


def test_what_is_unknown_does_not_lead_where_a_threshold_is_set():
    unknown = Partition(replicas=(1, 2), logs={2: Log(local_start=1, size_bytes=-1)})
    assert undone(plan(unknown, **THRESHOLD)) == {Obstacle.NO_WARM: [0]}
    assert orders(plan(unknown)) == [[2, 1]]


def test_a_partition_without_another_leader_stays_and_is_named():
    assert undone(plan(Partition(replicas=(1,)))) == {Obstacle.NO_WARM: [0]}
    assert undone(plan(Partition(isr=(1,)))) == {Obstacle.NO_WARM: [0]}
    assert undone(plan(Partition(adding=(3,)))) == {Obstacle.REASSIGNING: [0]}


def test_what_leader_balancing_would_give_back_is_included_and_its_leader_stays():
    demotion = plan(Partition(leader=3))
    assert (orders(demotion), demotion.elect.tolist()) == ([[3, 2, 1]], [3])


def test_partitions_of_others_are_left_alone():
    assert len(plan(Partition(leader=2, replicas=(2, 1, 3))).changes.row) == 0


def test_a_leader_that_stands_last_already_is_only_voted_out():
    demotion = plan(Partition(replicas=(2, 3, 1), leader=1))
    assert (orders(demotion), demotion.elect.tolist()) == ([[2, 3, 1]], [2])


FORTY = [Partition("t", n, replicas=(1, 2, 3, 4, 5)) for n in range(40)]


def test_leaders_are_spread_evenly_over_brokers():
    counts = Counter(plan(*FORTY, has_racks=False).elect.tolist())
    assert counts == {2: 10, 3: 10, 4: 10, 5: 10}


def test_brokers_that_share_a_rack_get_less():
    counts = Counter(plan(*FORTY).elect.tolist())
    assert counts == {2: 8, 3: 12, 4: 12, 5: 8}  # 2 and 5 are in az-b, 3 in az-c, 4 in az-a


def test_brokers_that_lead_much_already_get_less():
    mine = [Partition("mine", n, replicas=(1, 2, 3)) for n in range(10)]
    others = [Partition("others", n, replicas=(2, 3)) for n in range(6)]
    demotion = plan(*mine, *others)
    assert Counter(demotion.elect.tolist()) == {3: 8, 2: 2}
    assert demotion.leaders.tolist() == [0, 8, 8, 0, 0]


# ---------------------------------------------------------------- any state


@examples(200)
@given(seed=st.integers(0, 10**6), lost=st.sets(st.integers(1, 6), max_size=2))
def test_new_leaders_are_warm_and_in_sync_and_no_single_move_makes_them_more_even(
    seed: int, lost: set[int]
):
    state = simulated(seed, lost)
    ids = state[Brokers].broker
    for broker in ids.tolist():
        demotion = demote(state, broker, leaders_of(state, ids))
        row, elect = demotion.changes.row, demotion.elect
        is_elected = state[Assignment].broker[row] == elect[:, None]
        able = could_lead(state) & (state[ReplicaCoverage].coverage == Coverage.WARM)
        assert (is_elected & able[row]).any(axis=1).all()
        assert broker not in elect
        assert (demotion.changes.after[:, -1] == broker).all()
        assert np.array_equal(
            np.sort(demotion.changes.before, axis=1), np.sort(demotion.changes.after, axis=1)
        )
        assert demotion.leaders.sum() == (state[Partitions].leader != -1).sum()
        done = then_led(state, demotion)
        assert np.array_equal(leaders_of(done, ids), demotion.leaders)
        assert_no_better_move(state, demotion)


def assert_no_better_move(state: ShardState, demotion: Demotion) -> None:
    """Brute force: one other leader for one partition never lowers the sum of squares."""
    ids = state[Brokers].broker.tolist()
    racks = dict(zip(ids, state[Brokers].rack.tolist(), strict=True))
    led = Counter(dict(zip(ids, demotion.leaders.tolist(), strict=True)))

    def unevenness() -> int:
        by_rack: Counter[str] = Counter()
        for broker, count in led.items():
            by_rack[racks[broker]] += count
        return sum(n * n for n in led.values()) + sum(n * n for n in by_rack.values())

    able = could_lead(state) & (state[ReplicaCoverage].coverage == Coverage.WARM)
    least = unevenness()
    for row, elected in zip(demotion.changes.row.tolist(), demotion.elect.tolist(), strict=True):
        was = int(state[Partitions].leader[row])
        others = state[Assignment].broker[row, able[row]].tolist()
        for other in set(others) - {was} if was not in (elected, -1) else ():
            led[elected] -= 1
            led[other] += 1
            assert unevenness() >= least
            led[elected] += 1
            led[other] -= 1


def then_led(state: ShardState, demotion: Demotion) -> ShardState:
    """The state once the elections were held."""
    leader = state[Partitions].leader.copy()
    leader[demotion.changes.row] = demotion.elect
    return state.with_tables(replace(state[Partitions], leader=leader))
