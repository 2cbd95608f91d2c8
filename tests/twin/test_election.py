"""The election of a partition, and the loss of its leader, one condition at a time."""

import numpy as np
import pytest

from tests.ballots import warm_first
from tests.builders import Log, Partition, a_state
from tests.reading import conditions
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.kafka.election import ElectionKind, ElectionState, Outcome, elect
from twin.questions import whatif
from twin.rules.election.next_leader import NextLeaders, state_without
from twin.rules.partitions.topic_configs import ControllerMinIsr, LeaderMinIsr
from twin.rules.tiering.coverage import Coverage

MIB = 1 << 20


def election(
    *, replicas=(2, 1, 3), isr=(2, 1, 3), elr=(), dead=(), leader=2, last_known=NO_BROKER
) -> ElectionState:
    slots = np.array([replicas], np.int32)
    return ElectionState(
        broker=slots,
        acceptable=~np.isin(slots, list(dead)),
        in_isr=np.isin(slots, list(isr)),
        in_elr=np.isin(slots, list(elr)),
        leader=np.array([leader], np.int32),
        last_known_leader=np.array([last_known], np.int32),
    )


def test_a_lost_leader_is_replaced_by_the_next_in_sync_replica_in_assignment_order():
    leader, outcome = elect(election(dead={2}), ElectionKind.ONLINE)
    assert (leader[0], outcome[0]) == (1, Outcome.CLEAN)


def test_a_cold_replica_is_passed_over_for_a_warm_one():
    leader, _ = elect(
        election(dead={2}), ElectionKind.ONLINE, warm_first(np.array([[True, False, True]]))
    )
    assert leader[0] == 3


def test_a_cold_replica_still_leads_when_nobody_warm_is_left():
    leader, outcome = elect(
        election(isr={1}, dead={2}),
        ElectionKind.ONLINE,
        warm_first(np.array([[True, False, True]])),
    )
    assert (leader[0], outcome[0]) == (1, Outcome.CLEAN)


def test_a_cold_leader_is_not_evicted_by_an_online_election():
    leader, _ = elect(
        election(leader=2), ElectionKind.ONLINE, warm_first(np.array([[False, True, True]]))
    )
    assert leader[0] == 2


def test_the_preferred_election_takes_the_first_replica_from_a_valid_leader():
    assert elect(election(leader=1), ElectionKind.PREFERRED)[0][0] == 2
    assert elect(election(leader=1), ElectionKind.ONLINE)[0][0] == 1


def test_an_eligible_leader_replica_leads_once_the_isr_is_empty():
    leader, outcome = elect(
        election(isr=(), elr={3}, dead={2}, leader=NO_BROKER), ElectionKind.ONLINE
    )
    assert (leader[0], outcome[0]) == (3, Outcome.ELR)


def test_the_last_known_leader_is_tried_only_when_nobody_is_in_either_set():
    lost = {"isr": (), "leader": NO_BROKER, "last_known": 3}
    assert elect(election(**lost), ElectionKind.ONLINE)[1][0] == Outcome.LAST_KNOWN
    assert elect(election(**lost, elr={1}, dead={1}), ElectionKind.ONLINE)[1][0] == Outcome.NONE


def test_without_anyone_in_sync_the_partition_stays_offline():
    leader, outcome = elect(election(isr={2}, dead={2}), ElectionKind.ONLINE)
    assert (leader[0], outcome[0]) == (NO_BROKER, Outcome.NONE)


def test_an_unclean_election_takes_the_first_live_replica():
    leader, outcome = elect(election(isr={2}, dead={2}), ElectionKind.UNCLEAN)
    assert (leader[0], outcome[0]) == (1, Outcome.UNCLEAN)


@pytest.mark.parametrize(
    ("kind", "isr", "expected"),
    [
        (ElectionKind.PREFERRED, (2, 1, 3), 2),
        (ElectionKind.ONLINE, (2, 1, 3), 1),
        (ElectionKind.ONLINE, (1, 3), 1),
        (ElectionKind.ONLINE, (3,), NO_BROKER),
        (ElectionKind.UNCLEAN, (3,), 2),
    ],
)
def test_kafkas_own_example_of_election(kind, isr, expected):
    """PartitionChangeBuilderTest.testElectLeader: replica 3 is not acceptable, 1 leads."""
    assert elect(election(isr=isr, dead={3}, leader=1), kind)[0][0] == expected


# ---------------------------------------------------------------- the loss of a leader


def lost(*, thresholds=None, **partition):
    """Next leader and outcome under both rules for one partition whose leader goes."""
    state = a_state(Partition(**partition), **(thresholds or {}))
    kafka, kip1303 = state[NextLeaders], state[NextLeaders.under("kip1303")]
    return (
        (kafka.leader[0], Outcome(kafka.outcome[0])),
        (kip1303.leader[0], Outcome(kip1303.outcome[0])),
    )


def test_both_rules_agree_where_every_replica_holds_enough():
    assert lost(replicas=(4, 5, 2)) == ((5, Outcome.CLEAN),) * 2


def test_kafka_elects_the_cold_replica_and_kip_1303_the_full_one():
    """Measured: 4 leads, 5 joined from the tiered offset and holds 48 kB, 2 holds 2 MB."""
    kafka, kip1303 = lost(
        replicas=(4, 5, 2),
        logs={5: Log(size_bytes=48_615), 2: Log(size_bytes=2_090_446)},
        thresholds={"eligible_local_log_bytes": MIB},
    )
    assert kafka == (5, Outcome.CLEAN)
    assert kip1303 == (2, Outcome.CLEAN)


@pytest.mark.parametrize(
    ("partition", "settings", "outcome"),
    [
        ({"isr": (4, 5)}, {}, Outcome.CLEAN),
        ({"isr": (4,), "elr": (5,)}, {"elr_enabled": 1, "min_insync_replicas": 2}, Outcome.ELR),
        ({"isr": (), "leader": NO_BROKER, "last_known": (5,)}, {}, Outcome.LAST_KNOWN),
        ({"isr": (4,)}, {"unclean_leader_election": 1}, Outcome.UNCLEAN),
    ],
)
@pytest.mark.parametrize(
    ("size", "threshold", "coverage"),
    [
        (MIB - 1, MIB, Coverage.COLD),
        (MIB, MIB, Coverage.WARM),
        (UNKNOWN, MIB, Coverage.ASSUMED),
        (1, UNKNOWN, Coverage.NOT_JUDGED),
    ],
)
def test_the_coverage_of_the_next_leader_is_given_whatever_set_it_is_elected_from(
    partition, settings, outcome, size, threshold, coverage
):
    part = Partition(replicas=(4, 5), logs={5: Log(local_start=1, size_bytes=size)}, **partition)
    state = a_state(part, eligible_local_log_bytes=threshold, **settings)
    for following in (state[NextLeaders], state[NextLeaders.under("kip1303")]):
        assert following.leader[0] == 5
        assert following.outcome[0] == outcome
        assert following.coverage[0] == coverage
    # Without a leader the risk is that nobody leads.
    is_led = outcome is not Outcome.LAST_KNOWN
    at_risk = coverage is Coverage.COLD and is_led
    assert ("next_leader_cold" in conditions(state)) is at_risk


def test_nobody_has_no_coverage():
    following = a_state(Partition(replicas=(4,)), eligible_local_log_bytes=MIB)[NextLeaders]
    assert (following.leader[0], following.coverage[0]) == (NO_BROKER, UNKNOWN)


def test_the_only_replica_leaves_nobody():
    assert lost(replicas=(4,))[0] == (NO_BROKER, Outcome.NONE)


@pytest.mark.parametrize(
    ("elr", "settings", "leads"),
    [
        ((), {"unclean_leader_election": 1}, (5, Outcome.UNCLEAN)),
        ((5,), {"elr_enabled": 1, "min_insync_replicas": 2}, (5, Outcome.ELR)),
        ((5,), {"elr_enabled": 0}, (NO_BROKER, Outcome.NONE)),
    ],
)
def test_settings_say_who_leads_when_the_isr_is_lost(elr, settings, leads):
    assert lost(replicas=(4, 5), isr=(4,), elr=elr, thresholds=settings)[0] == leads


@pytest.mark.parametrize("obeyed", [1, UNKNOWN])
def test_an_unclean_election_is_foretold_unless_the_controller_ignores_the_setting(obeyed):
    allowed = {"unclean_leader_election": 1, "unclean_elections": obeyed}
    assert lost(replicas=(4, 5), isr=(4,), thresholds=allowed)[0][1] == Outcome.UNCLEAN


def test_a_controller_that_ignores_the_setting_leaves_nobody_by_either_rule():
    """Measured on Kafka 3.5 to 3.7 with KRaft."""
    ignored = {"unclean_leader_election": 1, "unclean_elections": 0}
    nobody = (NO_BROKER, Outcome.NONE)
    assert lost(replicas=(4, 5), isr=(4,), thresholds=ignored) == (nobody, nobody)


@pytest.mark.parametrize(
    ("part", "fenced"),
    [
        (Partition(replicas=(4, 5, 2)), [5]),
        (Partition(replicas=(4, 9, 2)), []),
        (Partition(replicas=(4, 5, 2), offline=(5,)), []),
    ],
    ids=["fenced", "not registered", "failed disk"],
)
def test_a_broker_that_cannot_lead_is_passed_over(part, fenced):
    assert a_state(part, fenced=fenced)[NextLeaders].leader[0] == 2


def test_leader_and_controller_cap_min_isr_at_different_replications():
    state = a_state(
        Partition(number=0, replicas=(1, 2)),
        Partition(number=1, replicas=(1, 2, 3)),
        Partition(number=2, replicas=(1,)),
        min_insync_replicas=3,
    )
    assert state[LeaderMinIsr].min_isr.tolist() == [2, 3, 1]
    assert state[ControllerMinIsr].controller_min_isr.tolist() == [2, 2, 2]


def test_the_first_partition_decides_when_the_elr_begins():
    for first, elr in (((1, 2, 3), [True, False, False]), ((1, 2), [False] * 3)):
        state = a_state(
            Partition(number=0, replicas=first),
            Partition(number=1),
            elr_enabled=1,
            min_insync_replicas=3,
        )
        electorate = whatif.electorate_of(state)
        without_leader = state_without(electorate, electorate.roles.is_leader)
        assert without_leader.in_elr[1].tolist() == elr


def test_an_unknown_min_isr_counts_as_kafkas_default():
    state = a_state()
    assert state[LeaderMinIsr].min_isr.tolist() == [1]
    assert state[ControllerMinIsr].controller_min_isr.tolist() == [1]


def test_warm_first_is_a_permutation_that_keeps_the_order_within_each_group():
    eligible = np.random.default_rng(1).random((500, 6)) < 0.5
    order = warm_first(eligible)
    assert (np.sort(order, axis=1) == np.arange(6)).all()
    sorted_eligible = np.take_along_axis(eligible, order.astype(int), axis=1)
    assert (np.diff(sorted_eligible.astype(int), axis=1) <= 0).all()
    within = np.diff(order, axis=1) > 0
    assert within[sorted_eligible[:, 1:] == sorted_eligible[:, :-1]].all()
