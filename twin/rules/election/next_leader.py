"""The next leader of each partition if its leader is lost now, and how safe it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.arrays import keys
from twin.arrays.slots import any_slot, count_slots, in_slots
from twin.declarations.declare import gauge, other_elections, rule
from twin.declarations.results import ByBroker, KnownValues
from twin.declarations.signature import EachRule, TableGroup
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Int8,
    Int32,
    PartitionTable,
    ReplicaTable,
    Rows,
    column,
)
from twin.kafka.election import ElectionKind, ElectionState, Outcome, Slots, elect, pick_slot
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.partitions.leaders import Roles, assigned_brokers, has_flag
from twin.rules.partitions.topic_configs import (
    ControllerMinIsr,
    TopicConfigs,
    holds_unclean_elections,
)
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Brokers, Configs, Partitions, Replicas


class NextLeaders(
    PartitionTable, kind="next_leader", version=2, api="next_leaders", by_election_rule=True
):
    """[P] who leads each partition if its leader is lost."""

    leader: Int32 = column(
        "broker id of the next leader, -1 for nobody", fill=NO_BROKER, minus_one_is_a_value=True
    )
    outcome: Int8 = column("how safe that leader is", enum=Outcome)
    coverage: Int8 = column(
        "whether it holds enough local log to lead, null for nobody", enum=Coverage
    )


class Candidates(
    ReplicaTable, kind="candidates", on_demand="flags of brokers and replicas, put together"
):
    """[P, R] replicas that the controller would accept as leader, if they are in sync."""

    is_acceptable: Bool = column("listed, not fenced, log directory online", fill=False)
    is_last_known: Bool = column(
        "the last known leader, kept when ISR and ELR are empty", fill=False
    )


@dataclass(frozen=True, slots=True)
class Electorate(TableGroup):
    """The tables that an election reads."""

    partitions: Partitions
    assignment: Assignment
    roles: Roles
    candidates: Candidates
    elr_least: ControllerMinIsr
    coverage: ReplicaCoverage
    topic_configs: TopicConfigs
    configs: Configs

    @property
    def elr_enabled(self) -> bool:
        """KIP-966 is on: replicas that leave an ISR below its minimum stay eligible."""
        return self.configs.cluster_wide("elr_enabled") == 1

    def take(self, rows: Rows) -> Electorate:
        """The electorate of those partitions."""
        return Electorate(
            partitions=self.partitions.take(rows),
            assignment=self.assignment.take(rows),
            roles=self.roles.take(rows),
            candidates=self.candidates.take(rows),
            elr_least=self.elr_least.take(rows),
            coverage=self.coverage.take(rows),
            topic_configs=self.topic_configs.take(rows),
            configs=self.configs,
        )


@rule
def candidates(
    assignment: Assignment, roles: Roles, replicas: Replicas, brokers: Brokers
) -> Candidates:
    """The replicas on live brokers that the controller has not fenced.

    Source: ReplicationControlManager.LeaderAcceptor, Kafka 4.3.
    """
    able = roles.is_assigned & ~roles.is_offline
    if len(brokers.broker):
        is_active = brokers.listed & (brokers.fenced != 1)
        able &= keys.find_sorted(brokers.broker[is_active], assignment.broker) != UNKNOWN
    last = has_flag(replicas.replica_flags, ReplicaFlags.LAST_KNOWN_ELR) & roles.is_assigned
    sole = count_slots(last) == 1
    return Candidates(able, last & in_slots(sole, last.shape[1]))


@rule
def next_leaders(electorate: Electorate) -> NextLeaders:
    """The election that the controller holds if each partition's leader is fenced now.

    A partition without a leader is judged as it is. Source: ReplicationControlManager
    .generateLeaderAndIsrUpdates and PartitionChangeBuilder.build, Kafka 4.3.
    """
    return elected_without(electorate, electorate.roles.is_leader)


@other_elections
def next_leaders_by_others(
    electorate: Electorate, ballot: Ballot, kafka: NextLeaders
) -> NextLeaders:
    """The same election by the ballots of another election rule."""
    return elected_under(ballot, electorate, electorate.roles.is_leader, kafka)


def elected_without(electorate: Electorate, lost_replicas: Slots) -> NextLeaders:
    """[P] who leads by Kafka's rule if the brokers of those replicas [P, R] were fenced at once.

    A leader that is not lost stays. A partition that loses no replica is judged as it is.
    """
    leader, outcome = hold_election(
        state_without(electorate, lost_replicas), holds_unclean_elections(electorate.topic_configs)
    )
    return NextLeaders(leader, outcome, coverage_of(leader, electorate))


def elected_under(
    ballot: Ballot, electorate: Electorate, lost_replicas: Slots, kafka: NextLeaders
) -> NextLeaders:
    """[P] the same by another election rule. Only partitions where the rules differ elect again.

    Args:
        ballot: [P, R] of the election rule.
        electorate: the tables that an election reads.
        lost_replicas: [P, R] replicas on brokers that are fenced.
        kafka: [P] who is elected by Kafka's rule.
    """
    leader, outcome = kafka.leader.copy(), kafka.outcome.copy()
    row = np.flatnonzero(ballot.differs(electorate.roles))
    if len(row):
        few, ballot = electorate.take(row), ballot.take(row)
        leader[row], outcome[row] = hold_election(
            state_without(few, lost_replicas[row], ballot.in_sync),
            holds_unclean_elections(few.topic_configs),
            ballot.order(few.roles.is_assigned),
        )
    return NextLeaders(leader, outcome, coverage_of(leader, electorate))


def coverage_of(leader: Int32, electorate: Electorate) -> Int8:
    """[P] the coverage of those replicas, UNKNOWN without a leader."""
    broker = electorate.assignment.broker
    leader_slots = broker == in_slots(leader, broker.shape[1])
    coverage = pick_slot(electorate.coverage.coverage, leader_slots.argmax(axis=1))
    return np.where(leader == NO_BROKER, np.int8(UNKNOWN), coverage)


def state_without(
    electorate: Electorate, lost_replicas: Slots, in_sync: Slots | None = None
) -> ElectionState:
    """The input of an election once those replicas are fenced: out of the ISR, perhaps in the ELR.

    ``in_sync`` [P, R] takes the place of the ISR.
    """
    roles, partitions = electorate.roles, electorate.partitions
    members = in_isr(roles) if in_sync is None else in_sync
    left = members & ~lost_replicas
    elr = np.zeros_like(members)
    if electorate.elr_enabled:
        # maybePopulateTargetElr: below min ISR, a replica that leaves the ISR stays eligible.
        short = count_slots(left) < electorate.elr_least.controller_min_isr
        elr = in_slots(short, elr.shape[1]) & (members | (roles.in_elr & roles.is_assigned)) & ~left
    led_by_lost = any_slot(roles.is_leader & lost_replicas)
    leader = np.where(led_by_lost, NO_BROKER, partitions.leader).astype(np.int32)
    return ElectionState(
        broker=assigned_brokers(electorate.assignment, roles),
        acceptable=electorate.candidates.is_acceptable & ~lost_replicas,
        in_isr=left,
        in_elr=elr,
        leader=leader,
        last_known_leader=_last_known_leaders(electorate),
    )


def state_as_it_is(electorate: Electorate, in_sync: Slots | None = None) -> ElectionState:
    """The input of an election without a loss, as leader balancing holds it.

    ``in_sync`` [P, R] takes the place of the ISR.
    """
    roles = electorate.roles
    return ElectionState(
        broker=assigned_brokers(electorate.assignment, roles),
        acceptable=electorate.candidates.is_acceptable,
        in_isr=in_isr(roles) if in_sync is None else in_sync,
        in_elr=roles.in_elr & roles.is_assigned,
        leader=electorate.partitions.leader,
        last_known_leader=_last_known_leaders(electorate),
    )


def hold_election(
    state: ElectionState, unclean: Bool, preference: NDArray[np.int16] | None = None
) -> tuple[Int32, Int8]:
    """[P] the elected broker and its Outcome; ``unclean`` rows may lose records."""
    leader, outcome = elect(state, ElectionKind.ONLINE, preference)
    row = np.flatnonzero(unclean & (outcome == Outcome.NONE))
    if len(row):
        leader[row], outcome[row] = elect(
            state.rows(row), ElectionKind.UNCLEAN, None if preference is None else preference[row]
        )
    return leader, outcome


def by_outcome(
    partitions: Partitions, outcome: Int8, coverage: Int8
) -> Mapping[tuple[str, str], ByBroker]:
    """The partitions that each broker leads, by outcome and coverage of its successor."""
    has_leader = partitions.leader != NO_BROKER
    losses = {}
    for safety in Outcome:
        if safety is Outcome.NONE:
            continue
        for level in Coverage:
            mask = has_leader & (outcome == safety) & (coverage == level)
            losses[safety.name.lower(), level.name.lower()] = ByBroker(partitions.leader[mask])
    nobody = has_leader & (outcome == Outcome.NONE)
    losses[NOBODY, NOBODY] = ByBroker(partitions.leader[nobody])
    return losses


NOBODY: Final = Outcome.NONE.name.lower()
"""Outcome and coverage, as labels, where nobody leads."""


def _last_known_leaders(electorate: Electorate) -> Int32:
    last = electorate.candidates.is_last_known
    if not last.any():
        return np.full(len(last), NO_BROKER, np.int32)
    broker = pick_slot(electorate.assignment.broker, last.argmax(axis=1))
    return np.where(any_slot(last), broker, NO_BROKER)


# ---------------------------------------------------------------- exported


@gauge(
    "next_leader",
    "Broker id of the partition's leader once the present one is lost, -1 for nobody.",
    level="partition",
    labels=("rule",),
)
def next_leader(
    partitions: Partitions, following: EachRule[NextLeaders]
) -> Mapping[tuple[str], KnownValues]:
    """The next leader by each election rule."""
    described = partitions.described_at_ms != UNKNOWN
    return {(name,): KnownValues(each.leader, described) for name, each in following.items()}
