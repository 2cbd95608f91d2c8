"""The leader that each partition gets next, by what takes the present one away.

These are the predictions that the track record (``predictions``) compares with what Kafka does.
They are kept for one cycle, with the facts that they rest on.
"""

from __future__ import annotations

from enum import IntFlag

import numpy as np

from twin.declare import rule
from twin.rules.balance import BalancedLeaders
from twin.rules.election import ElectionState, Kind, elect
from twin.rules.leaders import Roles, has_flag
from twin.rules.next_leader import Candidates, LossOutcome, NextLeaders
from twin.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Int8,
    Int32,
    PartitionTable,
    ReplicaTable,
    UInt8,
    column,
)
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Partitions, Replicas


class Forecasts(
    PartitionTable, kind="forecasts", on_demand="stored tables put together, kept for one cycle"
):
    """[P] the leader of each partition, and who leads next, by what takes the leader away."""

    leader: Int32 = column("broker id of the leader, -1 for none", fill=NO_BROKER)
    leader_epoch: Int32 = column("leader epoch")
    if_lost: Int32 = column("who leads if the leader is lost, -1 for nobody", fill=NO_BROKER)
    if_lost_outcome: Int8 = column("how safe that leader is", enum=LossOutcome)
    if_balanced: Int32 = column("who leads after a preferred election", fill=NO_BROKER)
    if_reassigned: Int32 = column(
        "who leads once the reassignment in progress is complete", fill=NO_BROKER
    )


class Fact(IntFlag):
    """A fact about a replica that an election depends on."""

    IS_DESCRIBED = 1  # the controller described the partition with this replica
    IS_ACCEPTABLE = 2
    IN_ISR = 4
    IN_ELR = 8
    IS_LAST_KNOWN = 16


class ElectionFacts(
    ReplicaTable, kind="election_facts", on_demand="flags of replicas and brokers, put together"
):
    """[P, R] facts that elections depend on, as the forecasts used them."""

    facts: UInt8 = column("facts about the replica", fill=0, flags=Fact, in_api=False)

    def has(self, fact: Fact) -> Bool:
        """[P, R] the fact held."""
        is_set: Bool = (self.facts & np.uint8(fact)) != 0
        return is_set


@rule
def forecasts(
    partitions: Partitions,
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    candidates: Candidates,
    following: NextLeaders,
    balanced: BalancedLeaders,
) -> Forecasts:
    """Each by the rule that also tells users: the forecast is what they were shown."""
    if_reassigned = partitions.leader.copy()
    flags = replicas.replica_flags
    leaving = has_flag(flags, ReplicaFlags.REMOVING) & roles.is_assigned
    row = np.flatnonzero(leaving.any(axis=1))
    if len(row):
        joining = has_flag(flags[row], ReplicaFlags.ADDING)
        stays = roles.is_assigned[row] & ~leaving[row]
        leader = partitions.leader[row]
        leads_on = ((assignment.broker[row] == leader[:, None]) & stays).any(axis=1)
        # Complete means: the replicas that are added have joined the ISR, the others are gone.
        # Source: PartitionReassignmentReplicas.maybeCompleteReassignment, Kafka 4.3.
        complete = ElectionState(
            broker=np.where(stays, assignment.broker[row], NO_BROKER),
            acceptable=candidates.is_acceptable[row] & stays,
            in_isr=(roles.in_isr[row] | joining) & stays,
            in_elr=roles.in_elr[row] & stays,
            leader=np.where(leads_on, leader, NO_BROKER).astype(np.int32),
            last_known_leader=np.full(len(row), NO_BROKER, np.int32),
        )
        if_reassigned[row], _ = elect(complete, Kind.ONLINE)
    return Forecasts(
        leader=partitions.leader,
        leader_epoch=partitions.leader_epoch,
        if_lost=following.leader,
        if_lost_outcome=following.outcome,
        if_balanced=balanced.leader,
        if_reassigned=if_reassigned,
    )


@rule
def election_facts(partitions: Partitions, roles: Roles, candidates: Candidates) -> ElectionFacts:
    """Of assigned replicas; nothing holds of the others."""
    described = (partitions.described_at_ms != UNKNOWN)[:, None] & roles.is_assigned
    holds = {
        Fact.IS_DESCRIBED: described,
        Fact.IS_ACCEPTABLE: candidates.is_acceptable & described,
        Fact.IN_ISR: roles.in_isr & described,
        Fact.IN_ELR: roles.in_elr & described,
        Fact.IS_LAST_KNOWN: candidates.is_last_known & described,
    }
    facts = np.zeros(described.shape, np.uint8)
    for fact, mask in holds.items():
        facts |= mask * np.uint8(fact)
    return ElectionFacts(facts)
