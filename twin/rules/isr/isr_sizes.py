"""How many replicas are in sync, against how many must be."""

from __future__ import annotations

import numpy as np

from twin.arrays.slots import count_slots
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, PartitionTable, column
from twin.rules.partitions.leaders import Roles, has_flag
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Partitions, Replicas


class IsrSizes(PartitionTable, kind="isr_sizes", on_demand="flags of the table replicas, counted"):
    """[P] replicas in the ISR, and replicas that ought to be."""

    size: Int32 = column("replicas in the ISR")
    expected: Int32 = column("assigned replicas, without those that a reassignment still adds")


@rule
def isr_sizes(roles: Roles, replicas: Replicas) -> IsrSizes:
    """The number of assigned replicas in each ISR.

    Source: Partition.isUnderReplicated and OngoingReassignmentState.replicationFactor, Kafka 4.3.
    """
    adding = has_flag(replicas.replica_flags, ReplicaFlags.ADDING)
    return IsrSizes(
        size=count_slots(roles.in_isr & roles.is_assigned),
        expected=count_slots(roles.is_assigned & ~adding),
    )


# ---------------------------------------------------------------- risks


@risk(
    "partition_offline",
    rank=10,
    severity="page",
    sentence="the partition has no leader",
    source="PartitionRegistration, Kafka 4.3",
    alert=Alert(
        summary="have no leader",
        description="{n} partitions of {cluster} can be neither written nor read.",
        wait="0s",
        keep_firing_for="3m",
    ),
)
def is_offline(partitions: Partitions) -> Bool:
    """The controller has no leader for the partition."""
    return partitions.leader == NO_BROKER


@risk(
    "under_min_isr",
    rank=40,
    severity="page",
    close_after_ms=10_000,
    sentence="fewer replicas are in sync than min.insync.replicas: acks=all is refused",
    source="Partition.isUnderMinIsr, Kafka 4.3",
    alert=Alert(
        summary="refuse acks=all",
        description="{n} partitions of {cluster} have fewer replicas in sync than "
        "min.insync.replicas.",
        # A leader that moves leaves its ISR for a moment.
        wait="30s",
        keep_firing_for="3m",
        unless="partition_offline",
    ),
)
def is_under_min_isr(partitions: Partitions, sizes: IsrSizes, least: LeaderMinIsr) -> Bool:
    """The leader refuses producers with acks=all. Without one the partition is offline instead."""
    return (partitions.leader != NO_BROKER) & (sizes.size < least.min_isr)


@risk(
    "at_min_isr",
    rank=50,
    severity="warn",
    close_after_ms=10_000,
    sentence="a replica is missing; if one more leaves the ISR, acks=all is refused",
    source="Partition.isAtMinIsr, Kafka 4.3",
    alert=Alert(
        summary="are one replica from refusing acks=all",
        description="{n} partitions of {cluster} have exactly min.insync.replicas in sync, and a "
        "replica is missing.",
        # The last of an ISR stays in it when its broker dies: such a partition is offline.
        wait="5m",
        keep_firing_for="5m",
        unless="partition_offline",
    ),
)
def is_at_min_isr(partitions: Partitions, sizes: IsrSizes, least: LeaderMinIsr) -> Bool:
    """A replica is out of the ISR, and the next one would be too many."""
    at_least: Bool = (sizes.size == least.min_isr) & (sizes.size < sizes.expected)
    at_least &= partitions.leader != NO_BROKER
    return at_least


# ---------------------------------------------------------------- exported


@gauge("isr_size", "In-sync replicas of the partition.", level="partition")
def isr_size(sizes: IsrSizes, partitions: Partitions) -> Array:
    """The size of each ISR, unknown until a listing described it."""
    return np.where(partitions.described_at_ms != UNKNOWN, sizes.size, UNKNOWN)


@gauge("in_isr", "1 if the controller has the replica in the ISR, else 0.", level="replica")
def in_isr(roles: Roles, partitions: Partitions) -> Array:
    """The members of each ISR, unknown until a listing described it."""
    described = (partitions.described_at_ms != UNKNOWN)[:, None]
    return np.where(described, roles.in_isr, UNKNOWN)


@gauge("partitions_offline", "Partitions without a leader.")
def partitions_offline(partitions: Partitions) -> int:
    """The offline partitions, of those that a listing described."""
    described = partitions.described_at_ms != UNKNOWN
    return int((described & (partitions.leader == NO_BROKER)).sum())


@gauge(
    "partitions_under_replicated",
    "Partitions with fewer in-sync replicas than assigned ones, not counting those being added.",
)
def partitions_under_replicated(sizes: IsrSizes, partitions: Partitions) -> int:
    """The under-replicated partitions, of those that a listing described."""
    described = partitions.described_at_ms != UNKNOWN
    return int((described & (sizes.size < sizes.expected)).sum())


@gauge(
    "partitions_under_min_isr", "Partitions whose leader has fewer than min ISR replicas in sync."
)
def partitions_under_min_isr(sizes: IsrSizes, least: LeaderMinIsr, partitions: Partitions) -> int:
    """The partitions under min ISR, of those that a listing described; as Kafka's own gauge."""
    has_leader = (partitions.described_at_ms != UNKNOWN) & (partitions.leader != NO_BROKER)
    return int((has_leader & (sizes.size < least.min_isr)).sum())


@gauge("partitions_at_min_isr", "Partitions whose leader has exactly min ISR replicas in sync.")
def partitions_at_min_isr(sizes: IsrSizes, least: LeaderMinIsr, partitions: Partitions) -> int:
    """The partitions at min ISR, of those that a listing described; as Kafka's own gauge."""
    has_leader = (partitions.described_at_ms != UNKNOWN) & (partitions.leader != NO_BROKER)
    return int((has_leader & (sizes.size == least.min_isr)).sum())


@gauge("partitions_leader_not_preferred", "Partitions whose leader is not replica 0.")
def partitions_leader_not_preferred(partitions: Partitions, assignment: Assignment) -> int:
    """The partitions that a replica other than the first leads."""
    has_leader = (partitions.described_at_ms != UNKNOWN) & (partitions.leader != NO_BROKER)
    return int((has_leader & (partitions.leader != assignment.broker[:, 0])).sum())


@gauge("leaders", "Partitions that the broker leads.", level="broker")
def leaders(partitions: Partitions) -> ByBroker:
    """The partitions that have a leader, by leader."""
    return ByBroker(partitions.leader[partitions.leader != NO_BROKER])


@gauge("replicas", "Replicas assigned to the broker.", level="broker")
def replicas(assignment: Assignment, roles: Roles) -> ByBroker:
    """The assigned replicas by broker."""
    return ByBroker(assignment.broker[roles.is_assigned])
