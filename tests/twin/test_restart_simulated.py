"""The gate against a simulated cluster: what becomes of partitions when its advice is followed."""

from __future__ import annotations

import copy
from collections.abc import Collection

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, empty
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from tests.twin.test_gate import against, names, quorum
from twin.declarations.table import NO_BROKER
from twin.engine.shard_state import ShardState
from twin.plans.roll import roll
from twin.questions import gate
from twin.questions.gate import Reason, Terms
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.step import step
from twin.tables.state import Assignment, Partitions

BROKERS = 6
ID = st.integers(1, BROKERS)


@st.composite
def clusters(draw: st.DrawFn) -> SimulatedShard:
    """Brokers that are out, and followers that are out of sync without being out."""
    shape = Shape(
        topics=2,
        partitions=6,
        brokers=BROKERS,
        replication=draw(st.integers(1, 4)),
        min_isr=draw(st.integers(1, 3)),
    )
    shard = SimulatedShard(shape, draw(st.integers(0, 10**6)))
    for broker in draw(st.sets(ID, max_size=2)):
        shard.lose(broker)
    for row in draw(st.sets(st.integers(0, 11), max_size=4)):
        if shape.replication > 1:
            shard.shrink(row, draw(st.integers(1, shape.replication - 1)))
    return shard


def observed(shard: SimulatedShard, before: ShardState | None = None, at_ms: int = 0) -> ShardState:
    return step(before or empty("sim"), shard.observe(NOW_MS + at_ms), NOW_MS + at_ms)[0]


def restarted(
    shard: SimulatedShard, before: ShardState, together: Collection[int]
) -> tuple[set[str], set[str]]:
    """The partitions that are offline, and those under min ISR, because those brokers are out."""
    shard = copy.deepcopy(shard)
    for broker in together:
        shard.lose(broker)
    after = observed(shard, before, at_ms=1_000)
    roles, assignment = before[Roles], before[Assignment]
    mine = np.isin(assignment.broker, list(together)) & roles.is_assigned
    was_led = np.isin(before[Partitions].leader, list(together))
    is_offline = was_led & (after[Partitions].leader == NO_BROKER)
    live = after[Roles].in_isr & after[Roles].is_assigned & ~after[Roles].is_offline
    was_live = roles.in_isr & ~roles.is_offline
    is_short = (was_live & mine).any(axis=1) & (live.sum(axis=1) < after[LeaderMinIsr].min_isr)
    offline, short = (
        {name for name, is_hit in zip(names(before), hit, strict=True) if is_hit}
        for hit in (is_offline, is_short)
    )
    return offline, short


@examples(200)
@given(shard=clusters(), together=st.sets(ID, min_size=1, max_size=3))
def test_a_restart_harms_those_partitions_that_the_gate_names_and_no_other(
    shard: SimulatedShard, together: set[int]
):
    state = observed(shard)
    reasons_against = against(state, together)
    offline, short = restarted(shard, state, together)

    def named(*reasons: Reason) -> set[str]:
        return {name for reason in reasons for name in reasons_against.get(reason, ())}

    assert named(Reason.OFFLINE) <= offline <= named(Reason.OFFLINE, Reason.ONE_REPLICA)
    assert named(Reason.UNDER_MIN_ISR) <= short
    assert short <= named(Reason.UNDER_MIN_ISR, Reason.NO_SPARE_REPLICA, Reason.ONE_REPLICA)


@examples(200)
@given(shard=clusters(), by_rack=st.booleans())
def test_a_plan_that_is_followed_and_made_anew_harms_no_partition(
    shard: SimulatedShard, by_rack: bool
):
    remaining = set(range(1, BROKERS + 1))
    state, at_ms = observed(shard), 0
    while remaining:
        state = state.with_tables(quorum(0, 0, 0))
        plan = roll([state], remaining, Terms(), by_rack)
        if not plan.batches:
            break
        batch = plan.batches[0].brokers
        assert restarted(shard, state, batch) == (set(), set())
        remaining -= set(batch)
        for broker in batch:
            shard.lose(broker)
        for broker in batch:
            shard.restore(broker)
        at_ms += 5_000
        state = observed(shard, state, at_ms)
    # The gate has a reason against each broker that is left.
    assert all(gate.reasons([state], [b], Terms()) for b in remaining)
