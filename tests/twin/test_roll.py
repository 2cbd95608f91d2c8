"""A rolling restart: batches, their order, who is left out, and what each batch costs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Log, Partition, a_state
from tests.examples import examples
from tests.simulator.shard import Shape
from tests.twin.test_gate import against, quorum, simulated
from twin.engine.shard_state import ShardState
from twin.plans.restart_cost import RestartCost, RestartCosts, restart_costs
from twin.plans.roll import Roll, roll
from twin.questions import gate, whatif
from twin.questions.gate import Reason, Terms
from twin.tables.state import ControllerQuorum

MIN_2 = {"min_insync_replicas": 2}
SIX = (1, 2, 3, 4, 5, 6)  # racks az-a: 1 and 4, az-b: 2 and 5, az-c: 3 and 6


def a_cluster(*parts: Partition, active: int = 1, **more: Any) -> ShardState:
    """Six brokers in three racks, of which 1, 2 and 3 are controllers."""
    state = a_state(*parts, brokers=SIX, **{**MIN_2, **more})
    return state.with_tables(quorum(0, 0, 0, active=active - 1))


def batches(plan: Roll) -> list[tuple[int, ...]]:
    return [batch.brokers for batch in plan.batches]


ACROSS_RACKS = (Partition("a", replicas=(1, 2, 3)), Partition("b", replicas=(4, 5, 6)))


def test_without_racks_brokers_are_restarted_one_by_one_and_the_active_controller_last():
    plan = roll([a_cluster(*ACROSS_RACKS, active=2)], SIX, Terms())
    assert batches(plan) == [(1,), (3,), (4,), (5,), (6,), (2,)]
    assert plan.left_out == ()


def test_the_brokers_of_a_rack_go_together_and_the_rack_of_the_active_controller_last():
    plan = roll([a_cluster(*ACROSS_RACKS, active=1)], SIX, Terms(), by_rack=True)
    assert batches(plan) == [(2, 5), (3, 6), (4, 1)]
    assert [batch.rack for batch in plan.batches] == ["az-b", "az-c", "az-a"]


def test_brokers_of_a_rack_that_share_a_partition_do_not_go_together():
    parts = (*ACROSS_RACKS, Partition("c", replicas=(2, 5, 1)))
    plan = roll([a_cluster(*parts)], SIX, Terms(), by_rack=True)
    assert batches(plan) == [(2,), (5,), (3, 6), (4, 1)]


def test_a_partition_of_another_shard_keeps_brokers_apart_too():
    shared = a_cluster(Partition("c", replicas=(2, 5, 1)))
    plan = roll([a_cluster(*ACROSS_RACKS), shared], SIX, Terms(), by_rack=True)
    assert (2,) in batches(plan)
    assert (5,) in batches(plan)


def test_a_batch_has_no_more_brokers_than_asked_for():
    plan = roll([a_cluster(*ACROSS_RACKS)], SIX, Terms(), by_rack=True, most=1)
    assert sorted(batches(plan)) == [(b,) for b in SIX]


def test_brokers_whose_rack_is_not_known_go_one_by_one():
    plan = roll([a_cluster(*ACROSS_RACKS, has_racks=False)], SIX, Terms(), by_rack=True)
    assert sorted(batches(plan)) == [(b,) for b in SIX]


def test_only_those_that_are_asked_for_are_planned():
    plan = roll([a_cluster(*ACROSS_RACKS)], [5, 2], Terms(), by_rack=True)
    assert batches(plan) == [(2, 5)]


def test_a_broker_that_is_out_is_all_that_may_be_restarted():
    plan = roll([a_cluster(*ACROSS_RACKS, fenced=(4,))], SIX, Terms())
    assert batches(plan) == [(4,)]
    assert [each.broker for each in plan.left_out] == [1, 2, 3, 5, 6]
    assert all(Reason.BROKER_OUT in each.reasons for each in plan.left_out)


def test_what_is_allowed_is_in_the_plan_and_named_there():
    state = a_cluster(*ACROSS_RACKS, Partition("one", replicas=(6,)))
    refused = roll([state], [6], Terms())
    assert refused.left_out[0].reasons == {Reason.ONE_REPLICA: ["one-0"]}
    [batch] = roll([state], [6], Terms(allowed=frozenset({Reason.ONE_REPLICA}))).batches
    assert batch.allowed == {Reason.ONE_REPLICA: ["one-0"]}
    assert batch.costs["kafka"].offline == 1


def test_a_quorum_that_is_not_known_leaves_everybody_out():
    state = a_cluster(*ACROSS_RACKS).with_tables(ControllerQuorum.empty())
    plan = roll([state], SIX, Terms())
    assert plan.batches == ()
    assert {r for each in plan.left_out for r in each.reasons} == {Reason.QUORUM_UNKNOWN}


# ---------------------------------------------------------------- cost


def costs_of(state: ShardState, brokers: Collection[int]) -> RestartCosts:
    return restart_costs(state, brokers, whatif.lose(state, brokers))


def cost_of(state: ShardState, brokers: Collection[int]) -> RestartCost:
    return costs_of(state, brokers)["kafka"]


def test_the_cost_counts_leaders_and_isrs():
    state = a_state(
        Partition("a", replicas=(1, 2, 3)),
        Partition("b", replicas=(2, 1, 3)),
        Partition("c", replicas=(2, 3, 4)),
        Partition("d", replicas=(1,)),
        Partition("e", replicas=(1, 2, 3), isr=(2, 3), leader=2),
        **MIN_2,
    )
    assert cost_of(state, [1]) == RestartCost(
        leaders_moved=1, offline=1, at_min_isr=2, under_min_isr=1
    )
    both = cost_of(state, [1, 2])
    assert (both.leaders_moved, both.offline, both.under_min_isr) == (4, 1, 4)
    assert both.at_min_isr == 1


@pytest.mark.parametrize(
    ("logs", "expected", "unknown"),
    [
        ({1: Log(size_bytes=1_000), 2: Log(local_start=1, size_bytes=10)}, 990, 0),
        ({1: Log(size_bytes=-1), 2: Log(local_start=1, size_bytes=10)}, 0, 1),
    ],
)
def test_a_cold_leader_costs_the_bytes_that_it_does_not_hold(
    logs: dict[int, Log], expected: int, unknown: int
):
    part = Partition("t", logs=logs)
    tiered = {"t": {"remote_storage": 1}}
    cost = cost_of(a_state(part, topics=tiered, eligible_local_log_bytes=100), [1])
    assert (cost.cold_leaders, cost.remote_bytes) == (1, expected)
    assert cost.remote_bytes_unknown == unknown
    untiered = cost_of(a_state(part, eligible_local_log_bytes=100), [1])
    assert (untiered.cold_leaders, untiered.remote_bytes_unknown) == (1, 0)
    assert cost_of(a_state(part, topics=tiered, eligible_local_log_bytes=100), [3]) == (
        RestartCost()
    )


def test_costs_of_shards_add_up():
    first = cost_of(a_state(Partition("a")), [1])
    second = cost_of(a_state(Partition("b"), Partition("c")), [1])
    assert (first + second).leaders_moved == 3


# ---------------------------------------------------------------- any state

SPREAD = Shape(topics=2, partitions=3, brokers=9, cold_share=0.1)
ALLOWED = frozenset({Reason.ONE_REPLICA, Reason.COLD})


@examples(200)
@given(
    seed=st.integers(0, 10**6),
    lost=st.sets(st.integers(1, 9), max_size=1),
    wanted=st.sets(st.integers(1, 9)),
    by_rack=st.booleans(),
    most=st.sampled_from([None, 1, 2]),
    allowed=st.sampled_from([frozenset(), ALLOWED]),
)
def test_every_batch_passes_the_gate_and_every_broker_is_in_the_plan_once(
    seed: int, lost: set[int], wanted: set[int], by_rack: bool, most: int | None,
    allowed: frozenset[Reason],
):  # fmt: skip
    state = simulated(seed, lost, SPREAD).with_tables(quorum(0, 0, 0, active=seed % 3))
    terms = Terms(allowed=allowed)
    plan = roll([state], wanted, terms, by_rack, most)
    in_plan = [b for batch in plan.batches for b in batch.brokers]
    assert sorted([*in_plan, *(each.broker for each in plan.left_out)]) == sorted(wanted)
    for batch in plan.batches:
        assert set(gate.reasons([state], batch.brokers, terms)) == set(batch.allowed) <= allowed
        assert len(batch.brokers) <= (most or 3 if by_rack else 1)
    for each in plan.left_out:
        alone = gate.reasons([state], [each.broker], terms)
        assert each.reasons == {r: names for r, names in alone.items() if r not in allowed}
        assert each.reasons
    active = seed % 3 + 1
    if active in in_plan:
        assert active in plan.batches[-1].brokers


def test_the_cost_follows_from_the_election_rule():
    logs = {1: Log(size_bytes=1_000), 2: Log(local_start=1, size_bytes=10),
            3: Log(size_bytes=1_000)}  # fmt: skip
    state = a_state(
        Partition("t", logs=logs), topics={"t": {"remote_storage": 1}}, eligible_local_log_bytes=100
    )
    costs = costs_of(state, [1])
    assert costs["kafka"].cold_leaders == 1
    assert costs["kip1303"] == RestartCost(leaders_moved=1)


@examples(50)
@given(seed=st.integers(0, 10**6), together=st.sets(st.integers(1, 9), min_size=1, max_size=4))
def test_brokers_that_share_no_partition_cost_what_they_cost_alone(
    seed: int, together: Collection[int]
):
    state = simulated(seed, (), SPREAD)
    alone = sum((cost_of(state, [b]) for b in together), RestartCost())
    both = cost_of(state, together)
    assert both.leaders_moved + both.offline == alone.leaders_moved + alone.offline
    if not against(state, together, Terms(allowed=ALLOWED)).keys() - ALLOWED:
        assert both.under_min_isr == 0


def test_the_plan_of_a_cluster_of_one_shard_is_that_of_its_two_halves():
    state = simulated(7, (), SPREAD).with_tables(quorum(0, 0, 0))
    rows = np.arange(state.partitions)
    halves = [state.take(rows[::2]), state.take(rows[1::2])]
    brokers = range(1, 10)
    for by_rack in (False, True):
        whole = roll([state], brokers, Terms(), by_rack)
        assert batches(roll(halves, brokers, Terms(), by_rack)) == batches(whole)
        assert [b.costs for b in roll(halves, brokers, Terms(), by_rack).batches] == [
            b.costs for b in whole.batches
        ]
