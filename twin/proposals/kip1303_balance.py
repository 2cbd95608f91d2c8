"""From which racks partitions would be led under KIP-1303, and for how long out of balance.

Kafka keeps counting replica 0 as the preferred leader (PartitionRegistration.hasPreferredLeader,
ReplicationControlManager.maybeBalancePartitionLeaders), so a cold replica 0 leaves its partition
imbalanced: the balancer visits it every 300 s and its election changes nothing, until that replica
has grown to the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.declare import ByRack, adds_to, gauge, rule
from twin.proposals.kip1303 import warm_first
from twin.rules.balance import BalancedLeaders
from twin.rules.coverage import ReplicaCoverage, is_cold
from twin.rules.election import Kind, elect
from twin.rules.leaders import Roles
from twin.rules.next_leader import Electorate, state_as_it_is
from twin.rules.racks import racks_of
from twin.rules.warm_up import NEVER, WarmUp
from twin.table import NO_BROKER, Int32, PartitionTable, column
from twin.tables.state import Assignment, Brokers


class BalancedLeadersKip1303(
    PartitionTable, kind="balanced_leaders_kip1303", on_demand="an election over stored columns"
):
    """[P] who leads each partition once leader balancing has run under KIP-1303."""

    leader: Int32 = column("broker id, -1 for nobody", fill=NO_BROKER)


@rule
def balanced_leaders_kip1303(
    electorate: Electorate, stock: BalancedLeaders
) -> BalancedLeadersKip1303:
    """After a PREFERRED election of every partition, warm replicas before cold ones."""
    leader = stock.leader.copy()
    cold = is_cold(electorate.coverage, electorate.roles)
    row = np.flatnonzero(cold.any(axis=1))
    if len(row):
        state = state_as_it_is(electorate).rows(row)
        leader[row], _ = elect(state, Kind.PREFERRED, warm_first(~cold[row]))
    return BalancedLeadersKip1303(leader)


@adds_to("kafka_twin_rack_leaders")
def rack_leaders(balanced: BalancedLeadersKip1303, brokers: Brokers) -> Mapping[tuple[str], ByRack]:
    """Once leaders are balanced under KIP-1303."""
    return {("kip1303",): ByRack(racks_of(brokers, balanced.leader))}


@gauge(
    "preferred_cold",
    "Preferred leaders (replica 0) in the rack that hold too little local log (KIP-1303).",
    level="rack",
)
def rack_preferred_cold(
    coverage: ReplicaCoverage, roles: Roles, assignment: Assignment, brokers: Brokers
) -> ByRack:
    """By the rack of replica 0."""
    cold = is_cold(coverage, roles)[:, 0]
    return ByRack(racks_of(brokers, assignment.broker[cold, 0]))


@gauge(
    "preferred_never_warm",
    "Cold preferred leaders in the rack that cannot reach a threshold as things are.",
    level="rack",
)
def rack_preferred_never_warm(
    coverage: ReplicaCoverage,
    roles: Roles,
    assignment: Assignment,
    brokers: Brokers,
    warm_up: WarmUp,
) -> ByRack:
    """By the rack of replica 0."""
    never = is_cold(coverage, roles)[:, 0] & (warm_up.warm_in_s[:, 0] == NEVER)
    return ByRack(racks_of(brokers, assignment.broker[never, 0]))


@gauge(
    "preferred_eta_unknown",
    "Cold preferred leaders in the rack whose time until they are warm is unknown.",
    level="rack",
)
def rack_preferred_eta_unknown(
    coverage: ReplicaCoverage,
    roles: Roles,
    assignment: Assignment,
    brokers: Brokers,
    warm_up: WarmUp,
) -> ByRack:
    """By the rack of replica 0."""
    unknown = is_cold(coverage, roles)[:, 0] & np.isnan(warm_up.warm_in_s[:, 0])
    return ByRack(racks_of(brokers, assignment.broker[unknown, 0]))


@gauge(
    "time_to_balance_seconds",
    "Seconds until every cold preferred leader in the rack that can become warm is warm.",
    level="rack",
    combine="max",
)
def rack_time_to_balance(
    coverage: ReplicaCoverage,
    roles: Roles,
    assignment: Assignment,
    brokers: Brokers,
    warm_up: WarmUp,
) -> ByRack:
    """The longest of them; 0 where none is cold."""
    seconds = warm_up.warm_in_s[:, 0]
    waits = is_cold(coverage, roles)[:, 0] & np.isfinite(seconds)
    return ByRack(racks_of(brokers, assignment.broker[waits, 0]), seconds[waits])
