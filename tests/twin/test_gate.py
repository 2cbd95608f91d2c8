"""May a broker be restarted? Each reason against it, at its boundary."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, empty
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.cluster_rules.controllers import CAUGHT_UP_WITHIN_MS
from twin.engine.shard_state import ShardState
from twin.questions import gate, whatif
from twin.questions.gate import Names, Reason, Terms
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.step import step
from twin.tables.state import Assignment, Brokers, ControllerQuorum, PartitionIndex, Partitions

MIN_2 = {"min_insync_replicas": 2}


def reasons(
    part: Partition, broker: int = 1, margin: int = 0, **configs: int
) -> dict[Reason, list[str]]:
    state = a_state(part, **configs)
    return dict(against(state, [broker], Terms(margin)))


def against(state: ShardState, brokers: Collection[int], terms: Terms | None = None) -> Names:
    """The reasons of one shard against restarting those brokers."""
    return gate.restart(state, brokers, terms or Terms(), whatif.lose(state, brokers))


def test_a_partition_in_order_has_no_reason():
    assert reasons(Partition(), **MIN_2) == {}


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Partition(isr=(1,)), Reason.OFFLINE),
        (Partition(isr=(1, 2)), Reason.UNDER_MIN_ISR),
        (Partition(replicas=(1,)), Reason.ONE_REPLICA),
        (Partition(replicas=(1, 2)), Reason.NO_SPARE_REPLICA),
    ],
)
def test_each_reason_names_its_partition(part: Partition, reason: Reason):
    assert reasons(part, **MIN_2)[reason] == ["t-0"]


def test_each_partition_needs_as_many_in_sync_as_its_own_replicas_allow():
    first, other = Partition(number=0, replicas=(3,)), Partition(number=1, isr=(1, 2))
    state = a_state(first, other, **MIN_2)
    assert dict(against(state, [1])) == {Reason.UNDER_MIN_ISR: ["t-1"]}


def test_a_follower_counts_for_the_isr_as_the_leader_does():
    assert reasons(Partition(isr=(1, 2)), broker=2, **MIN_2) == {Reason.UNDER_MIN_ISR: ["t-0"]}


def test_a_replica_that_is_out_of_sync_already_costs_nothing():
    assert reasons(Partition(isr=(1, 2)), broker=3, **MIN_2) == {}


def test_a_leader_from_outside_the_isr_is_unsafe():
    part = Partition(isr=(1,), elr=(2,))
    named = reasons(part, elr_enabled=1, min_insync_replicas=2)
    assert Reason.OUTSIDE_ISR in named
    assert Reason.OFFLINE not in named


def test_a_cold_successor_is_unsafe():
    part = Partition(logs={2: Log(local_start=1, size_bytes=10)})
    assert reasons(part, eligible_local_log_bytes=100) == {Reason.COLD: ["t-0"]}


def test_a_leader_that_is_cold_already_is_no_reason():
    cold = Log(local_start=1, size_bytes=10)
    assert reasons(Partition(log=cold), eligible_local_log_bytes=100) == {}


@pytest.mark.parametrize(
    ("replicas", "margin"), [((1, 2, 3, 4), 1), ((1, 2, 3, 4), 9), ((1, 2, 3), 1)]
)
def test_a_margin_that_no_replica_is_left_for_is_not_asked_for(
    replicas: tuple[int, ...], margin: int
):
    assert reasons(Partition(replicas=replicas), margin=margin, **MIN_2) == {}


def test_too_little_margin_is_unsafe():
    part = Partition(replicas=(1, 2, 3, 4), isr=(1, 2, 3))
    assert reasons(part, margin=0, **MIN_2) == {}
    assert reasons(part, margin=1, **MIN_2) == {Reason.UNDER_MARGIN: ["t-0"]}


ACCEPTED = {"t": {"one_replica_accepted": 1}}
MOVES = Partition(replicas=(2, 1), isr=(1,), adding=(2,), leader=1)


def test_a_single_replica_that_moves_is_accepted_as_one_that_stays():
    named = against(a_state(MOVES, topics=ACCEPTED, min_insync_replicas=1), [1])
    assert named == {Reason.ONE_REPLICA_ACCEPTED: ["t-0"]}
    assert reasons(MOVES, min_insync_replicas=1) == {Reason.ONE_REPLICA: ["t-0"]}
    assert reasons(MOVES, broker=2, min_insync_replicas=1) == {}


def test_what_is_added_counts_once_it_is_in_sync():
    caught_up = replace(MOVES, isr=(1, 2))
    assert reasons(caught_up, min_insync_replicas=1) == {}
    third = Partition(isr=(1, 2), adding=(3,))
    assert reasons(third, **MIN_2) == {Reason.NO_SPARE_REPLICA: ["t-0"]}
    assert reasons(replace(third, isr=(1, 2, 3)), **MIN_2) == {}


# ---------------------------------------------------------------- together


def together(part: Partition, *brokers: int, margin: int = 0, **configs: int) -> set[Reason]:
    return set(against(a_state(part, **configs), brokers, Terms(margin)))


def test_brokers_that_are_fine_alone_may_not_be_together():
    assert together(Partition(), 1, **MIN_2) == together(Partition(), 2, **MIN_2) == set()
    assert together(Partition(), 1, 2, **MIN_2) == {Reason.UNDER_MIN_ISR}
    assert together(Partition(replicas=(1, 2)), 1, 2) == {Reason.OFFLINE, Reason.UNDER_MIN_ISR}


def test_brokers_that_share_no_partition_go_together():
    assert together(Partition(), 3, 4, 5, **MIN_2) == set()


def test_a_margin_that_one_restart_leaves_is_asked_of_several():
    part = Partition(replicas=(1, 2, 3, 4))
    assert together(part, 1, 2, **MIN_2) == set()
    assert together(part, 1, 2, margin=1, **MIN_2) == {Reason.UNDER_MARGIN}


def test_the_controllers_that_go_together_are_no_part_of_the_majority():
    assert set(gate.of_quorum(quorum(0, 0, 0, 0, 0), [1, 2])) == set()
    assert set(gate.of_quorum(quorum(0, 0, 0, 0, 0), [1, 2, 3])) == {Reason.QUORUM}


def test_brokers_that_go_together_are_not_other_brokers():
    state = a_state(Partition(isr=(1, 2)), fenced=(3,))
    assert gate.of_brokers(state[Brokers], [2, 3]) == {}
    assert gate.outside_isr(state, [2, 3]) == {}


# ---------------------------------------------------------------- other brokers


def test_other_brokers_that_are_out_or_silent_are_named():
    brokers = a_state(fenced=(2,), silent=(3,))[Brokers]
    assert gate.of_brokers(brokers, [1]) == {
        Reason.BROKER_OUT: ["broker 2"],
        Reason.BROKER_SILENT: ["broker 3"],
    }


def test_a_fenced_broker_may_be_restarted_itself():
    assert gate.of_brokers(a_state(fenced=(1,), silent=(1,))[Brokers], [1]) == {}


@pytest.mark.parametrize("replicas", [(1, 2, 3), (1,)])
def test_a_broker_that_is_out_is_restarted_though_it_is_the_last_in_the_isr(
    replicas: tuple[int, ...],
):
    state = a_state(Partition(replicas=replicas, isr=(1,), leader=-1), fenced=(1,), **MIN_2)
    assert against(state, [1]) == {}


def test_brokers_that_are_out_do_not_wait_for_each_other():
    parts = Partition(isr=(1,)), Partition("u", isr=(2,), leader=-1)
    state = a_state(*parts, fenced=(2, 3), **MIN_2).with_tables(quorum(0, 0, 0, 0, 0))
    assert gate.reasons([state], [2], Terms()) == {}
    assert gate.reasons([state], [2, 3], Terms()) == {}
    both = gate.reasons([state], [1, 2], Terms())
    assert both[Reason.BROKER_OUT] == ["broker 3"]
    everybody = gate.reasons([state], [], Terms())
    assert everybody[Reason.BROKER_OUT] == ["broker 2", "broker 3"]


def test_a_replica_of_a_broker_that_is_out_is_not_counted_though_the_listing_has_it_in_sync():
    state = a_state(Partition(), fenced=(3,), **MIN_2)
    assert against(state, [1]) == {Reason.UNDER_MIN_ISR: ["t-0"]}


def test_another_broker_that_is_not_in_all_its_isrs_is_named_with_how_many():
    state = a_state(Partition(isr=(1, 2)), Partition("u", isr=(1, 2)), Partition("v", adding=(3,)))
    others = gate.not_in_sync([gate.outside_isr(state, [1])])
    assert others == {Reason.BROKER_NOT_IN_SYNC: ["broker 3 (2 partitions)"]}
    assert gate.not_in_sync([gate.outside_isr(state, [3])]) == {}


# ---------------------------------------------------------------- controllers


def quorum(*behind_ms: int, active: int = 0) -> ControllerQuorum:
    """Voters 1, 2, ... that were caught up so long ago."""
    count = len(behind_ms)
    return ControllerQuorum(
        node=np.arange(1, count + 1, dtype=np.int32),
        is_active=np.arange(count) == active,
        log_end_offset=np.full(count, 100),
        caught_up_at_ms=NOW_MS - np.array(behind_ms),
        observed_at_ms=np.full(count, NOW_MS),
    )


LIMIT_MS = CAUGHT_UP_WITHIN_MS


@pytest.mark.parametrize(
    ("voters", "reason"),
    [
        (quorum(0, 0, 0), None),
        (quorum(0, 0, LIMIT_MS), None),
        (quorum(0, 0, LIMIT_MS + 1), Reason.QUORUM),
        (quorum(0, 0, 0, 0, LIMIT_MS + 1), None),
        (quorum(0, 0, NOW_MS + 1), Reason.QUORUM),  # not since the active one was elected
        (quorum(0, 0), Reason.SMALL_QUORUM),
        (quorum(0), Reason.SMALL_QUORUM),
        (quorum(0, 0, 0, active=9), Reason.QUORUM_UNKNOWN),
        (ControllerQuorum.empty(), Reason.QUORUM_UNKNOWN),
    ],
)
def test_the_other_controllers_must_be_a_majority_that_is_caught_up(
    voters: ControllerQuorum, reason: Reason | None
):
    assert set(gate.of_quorum(voters, [1])) == ({reason} if reason else set())


def test_a_broker_that_is_no_controller_does_not_touch_the_quorum():
    assert gate.of_quorum(quorum(0, 0, LIMIT_MS + 1), [7]) == {}


def test_a_cluster_with_zookeeper_has_no_quorum_to_lose():
    none = quorum(0)
    none.node[:] = -1
    assert gate.of_quorum(none, [1]) == {}


# ---------------------------------------------------------------- any state


@examples(200)
@given(seed=st.integers(0, 10**6), lost=st.sets(st.integers(1, 6), max_size=2))
def test_a_restart_without_a_reason_harms_no_partition_and_each_reason_names_one_that_it_harms(
    seed: int, lost: set[int]
):
    state = simulated(seed, lost)
    for broker in range(1, 7):
        named = against(state, [broker])
        harmed = harmed_by(state, broker)
        avoidable = {*named.get(Reason.OFFLINE, ()), *named.get(Reason.UNDER_MIN_ISR, ())}
        never = {*named.get(Reason.ONE_REPLICA, ()), *named.get(Reason.NO_SPARE_REPLICA, ())}
        assert harmed <= avoidable | never
        assert avoidable <= harmed


SHAPE = Shape(topics=3, partitions=4, brokers=6, cold_share=0.2)


def simulated(seed: int, lost: Collection[int], shape: Shape = SHAPE) -> ShardState:
    shard = SimulatedShard(shape, seed)
    state, _ = step(empty("sim"), shard.observe(NOW_MS), NOW_MS)
    for broker in lost:
        shard.lose(broker)
    shard.traffic(5_000)
    return step(state, shard.observe(NOW_MS + 5_000), NOW_MS + 5_000)[0]


def harmed_by(state: ShardState, broker: int) -> set[str]:
    """Partitions with a leader that end without one, or newly below min ISR, one by one."""
    roles, least = state[Roles], state[LeaderMinIsr].min_isr
    loss = whatif.lose(state, [broker])
    leaders = dict(zip(loss.row.tolist(), loss.kafka.leader.tolist(), strict=True))
    brokers = state[Brokers]
    live = set(brokers.broker[brokers.fenced != 1].tolist())
    harmed = set()
    for row, name in enumerate(names(state)):
        isr = {
            int(b)
            for b, is_in in zip(state[Assignment].broker[row], roles.in_isr[row], strict=True)
            if is_in and b in live
        }
        goes_offline = state[Partitions].leader[row] == broker and leaders[row] == -1
        if goes_offline or (broker in isr and len(isr - {broker}) < least[row]):
            harmed.add(name)
    return harmed


def names(state: ShardState) -> list[str]:
    numbers = state[PartitionIndex].partition.tolist()
    return [f"{t}-{n}" for t, n in zip(state.topic_names().tolist(), numbers, strict=True)]
