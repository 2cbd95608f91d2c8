"""Racks of the leaders under KIP-1303, and how long partitions would be out of balance.

Kafka keeps counting replica 0 as the preferred leader (PartitionRegistration.hasPreferredLeader,
ReplicationControlManager.maybeBalancePartitionLeaders), so a cold replica 0 leaves its partition
imbalanced: the balancer visits it every 300 s and its election changes nothing, until that replica
has grown to the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.declarations.declare import gauge
from twin.declarations.results import ByRack
from twin.declarations.signature import TableGroup
from twin.declarations.table import Bool, Float64, Int64
from twin.rules.brokers.racks import racks_of
from twin.rules.partitions.leaders import Roles
from twin.rules.tiering.coverage import ReplicaCoverage, is_cold
from twin.rules.tiering.warm_up import NEVER, WarmUp
from twin.tables.state import Assignment, Brokers


@dataclass(frozen=True, slots=True)
class PreferredReplicas(TableGroup):
    """[P] replica 0 of each partition, which leader balancing lets lead once it is warm."""

    coverage: ReplicaCoverage
    roles: Roles
    assignment: Assignment
    brokers: Brokers
    warm_up: WarmUp

    @property
    def is_cold(self) -> Bool:
        """[P] it holds too little local log."""
        return is_cold(self.coverage, self.roles)[:, 0]

    @property
    def warm_in_s(self) -> Float64:
        """[P] seconds until it is warm."""
        return self.warm_up.warm_in_s[:, 0]

    def racks(self, rows: Bool) -> Int64:
        """[N] the racks of the partitions in a mask [P]."""
        return racks_of(self.brokers, self.assignment.broker[rows, 0])


@gauge(
    "preferred_cold",
    "Preferred leaders (replica 0) in the rack that hold too little local log (KIP-1303).",
    level="rack",
)
def rack_preferred_cold(preferred: PreferredReplicas) -> ByRack:
    """The cold preferred replicas by rack."""
    return ByRack(preferred.racks(preferred.is_cold))


@gauge(
    "preferred_never_warm",
    "Cold preferred leaders in the rack that cannot reach a threshold as things are.",
    level="rack",
)
def rack_preferred_never_warm(preferred: PreferredReplicas) -> ByRack:
    """The cold preferred replicas that never become warm, by rack."""
    return ByRack(preferred.racks(preferred.is_cold & (preferred.warm_in_s == NEVER)))


@gauge(
    "preferred_eta_unknown",
    "Cold preferred leaders in the rack whose time until they are warm is unknown.",
    level="rack",
)
def rack_preferred_eta_unknown(preferred: PreferredReplicas) -> ByRack:
    """The cold preferred replicas for which the time until they are warm is unknown, by rack."""
    return ByRack(preferred.racks(preferred.is_cold & np.isnan(preferred.warm_in_s)))


@gauge(
    "time_to_balance_seconds",
    "Seconds until every cold preferred leader in the rack that can become warm is warm.",
    level="rack",
    combine="max",
)
def rack_time_to_balance(preferred: PreferredReplicas) -> ByRack:
    """The longest time by rack; 0 where no preferred replica is cold."""
    waits = preferred.is_cold & np.isfinite(preferred.warm_in_s)
    return ByRack(preferred.racks(waits), preferred.warm_in_s[waits])
