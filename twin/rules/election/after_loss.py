"""What becomes of each partition if a broker is lost, once brokers that do not answer are fenced.

``NextLeaders`` is the election that Kafka holds at once, and it is compared with real ones. Kafka
may elect a replica on a broker that does not answer, until that is fenced, and elects again then.
So a loss is judged by what comes out in the end: replicas that cannot lead now, or do not answer,
count as lost too. Headline, risk, gate, pairs and ``whatif lose`` all judge by that.

Source: ReplicationControlManager.LeaderAcceptor and handleBrokerFenced, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.arrays.slots import any_slot, count_slots, in_slots
from twin.declarations.declare import Alert, gauge, other_elections, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Cycle, EachRule
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
from twin.kafka.election import Outcome, Slots
from twin.rules.brokers.brokers import is_silent
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.election.next_leader import (
    Electorate,
    NextLeaders,
    by_outcome,
    elected_under,
    elected_without,
)
from twin.rules.isr.isr_sizes import IsrSizes
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr, differ_by_leader, min_isr_under
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Assignment, Brokers, Partitions


class LeadersAfterLoss(
    PartitionTable,
    kind="leader_after_loss",
    by_election_rule=True,
    on_demand="the next leaders, and elections of the few partitions whose next one is silent",
):
    """[P] who leads each partition once its leader is lost and silent brokers are fenced too."""

    leader: Int32 = column(
        "broker id of that leader, -1 for nobody", fill=NO_BROKER, minus_one_is_a_value=True
    )
    outcome: Int8 = column("how safe that leader is", enum=Outcome)
    coverage: Int8 = column(
        "whether it holds enough local log to lead, null for nobody", enum=Coverage
    )


class Shortfalls(ReplicaTable, kind="shortfalls", on_demand="counts of replicas in sync"):
    """[P, R] replicas without whose broker too few are in sync, silent ones not counted."""

    falls_short: Bool = column("it is in the ISR, and those that stay are too few", fill=False)


def silent_replicas(assignment: Assignment, roles: Roles, brokers: Brokers, now_ms: int) -> Bool:
    """[P, R] assigned replicas on brokers that have not answered for a while."""
    silent = brokers.broker[is_silent(brokers, now_ms)]
    if not len(silent):
        return np.zeros(assignment.broker.shape, bool)
    # Of this kind numpy compares with each of a few ids, which is faster than its lookup table.
    return roles.is_assigned & np.isin(assignment.broker, silent, kind="sort")


def away_replicas(electorate: Electorate, brokers: Brokers, now_ms: int) -> Bool:
    """[P, R] assigned replicas that a loss takes for lost: they cannot lead, or do not answer.

    The controller takes a replica that cannot lead out of the ISR when it fences its broker, which
    an earlier listing does not show yet.
    """
    roles = electorate.roles
    away: Bool = roles.is_assigned & ~electorate.candidates.is_acceptable
    return away | silent_replicas(electorate.assignment, roles, brokers, now_ms)


@rule
def leaders_after_loss(
    following: NextLeaders, electorate: Electorate, brokers: Brokers, cycle: Cycle
) -> LeadersAfterLoss:
    """The next leaders. Where the loss of those that are away changes them, they elect again."""
    away = away_replicas(electorate, brokers, cycle.observed_at_ms)
    row = _elect_again(following, electorate, away, in_isr(electorate.roles))
    if not len(row):
        return LeadersAfterLoss(*following.values())
    few = electorate.take(row)
    return _with(following, row, elected_without(few, away[row] | few.roles.is_leader))


@other_elections
def leaders_after_loss_by_others(
    ballot: Ballot,
    following: NextLeaders,
    electorate: Electorate,
    brokers: Brokers,
    cycle: Cycle,
    kafka: LeadersAfterLoss,
) -> LeadersAfterLoss:
    """The same by the ballots of another election rule."""
    away = away_replicas(electorate, brokers, cycle.observed_at_ms)
    row = _elect_again(following, electorate, away, ballot.in_sync)
    if not len(row):
        return LeadersAfterLoss(*following.values())
    few = electorate.take(row)
    gone, by_kafka = away[row] | few.roles.is_leader, NextLeaders(*kafka.take(row).values())
    return _with(following, row, elected_under(ballot.take(row), few, gone, by_kafka))


def _elect_again(
    following: NextLeaders, electorate: Electorate, away: Bool, in_sync: Slots
) -> Rows:
    """[N] partitions that get another next leader without the replicas that are away [P, R].

    The next leader is away itself; or nobody in sync can lead, and then the ELR may, once the ISR
    is empty.
    """
    if not away.any():
        return np.zeros(0, np.intp)
    roles = electorate.roles
    broker = electorate.assignment.broker
    loses = any_slot(away & (broker == in_slots(following.leader, broker.shape[1])))
    has_none = following.outcome >= Outcome.LAST_KNOWN
    loses |= has_none & any_slot(away & in_sync & ~roles.is_leader)
    return np.flatnonzero(loses)


def _with(following: NextLeaders, row: Rows, then: NextLeaders) -> LeadersAfterLoss:
    columns = []
    for before, after in zip(following.values(), then.values(), strict=True):
        values = before.copy()
        values[row] = after
        columns.append(values)
    return LeadersAfterLoss(*columns)


@rule
def shortfalls(
    electorate: Electorate,
    brokers: Brokers,
    cycle: Cycle,
    after: LeadersAfterLoss,
    least: LeaderMinIsr,
) -> Shortfalls:
    """Fewer members of the ISR than min.insync.replicas stay, each replica lost by itself.

    A leader from outside the ISR becomes the ISR (PartitionChangeBuilder.tryElection, Kafka 4.3).
    """
    falls = _shortfalls(electorate, brokers, cycle, after, least)
    row = np.flatnonzero(differ_by_leader(electorate.topic_configs, brokers))
    if len(row):
        falls[row] = _shortfalls_by_leader(electorate.take(row), brokers, cycle, least.take(row))
    return Shortfalls(falls)


def _shortfalls_by_leader(
    electorate: Electorate, brokers: Brokers, cycle: Cycle, least: LeaderMinIsr
) -> Bool:
    """[P, R] the same where min.insync.replicas is that of whoever leads then."""
    roles, partitions = electorate.roles, electorate.partitions
    members, away = in_isr(roles), away_replicas(electorate, brokers, cycle.observed_at_ms)
    falls = np.zeros(members.shape, bool)
    for slot in range(members.shape[1]):
        gone = away.copy()
        gone[:, slot] = True
        stays = any_slot(roles.is_leader & members & ~gone)
        elected = elected_without(electorate, gone).leader
        leader = np.where(stays, partitions.leader, elected)
        left = np.maximum(count_slots(members & ~gone), elected != NO_BROKER)
        needed = min_isr_under(leader, least.min_isr, partitions, electorate.topic_configs, brokers)
        falls[:, slot] = members[:, slot] & (left < needed)
    return falls


def _shortfalls(
    electorate: Electorate, brokers: Brokers, cycle: Cycle, after: LeadersAfterLoss,
    least: LeaderMinIsr,
) -> Bool:  # fmt: skip
    """[P, R] where min.insync.replicas is the same whoever leads."""
    roles = electorate.roles
    members, away = in_isr(roles), away_replicas(electorate, brokers, cycle.observed_at_ms)
    stays = members & ~away
    slots = members.shape[1]
    left = in_slots(count_slots(stays), slots) - stays
    falls = members & (left < in_slots(least.min_isr, slots))
    # One that is elected is enough where one is.
    alone = falls & (left == 0) & in_slots(least.min_isr == 1, slots)
    if alone.any():
        falls &= ~(alone & roles.is_leader & (after.leader != NO_BROKER)[:, None])
        for slot in range(members.shape[1]):
            row = np.flatnonzero(alone[:, slot] & ~roles.is_leader[:, slot])
            if len(row):
                gone = away[row]
                gone[:, slot] = True
                falls[row, slot] = elected_without(electorate.take(row), gone).leader == NO_BROKER
    return falls


# ---------------------------------------------------------------- risks


@risk(
    "no_clean_successor",
    rank=30,
    severity="warn",
    close_after_ms=10_000,
    sentence="losing the leader takes the partition offline or loses records",
    source="PartitionChangeBuilder.electLeader, Kafka 4.3; KIP-966",
    alert=Alert(
        summary="have no clean successor",
        description="If its leader were lost, each of {n} partitions of {cluster} would be offline "
        "or lose records.",
        # A restart takes a replica out of many ISRs for a minute or two.
        wait="5m",
        keep_firing_for="5m",
    ),
)
def has_no_clean_successor(
    partitions: Partitions, sizes: IsrSizes, after: LeadersAfterLoss
) -> Bool:
    """Neither the ISR nor the ELR has another member that answers, although there are replicas."""
    unsafe: Bool = after.outcome >= Outcome.LAST_KNOWN
    unsafe &= partitions.leader != NO_BROKER
    unsafe &= sizes.expected > 1
    return unsafe


@risk(
    "next_leader_cold",
    rank=80,
    severity="warn",
    close_after_ms=10_000,
    sentence="the next leader is cold: it holds too little local log, and would read older records "
    "from remote storage",
    source="KIP-1303",
    alert=Alert(
        summary="would get a cold leader",
        description="If its leader were lost, each of {n} partitions of {cluster} would be led by "
        "a replica that holds less local log than the threshold, and reads older records from "
        "remote storage.",
        # A replica that has just joined becomes warm by itself.
        wait="5m",
        keep_firing_for="5m",
    ),
)
def gets_cold_leader(partitions: Partitions, after: LeadersAfterLoss) -> Bool:
    """Kafka would elect a cold replica, in sync or not."""
    cold: Bool = after.coverage == Coverage.COLD
    cold &= partitions.leader != NO_BROKER
    return cold


# ---------------------------------------------------------------- exported


@gauge(
    "loss_partitions",
    "Partitions that the broker leads, by election rule, and by outcome and coverage of the leader "
    "that each of them gets if the broker is lost; brokers that do not answer do not lead then.",
    level="broker",
    labels=("rule", "outcome", "coverage"),
)
def loss_partitions(
    partitions: Partitions, after: EachRule[LeadersAfterLoss]
) -> Mapping[tuple[str, str, str], ByBroker]:
    """The partitions of each broker by election rule, and by outcome and coverage."""
    return {
        (name, *labels): brokers
        for name, each in after.items()
        for labels, brokers in by_outcome(partitions, each.outcome, each.coverage).items()
    }


@gauge(
    "loss_under_min_isr_partitions",
    "Partitions that losing the broker would leave with fewer than min ISR replicas in sync, "
    "without those on brokers that do not answer.",
    level="broker",
)
def loss_under_min_isr_partitions(
    shortfalls: Shortfalls, assignment: Assignment, partitions: Partitions
) -> ByBroker:
    """Losing the broker takes it out of the ISR: those that are left must still be enough."""
    needed = shortfalls.falls_short & (partitions.described_at_ms != UNKNOWN)[:, None]
    return ByBroker(assignment.broker[needed])
