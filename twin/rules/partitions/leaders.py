"""Roles of replicas, and the offsets of leaders: tables that most other rules read."""

from __future__ import annotations

import numpy as np

from twin.arrays.slots import count_slots, in_slots
from twin.declarations.declare import api_field, gauge, rule
from twin.declarations.results import KnownValues
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    Int64,
    PartitionTable,
    ReplicaTable,
    column,
)
from twin.tables.enums import BatchKind, PendingUpload, ReplicaFlags
from twin.tables.state import Assignment, Partitions, Replicas

_COPY = "columns of the tables partitions, assignment and replicas, put side by side"


class Roles(ReplicaTable, kind="roles", on_demand=_COPY):
    """[P, R] which part each replica plays."""

    is_assigned: Bool = column("the slot holds an assigned replica", fill=False)
    is_leader: Bool = column("it leads", fill=False)
    in_isr: Bool = column("it is in the ISR", fill=False)
    in_elr: Bool = column("it is an eligible leader replica (KIP-966)", fill=False)
    is_offline: Bool = column("its broker is fenced or its log directory failed", fill=False)


class IsrMembers(ReplicaTable, kind="isr_members", on_demand=_COPY):
    """[P, R] members of the ISR; kept from cycle to cycle, so that who left it is known."""

    in_isr: Bool = column("it is in the ISR", fill=False)


class Leaders(PartitionTable, kind="leaders", on_demand=_COPY):
    """[P] what the leader of each partition reports of its log; unknown without a leader."""

    slot: Int64 = column("replica slot of the leader")
    sampled_at_ms: Int64 = column("when the leader last answered")
    log_start_offset: Int64 = column("first offset of the log")
    local_log_start_offset: Int64 = column("first offset on the leader's disk")
    log_end_offset: Int64 = column("offset of the next record")
    last_tiered_offset: Int64 = column("last offset that the leader knows to be in remote storage")
    pending_upload_offset: Int64 = column("first offset not yet in remote storage")
    pending_upload: Int8 = column("why that is what it is", enum=PendingUpload)
    last_stable_offset: Int64 = column("first offset that read_committed consumers do not get")
    high_watermark: Int64 = column("first offset that is not committed")
    local_log_bytes: Int64 = column("size of the segments on the leader's disk")
    local_start_batch: Int8 = column("what consumers get of its first batch", enum=BatchKind)

    def values_of(self, values: Array) -> Array:
        """[P] the leader's value of a [P, R] array, UNKNOWN where no slot leads."""
        place = np.arange(0, values.size, values.shape[1]) + self.slot
        leader_values: Array = values.ravel().take(place, mode="clip")
        leader_values[self.slot == UNKNOWN] = UNKNOWN
        return leader_values


class LeaderEnds(PartitionTable, kind="leader_ends", version=3, on_demand=_COPY):
    """[P] the newest sample of each leader's log end."""

    leader: Int32 = column("broker id of the leader, -1 if none")
    leader_epoch: Int32 = column("leader epoch")
    offset: Int64 = column("log end offset")
    high_watermark: Int64 = column("first offset that was not committed, as the leader answered")
    sampled_at_ms: Int64 = column("when both were sampled")


@rule
def roles(partitions: Partitions, assignment: Assignment, replicas: Replicas) -> Roles:
    """The flags as booleans, and the leader's slot."""
    flags, broker = replicas.replica_flags, assignment.broker
    return Roles(
        is_assigned=np.arange(broker.shape[1]) < in_slots(partitions.assigned, broker.shape[1]),
        is_leader=(broker == in_slots(partitions.leader, broker.shape[1])) & (broker != NO_BROKER),
        in_isr=has_flag(flags, ReplicaFlags.IN_ISR),
        in_elr=has_flag(flags, ReplicaFlags.IN_ELR),
        is_offline=has_flag(flags, ReplicaFlags.OFFLINE),
    )


@rule
def isr_members(replicas: Replicas) -> IsrMembers:
    """The ISR as the controller has it."""
    return IsrMembers(has_flag(replicas.replica_flags, ReplicaFlags.IN_ISR))


@rule
def leaders(roles: Roles, replicas: Replicas) -> Leaders:
    """The sample of the slot that leads."""
    place = np.flatnonzero(roles.is_leader)
    row, slot = np.divmod(place, roles.is_leader.shape[1])

    def by_partition(led: Array) -> Array:
        if len(led) == len(roles.is_leader):  # a partition has at most one leader
            return led
        values = np.full(len(roles.is_leader), UNKNOWN, led.dtype)
        values[row] = led
        return values

    def of_leader(values: Array) -> Array:
        return by_partition(values.ravel().take(place))

    return Leaders(
        slot=by_partition(slot),
        sampled_at_ms=of_leader(replicas.sampled_at_ms),
        log_start_offset=of_leader(replicas.log_start_offset),
        local_log_start_offset=of_leader(replicas.local_log_start_offset),
        log_end_offset=of_leader(replicas.log_end_offset),
        last_tiered_offset=of_leader(replicas.last_tiered_offset),
        pending_upload_offset=of_leader(replicas.pending_upload_offset),
        pending_upload=of_leader(replicas.pending_upload),
        last_stable_offset=of_leader(replicas.last_stable_offset),
        high_watermark=of_leader(replicas.high_watermark),
        local_log_bytes=of_leader(replicas.local_log_bytes),
        local_start_batch=of_leader(replicas.local_start_batch),
    )


@rule
def leader_ends(partitions: Partitions, leaders: Leaders) -> LeaderEnds:
    """The columns that rates, caught-up times and losses are derived from."""
    return LeaderEnds(
        partitions.leader,
        partitions.leader_epoch,
        leaders.log_end_offset,
        leaders.high_watermark,
        leaders.sampled_at_ms,
    )


def has_flag(flags: Array, flag: ReplicaFlags) -> Bool:
    """[P, R] the controller has set the flag."""
    return (flags & np.uint8(flag)) != 0


# ---------------------------------------------------------------- exported


@gauge("leader", "Broker id of the partition's leader; -1 if it has none.", level="partition")
def leader(partitions: Partitions) -> KnownValues:
    """The leader; -1 is a value here: the partition is known to be without a leader."""
    return KnownValues(partitions.leader, partitions.described_at_ms != UNKNOWN)


@gauge("leader_epoch", "Leader epoch of the partition.", level="partition")
def leader_epoch(partitions: Partitions) -> Array:
    """The leader epoch that the controller has."""
    described = partitions.described_at_ms != UNKNOWN
    return np.where(described, partitions.leader_epoch, UNKNOWN)


@gauge("replicas", "Replicas assigned to the partition.", level="partition")
def assigned(partitions: Partitions) -> Array:
    """The number of replicas that the controller has."""
    described = partitions.described_at_ms != UNKNOWN
    return np.where(described, partitions.assigned.astype(np.int64), UNKNOWN)


@gauge("elr_size", "Eligible leader replicas of the partition (KIP-966).", level="partition")
def elr_size(partitions: Partitions, roles: Roles) -> Array:
    """The size of the ELR, unknown where the controller was not asked or did not answer."""
    is_known = (partitions.described_at_ms != UNKNOWN) & partitions.elr_known
    return np.where(is_known, count_slots(roles.in_elr & roles.is_assigned), UNKNOWN)


@gauge("log_start_offset", "First offset of the partition, by its leader.", level="partition")
def log_start_offset(leaders: Leaders) -> Array:
    """The log start that the leader reports."""
    return leaders.log_start_offset


@gauge("local_log_start_offset", "First offset on the leader's disk.", level="partition")
def local_log_start_offset(leaders: Leaders) -> Array:
    """The local log start that the leader reports."""
    return leaders.local_log_start_offset


@gauge("log_end_offset", "Offset of the leader's next record.", level="partition")
def log_end_offset(leaders: Leaders) -> Array:
    """The log end that the leader reports."""
    return leaders.log_end_offset


@gauge(
    "last_tiered_offset",
    "Last offset of the partition in remote storage, by its leader.",
    level="partition",
)
def last_tiered_offset(leaders: Leaders) -> Array:
    """The last tiered offset that the leader reports."""
    return leaders.last_tiered_offset


@gauge(
    "pending_upload_offset",
    "First offset of the partition that is not yet in remote storage, by its leader.",
    level="partition",
)
def pending_upload_offset(leaders: Leaders) -> Array:
    """The earliest pending upload offset that the leader reports."""
    return leaders.pending_upload_offset


@gauge("log_start_offset", "First offset of the replica's log.", level="replica")
def replica_log_start_offset(replicas: Replicas) -> Array:
    """The log start that the replica reports."""
    return replicas.log_start_offset


@gauge("local_log_start_offset", "First offset on the replica's disk.", level="replica")
def replica_local_log_start_offset(replicas: Replicas) -> Array:
    """The local log start that the replica reports."""
    return replicas.local_log_start_offset


@gauge("log_end_offset", "Offset of the replica's next record.", level="replica")
def replica_log_end_offset(replicas: Replicas) -> Array:
    """The log end that the replica reports."""
    return replicas.log_end_offset


@api_field("isr", "broker ids of the ISR, in assignment order")
def isr(assignment: Assignment, roles: Roles) -> list[list[int]]:
    """The members of the ISR that the controller has."""
    members = roles.in_isr & roles.is_assigned
    return [row[mask].tolist() for row, mask in zip(assignment.broker, members, strict=True)]


def assigned_brokers(assignment: Assignment, roles: Roles) -> Int32:
    """[P, R] brokers of the assigned replicas, NO_BROKER elsewhere."""
    if roles.is_assigned.all():
        return assignment.broker
    return np.where(roles.is_assigned, assignment.broker, NO_BROKER)
