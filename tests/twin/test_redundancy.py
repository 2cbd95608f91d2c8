"""Partitions that no state of the cluster makes safe, and what a loss harms of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Partition, a_state
from tests.examples import examples
from tests.reading import open_risks
from tests.twin.test_gate import simulated
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.questions import gate, whatif
from twin.questions.gate import Reason, Terms
from twin.rules.election.redundancy import Redundancy, Spare
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.state import Assignment, Brokers, Partitions
from twin.totals import shard_totals

HARMED = "kafka_twin_broker_loss_harmed_partitions"
MIN_2 = {"min_insync_replicas": 2}
ACCEPTED = {"t": {"one_replica_accepted": 1}}
DISKLESS = {"t": {"diskless": 1, "eligible_local_log_ms": 60_000}}


def redundancy(part: Partition, **configs) -> Spare:
    return Spare(a_state(part, **configs)[Redundancy].redundancy[0])


def harmed(*parts: Partition, **configs) -> dict[int, int]:
    """Partitions that the loss of each broker harms, without the zeros."""
    totals = shard_totals(a_state(*parts, **configs))
    return {int(broker): int(n) for (broker,), n in totals[HARMED].items() if n}


@pytest.mark.parametrize(
    ("part", "configs", "expected"),
    [
        (Partition(), MIN_2, Spare.SPARE),
        (Partition(isr=(1,)), MIN_2, Spare.SPARE),  # its replication allows one to be lost
        (Partition(replicas=(1, 2)), {}, Spare.SPARE),
        (Partition(replicas=(1, 2)), MIN_2, Spare.NO_SPARE),
        (Partition(), {"min_insync_replicas": 3}, Spare.NO_SPARE),
        (Partition(replicas=(1,)), {}, Spare.ONE_REPLICA),
        (Partition(replicas=(1,)), MIN_2, Spare.ONE_REPLICA),
        (Partition(replicas=(1,)), {"topics": ACCEPTED}, Spare.ONE_REPLICA_ACCEPTED),
        (Partition(), {"topics": ACCEPTED}, Spare.SPARE),
        (Partition(replicas=(1,)), {"topics": DISKLESS}, Spare.NOT_JUDGED),
        # What a reassignment still adds cannot stand in yet.
        (Partition(replicas=(1, 2), isr=(1,), adding=(2,)), {}, Spare.ONE_REPLICA),
    ],
)
def test_replication_decides_whether_a_partition_can_do_without_a_replica(part, configs, expected):
    assert redundancy(part, **configs) is expected


def test_a_healthy_partition_is_harmed_by_no_loss():
    assert harmed(Partition(), **MIN_2) == {}


def test_what_can_never_be_safe_is_in_no_verdict():
    parts = (Partition("one", replicas=(1,)), Partition("pair", replicas=(1, 2)))
    assert harmed(*parts, **MIN_2) == {}


def test_a_replica_that_is_missing_makes_the_loss_of_the_others_harmful():
    assert harmed(Partition(isr=(1, 2)), **MIN_2) == {1: 1, 2: 1}


def test_the_last_in_sync_cannot_be_lost_even_where_no_replica_is_to_spare():
    assert harmed(Partition(replicas=(1, 2), isr=(1,)), **MIN_2) == {1: 1}


def test_a_partition_counts_once_for_its_leader():
    assert harmed(Partition(isr=(1,)), min_insync_replicas=1) == {1: 1}


def test_a_single_replica_has_no_risk_and_is_counted():
    state = a_state(Partition("one", replicas=(1,)), Partition("two", replicas=(1, 2), isr=(1,)))
    assert open_risks(state, 0) == set()
    assert "no_clean_successor" in open_risks(state, 1)
    totals = shard_totals(state)
    assert totals.value("kafka_twin_partitions_one_replica") == 1
    assert totals["kafka_twin_broker_one_replica_partitions"]["1",] == 1


def test_an_accepted_single_replica_is_no_reason_of_the_gate_and_is_named():
    state = a_state(Partition(replicas=(1,)), topics=ACCEPTED)
    named = gate.restart(state, [1], Terms(), whatif.lose(state, [1]))
    assert named == {Reason.ONE_REPLICA_ACCEPTED: ["t-0"]}
    assert all(Terms().allows(reason) for reason in named)
    assert not Terms().allows(Reason.ONE_REPLICA)


def test_nothing_about_a_diskless_topic_is_judged():
    parts = (Partition(isr=(1,)), Partition(number=1, leader=-1, isr=()))
    judged = a_state(*parts)
    assert all(open_risks(judged, row) for row in (0, 1))

    state = a_state(*parts, topics=DISKLESS)
    assert (open_risks(state, 0), open_risks(state, 1)) == (set(), set())
    assert set(state[ReplicaCoverage].coverage.ravel().tolist()) == {Coverage.NOT_JUDGED}
    assert harmed(*parts, topics=DISKLESS) == {}
    loss = whatif.lose(state, [1])
    assert not len(loss.row)
    assert gate.restart(state, [1], Terms(), loss) == {}
    assert shard_totals(state)["kafka_twin_partitions_diskless"] == {(): 2}


@examples(100)
@given(seed=st.integers(0, 10**6), lost=st.sets(st.integers(1, 6), max_size=2))
def test_what_a_loss_harms_is_what_counting_partition_by_partition_gives(seed, lost):
    """The elections are those of ``whatif lose``, which fences the broker."""
    state = simulated(seed, lost)
    totals = shard_totals(state)[HARMED]
    fenced = {b for b, f in zip(*broker_flags(state), strict=True) if f == 1}
    for broker in set(range(1, 7)) - fenced:
        assert totals[str(broker),] == counted_one_by_one(state, broker), broker


def broker_flags(state: ShardState) -> tuple[list[int], list[int]]:
    return state[Brokers].broker.tolist(), state[Brokers].fenced.tolist()


def counted_one_by_one(state: ShardState, broker: int) -> int:
    loss = whatif.lose(state, [broker])
    outcomes = dict(zip(loss.row.tolist(), loss.kafka.outcome.tolist(), strict=True))
    roles, brokers = state[Roles], state[Assignment].broker
    harmed = 0
    for row in range(state.partitions):
        slots = range(int(state[Partitions].assigned[row]))
        isr = {int(brokers[row, slot]) for slot in slots if roles.in_isr[row, slot]}
        least = int(state[LeaderMinIsr].min_isr[row])
        leads = state[Partitions].leader[row] == broker
        unsafe = leads and len(slots) > 1 and outcomes[row] >= Outcome.LAST_KNOWN
        falls_short = broker in isr and len(slots) > max(least, 1) and len(isr) == least
        harmed += bool(unsafe or falls_short)
    return harmed
