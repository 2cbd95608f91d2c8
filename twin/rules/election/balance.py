"""The racks of leaders, now and once leader balancing has run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.declarations.declare import gauge, other_elections, rule
from twin.declarations.results import ByRack
from twin.declarations.signature import EachRule
from twin.declarations.table import NO_BROKER, Int32, PartitionTable, column
from twin.kafka.election import ElectionKind, elect
from twin.rules.brokers.racks import racks_of
from twin.rules.election.ballots import Ballot
from twin.rules.election.next_leader import Electorate, state_as_it_is
from twin.tables.state import Brokers, Partitions


class BalancedLeaders(
    PartitionTable,
    kind="balanced_leaders",
    on_demand="an election over stored columns",
    by_election_rule=True,
):
    """[P] who leads each partition once leader balancing has run."""

    leader: Int32 = column("broker id, -1 for nobody", fill=NO_BROKER)


@rule
def balanced_leaders(electorate: Electorate) -> BalancedLeaders:
    """The leaders after a PREFERRED election of every partition, as the balancer holds it.

    Source: ReplicationControlManager.maybeBalancePartitionLeaders, Kafka 4.3.
    """
    roles, is_acceptable = electorate.roles, electorate.candidates.is_acceptable
    is_settled = (roles.is_leader & roles.in_isr & is_acceptable)[:, 0]
    row = np.flatnonzero(~is_settled)  # the others are led by their preferred replica and stay
    leader = electorate.partitions.leader.copy()
    leader[row], _ = elect(state_as_it_is(electorate).rows(row), ElectionKind.PREFERRED)
    return BalancedLeaders(leader)


@other_elections
def balanced_by_others(
    electorate: Electorate, ballot: Ballot, kafka: BalancedLeaders
) -> BalancedLeaders:
    """The leaders after a PREFERRED election by the ballots of another election rule."""
    leader = kafka.leader.copy()
    row = np.flatnonzero(ballot.differs(electorate.roles))
    if len(row):
        few, electors = ballot.take(row), electorate.take(row)
        state = state_as_it_is(electors, few.in_sync)
        order = few.order(electors.roles.is_assigned)
        leader[row], _ = elect(state, ElectionKind.PREFERRED, order)
    return BalancedLeaders(leader)


@gauge(
    "leaders",
    "Leaders in the rack, now or once leaders are balanced under an election rule.",
    level="rack",
    labels=("rule",),
)
def rack_leaders(
    partitions: Partitions, balanced: EachRule[BalancedLeaders], brokers: Brokers
) -> Mapping[tuple[str], ByRack]:
    """The leaders by rack; brokers without a rack count nowhere."""
    leaders = {"now": partitions.leader, **{name: each.leader for name, each in balanced.items()}}
    return {(name,): ByRack(racks_of(brokers, each)) for name, each in leaders.items()}
