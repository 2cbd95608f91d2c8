"""Orders of replicas: warm before cold, the same sets, and nothing that is not known is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state
from tests.examples import examples
from tests.twin.test_gate import simulated
from twin.declarations.table import NO_BROKER
from twin.engine.shard_state import ShardState
from twin.plans.order import Order, order
from twin.plans.reordering import Obstacle, is_reassigning
from twin.rules.partitions.leaders import Roles
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.state import Assignment, Brokers, Partitions

COLD = Log(local_start=1, size_bytes=10)
THRESHOLD = {"eligible_local_log_bytes": 100}


def planned(part: Partition, *, preferred: bool = False, **more: object) -> list[int] | None:
    """The new order of the partition, None if it keeps its own."""
    changes = order(a_state(part, **THRESHOLD, **more), preferred=preferred).changes
    return changes.after[0].tolist() if len(changes.row) else None


def undone(
    part: Partition, *, preferred: bool = False, **more: object
) -> Mapping[Obstacle, list[int]]:
    these = order(a_state(part, **THRESHOLD, **more), preferred=preferred).obstacles
    return {why: rows.tolist() for why, rows in these.items()}


def cold(*brokers: int) -> dict[int, Log]:
    return dict.fromkeys(brokers, COLD)


def test_a_cold_replica_goes_behind_the_warm_ones_and_the_others_keep_their_order():
    assert planned(Partition(replicas=(1, 2, 3, 4), logs=cold(2))) == [1, 3, 4, 2]
    assert planned(Partition(replicas=(1, 2, 3, 4), logs=cold(2, 3))) == [1, 4, 2, 3]
    assert planned(Partition(replicas=(1, 2, 3, 4), logs=cold(4))) is None


def test_the_successor_becomes_warm():
    plan = order(a_state(Partition(logs=cold(2)), **THRESHOLD))
    assert (plan.now.leader.tolist(), plan.now.coverage.tolist()) == ([2], [Coverage.COLD])
    assert (plan.then.leader.tolist(), plan.then.coverage.tolist()) == ([3], [Coverage.WARM])
    assert plan.then.balanced.tolist() == [1]
    assert plan.obstacles == {}


def test_slot_0_moves_only_if_that_is_asked_for():
    part = Partition(logs=cold(1), leader=2)
    assert planned(part) is None
    assert undone(part) == {Obstacle.PREFERRED_COLD: [0]}
    assert planned(part, preferred=True) == [2, 3, 1]
    assert undone(part, preferred=True) == {}


def test_leader_balancing_moves_the_leader_of_a_cold_preferred_replica_then():
    state = a_state(Partition(logs=cold(1), leader=3), **THRESHOLD)
    plan = order(state, preferred=True)
    assert plan.changes.after.tolist() == [[2, 3, 1]]
    assert (plan.now.balanced.tolist(), plan.then.balanced.tolist()) == ([1], [2])


def test_a_cold_preferred_leader_is_named():
    assert undone(Partition(logs=cold(1))) == {Obstacle.PREFERRED_COLD: [0]}


def test_a_cold_leader_of_a_warm_preferred_replica_needs_an_election_and_no_order():
    assert undone(Partition(logs=cold(2), leader=2)) == {Obstacle.LED_COLD: [0]}


def test_without_a_warm_replica_nothing_helps():
    assert undone(Partition(logs=cold(2, 3))) == {Obstacle.NO_WARM: [0]}
    assert undone(Partition(logs=cold(2), isr=(1, 2))) == {Obstacle.NO_WARM: [0]}


@pytest.mark.parametrize(
    "part", [Partition(logs=cold(2), adding=(3,)), Partition(logs=cold(2), removing=(2,))]
)
def test_a_partition_under_reassignment_is_left_alone(part: Partition):
    assert planned(part) is None
    assert undone(part) == {Obstacle.REASSIGNING: [0]}


def test_what_is_unknown_keeps_its_place():
    unknown = Log(local_start=1, size_bytes=-1)
    part = Partition(replicas=(1, 2, 3, 4), logs={**cold(2), 3: unknown})
    assert planned(part) == [1, 4, 3, 2]


def test_a_warm_replica_that_is_out_of_sync_keeps_its_place():
    part = Partition(replicas=(1, 2, 3, 4), isr=(1, 2, 4), logs=cold(2))
    assert planned(part) == [1, 4, 3, 2]


def test_a_replica_whose_broker_does_not_answer_keeps_its_place():
    part = Partition(logs=cold(2))
    before = a_state(part, **THRESHOLD)
    silent = a_state(
        replace(part, silent=(2,)), silent=(2,), since=before, at_ms=NOW_MS + 1, **THRESHOLD
    )
    plan = order(silent)
    assert plan.changes.row.tolist() == []
    assert {why: rows.tolist() for why, rows in plan.obstacles.items()} == {Obstacle.SILENT: [0]}


def test_without_a_threshold_nothing_is_moved_and_that_is_said():
    plan = order(a_state(Partition(logs=cold(2))))
    assert (len(plan.changes.row), plan.not_judged) == (0, 1)


# ---------------------------------------------------------------- any state


@examples(200)
@given(
    seed=st.integers(0, 10**6), lost=st.sets(st.integers(1, 6), max_size=2), preferred=st.booleans()
)
def test_no_cold_replica_stands_before_a_warm_one_and_a_second_plan_is_empty(
    seed: int, lost: set[int], preferred: bool
):
    state = simulated(seed, lost)
    plan = order(state, preferred=preferred)
    assert_same_sets(plan)
    after = applied(state, plan)
    assert not stands_before_warm(after, preferred=preferred).any()
    assert len(order(after, preferred=preferred).changes.row) == 0


def test_random_states_have_orders_to_change():
    assert sum(len(order(simulated(seed, set())).changes.row) for seed in range(20)) > 20


def assert_same_sets(plan: Order) -> None:
    changes = plan.changes
    assert np.array_equal(np.sort(changes.before, axis=1), np.sort(changes.after, axis=1))
    assert (changes.before != changes.after).any(axis=1).all()


def applied(state: ShardState, plan: Order) -> ShardState:
    """The state once Kafka has the new orders, and another cycle has observed them."""
    parts = [observed(state, row) for row in range(state.partitions)]
    for row, after in zip(plan.changes.row.tolist(), plan.changes.after.tolist(), strict=True):
        parts[row] = replace(parts[row], replicas=tuple(b for b in after if b != NO_BROKER))
    out = state[Brokers].broker[~state[Brokers].answered].tolist()
    return a_state(
        *parts, at_ms=state.observed_at_ms + 1, fenced=out, silent=out,
        brokers=state[Brokers].broker.tolist(), eligible_local_log_bytes=100,
    )  # fmt: skip


def observed(state: ShardState, row: int) -> Partition:
    """The partition of a row as the builders take it; cold logs are small, warm ones are not."""
    roles, brokers = state[Roles], state[Assignment].broker[row]
    coverage = state[ReplicaCoverage].coverage[row]
    here = np.flatnonzero(roles.is_assigned[row])
    return Partition(
        topic=str(state.topic_names()[row]),
        number=row,
        replicas=tuple(brokers[here].tolist()),
        isr=tuple(brokers[roles.in_isr[row]].tolist()),
        leader=int(state[Partitions].leader[row]),
        logs={
            int(brokers[slot]): COLD if coverage[slot] == Coverage.COLD else Log() for slot in here
        },
        silent=tuple(
            b
            for b in brokers[here].tolist()
            if b not in state[Brokers].broker[state[Brokers].answered]
        ),
    )


def stands_before_warm(state: ShardState, *, preferred: bool) -> np.ndarray:
    """[P] a cold replica in sync comes before a warm one in sync, slot 0 aside; one by one."""
    roles, coverage = state[Roles], state[ReplicaCoverage].coverage
    moving = is_reassigning(state)
    answers = dict(
        zip(state[Brokers].broker.tolist(), state[Brokers].answered.tolist(), strict=True)
    )
    wrong = np.zeros(state.partitions, bool)
    for row in range(state.partitions):
        slots = [
            slot
            for slot in range(0 if preferred else 1, state.slots)
            if roles.in_isr[row, slot] and answers[int(state[Assignment].broker[row, slot])]
        ]
        kinds = [coverage[row, slot] for slot in slots]
        kinds = [kind for kind in kinds if kind in (Coverage.COLD, Coverage.WARM)]
        wrong[row] = not moving[row] and kinds != sorted(kinds, reverse=True)
    return wrong
