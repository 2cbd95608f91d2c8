"""The next leader of each partition, for each event that takes the present leader away.

These are the predictions that the track record (``predictions``) compares with what Kafka does.
They are kept for one cycle with the facts that they rest on, in one byte per replica.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, in_slots
from twin.declarations.declare import rule
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Int8,
    Int32,
    PartitionTable,
    ReplicaTable,
    Rows,
    UInt8,
    column,
)
from twin.kafka.election import ElectionKind, ElectionState, Outcome, Slots, elect
from twin.rules.election.balance import BalancedLeaders
from twin.rules.election.next_leader import Candidates, NextLeaders
from twin.rules.partitions.leaders import Roles, has_flag
from twin.rules.tiering.coverage import Coverage
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Partitions, Replicas

_WHY: Final = "stored tables put together, kept for one cycle"


class Forecast(IntFlag):
    """Facts and predictions about a replica. The first three are flags of the replica."""

    IN_ISR = ReplicaFlags.IN_ISR
    IN_ELR = ReplicaFlags.IN_ELR
    IN_LAST_KNOWN_ELR = ReplicaFlags.LAST_KNOWN_ELR
    IS_ACCEPTABLE = 8
    IS_DESCRIBED = 16  # the controller described the partition with this replica
    LEADS_IF_LOST = 32  # it leads if the leader is lost
    LEADS_IF_BALANCED = 64  # it leads after a preferred election
    LEADS_IF_REASSIGNED = 128  # it leads once the reassignment in progress is complete


class Forecasts(ReplicaTable, kind="forecasts", on_demand=_WHY):
    """[P, R] which replica leads next, by what takes the leader away, and why."""

    flags: UInt8 = column("what is predicted of the replica", fill=0, flags=Forecast, in_api=False)

    def has(self, flag: Forecast) -> Slots:
        """[P, R] the flag is set."""
        return (self.flags & np.uint8(flag)) != 0


class ForecastOutcomes(PartitionTable, kind="forecast_outcomes", on_demand=_WHY):
    """[P] the leader epoch in which the forecasts hold, and how safe the next leader is."""

    leader_epoch: Int32 = column("leader epoch", in_api=False)
    if_lost: Int8 = column("outcome if the leader is lost", enum=Outcome, in_api=False)
    coverage_if_lost: Int8 = column(
        "coverage of the leader that follows", enum=Coverage, in_api=False
    )


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
    """The forecasts of each kind of election, by the same rules that users see."""
    broker = assignment.broker
    slots = broker.shape[1]
    described = in_slots(partitions.described_at_ms != UNKNOWN, slots) & roles.is_assigned
    kept = np.uint8(Forecast.IN_ISR | Forecast.IN_ELR | Forecast.IN_LAST_KNOWN_ELR)
    flags = (replicas.replica_flags & kept) | np.uint8(Forecast.IS_DESCRIBED)
    for flag, holds in (
        (Forecast.IS_ACCEPTABLE, candidates.is_acceptable),
        (Forecast.LEADS_IF_LOST, broker == in_slots(following.leader, slots)),
        (Forecast.LEADS_IF_BALANCED, broker == in_slots(balanced.leader, slots)),
    ):
        flags |= holds * np.uint8(flag)
    leaving = has_flag(replicas.replica_flags, ReplicaFlags.REMOVING)
    row = np.flatnonzero(any_slot(leaving & described))
    if len(row):
        leader = _leaders_once_reassigned(row, partitions, assignment, replicas, roles, candidates)
        flags[row] |= (broker[row] == leader[:, None]) * np.uint8(Forecast.LEADS_IF_REASSIGNED)
    return Forecasts(flags * described)


@rule
def forecast_outcomes(partitions: Partitions, following: NextLeaders) -> ForecastOutcomes:
    """The outcomes that users see."""
    return ForecastOutcomes(partitions.leader_epoch, following.outcome, following.coverage)


def _leaders_once_reassigned(
    row: Rows, partitions: Partitions, assignment: Assignment, replicas: Replicas, roles: Roles,
    candidates: Candidates,
) -> Int32:  # fmt: skip
    """[N] the leaders once the added replicas are in sync and the removed ones are gone.

    Source: PartitionReassignmentReplicas.maybeCompleteReassignment, Kafka 4.3.
    """
    flags, broker, leader = replicas.replica_flags[row], assignment.broker[row], partitions.leader
    stays = roles.is_assigned[row] & ~has_flag(flags, ReplicaFlags.REMOVING)
    leads_on = any_slot(roles.is_leader[row] & stays)
    complete = ElectionState(
        broker=np.where(stays, broker, NO_BROKER),
        acceptable=candidates.is_acceptable[row] & stays,
        in_isr=(roles.in_isr[row] | has_flag(flags, ReplicaFlags.ADDING)) & stays,
        in_elr=roles.in_elr[row] & stays,
        leader=np.where(leads_on, leader[row], NO_BROKER).astype(np.int32),
        last_known_leader=np.full(len(row), NO_BROKER, np.int32),
    )
    elected, _ = elect(complete, ElectionKind.ONLINE)
    return elected
