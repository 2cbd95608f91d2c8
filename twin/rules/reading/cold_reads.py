"""Offsets that consumers read from remote storage although another replica has them on disk.

Judged only where the leader has RackAwareReplicaSelector: without a selector all consumers read
from the leader, and what a custom class does is unknown. Source: KIP-392, KIP-1023.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, in_slots, over_slots
from twin.declarations.declare import Alert, api_field, gauge, risk, rule
from twin.declarations.results import ByBroker, OfRows
from twin.declarations.signature import Lazy
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    Int64,
    PartitionTable,
    SparseTable,
    column,
)
from twin.rules.brokers.racks import rack_names
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.reading.selection import LeaderSelectors, SelectorViews, replica_views, select
from twin.tables.enums import ReplicaSelector
from twin.tables.state import Assignment, Brokers, PartitionIndex, Partitions, Replicas

_NEVER: Final = np.int64(1) << 62


class ColdReads(SparseTable, kind="cold_reads"):
    """[N] offsets that a consumer would read from remote storage without need.

    The widest window over the consumers' racks: from ``start_offset`` up to, not including,
    ``end_offset``.
    """

    broker: Int32 = column("broker that reads them from remote storage")
    start_offset: Int64 = column("first offset")
    end_offset: Int64 = column("first offset after them")


class ReadsCold(
    PartitionTable, kind="reads_cold", api="", on_demand="derived from cold_reads and selectors"
):
    """[P] whether consumers of each partition are sent to a cold replica without need."""

    reads_cold: Int8 = column(
        "consumers are sent to a replica that reads from remote storage what another in-sync "
        "replica has on disk; null where the leader's `replica_selector` is custom or unknown",
        tri_state=True,
    )


@rule
def cold_reads(
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    brokers: Brokers,
    configs: TopicConfigs,
    selectors: LeaderSelectors,
    views: Lazy[SelectorViews],
) -> ColdReads:
    """The widest window of each partition in which a consumer is sent to a cold replica.

    The consumers are those of each rack and those without a rack, which the leader serves itself.
    Windows are between the highest log start and the lowest log end of the in-sync replicas, where
    all of them are candidates and the choice is the same for every offset.
    """
    serving = _serving(replicas, roles)
    local = replicas.local_log_start_offset
    highest = over_slots(np.maximum, np.where(serving, local, UNKNOWN))
    lowest = over_slots(np.minimum, np.where(serving, local, _NEVER))
    by_rack = selectors.replica_selector == ReplicaSelector.RACK_AWARE
    row = np.flatnonzero((highest > lowest) & (configs.remote_storage == 1) & by_rack)
    if not len(row):
        return ColdReads.empty()
    widest = ColdReads(
        row=row.astype(np.int32),
        broker=np.full(len(row), NO_BROKER, np.int32),
        start_offset=np.zeros(len(row), np.int64),
        end_offset=np.zeros(len(row), np.int64),
    )
    serving, local = serving[row], local[row]
    by_replica = replica_views(assignment, replicas, roles, views()).rows(row)
    begins = over_slots(np.maximum, np.where(serving, replicas.log_start_offset[row], UNKNOWN))
    ends = over_slots(np.minimum, np.where(serving, replicas.log_end_offset[row], _NEVER))
    start = np.maximum(begins, lowest[row])
    for rack in (*range(len(rack_names(brokers))), UNKNOWN):
        server = select(by_replica, serving, rack)
        sent_to = by_replica.broker == server[:, None]
        end = np.minimum(ends, over_slots(np.maximum, np.where(sent_to, local, UNKNOWN)))
        wider = end - start > widest.end_offset - widest.start_offset
        widest.start_offset[wider], widest.end_offset[wider] = start[wider], end[wider]
        widest.broker[wider] = server[wider]
    return widest.pick(widest.broker != NO_BROKER)


@rule
def reads_cold(
    reads: ColdReads, selectors: LeaderSelectors, leaders: Leaders, configs: TopicConfigs
) -> ReadsCold:
    """Certainly false without a selector, and for a topic that is not tiered."""
    kind, tiered = selectors.replica_selector, configs.remote_storage
    no = (kind == ReplicaSelector.LEADER) | ((kind != UNKNOWN) & (tiered == 0))
    no |= (
        (kind == ReplicaSelector.RACK_AWARE)
        & (tiered == 1)
        & (leaders.local_log_start_offset != UNKNOWN)
    )
    yes = reads.row_mask(len(kind))
    return ReadsCold(np.where(yes, 1, np.where(no, 0, UNKNOWN)).astype(np.int8))


def _serving(replicas: Replicas, roles: Roles) -> Bool:
    """[P, R] in-sync replicas whose offsets are known: the leader and those that may be chosen."""
    is_known = (replicas.log_end_offset != UNKNOWN) & (replicas.local_log_start_offset != UNKNOWN)
    member = roles.is_assigned & (roles.is_leader | roles.in_isr)
    return is_known & member & in_slots(any_slot(roles.is_leader), member.shape[1])


# ---------------------------------------------------------------- risks


@risk(
    "cold_read_replica",
    rank=120,
    severity="info",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="the leader sends consumers to a replica that reads from remote storage what another "
    "has on disk",
    source="KIP-392, KIP-1023",
    alert=Alert(
        summary="send consumers to a replica that reads from remote storage without need",
        description="Leaders of {n} partitions of {cluster} send consumers of older records to a "
        "replica that reads from remote storage what another has on disk (KIP-392).",
        wait="5m",
        keep_firing_for="5m",
    ),
)
def has_cold_reads(reads: ColdReads, partitions: Partitions) -> Bool:
    """Consumers of some rack are sent to a cold replica."""
    return reads.row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge(
    "cold_read_records",
    "Offsets of the partition that consumers read from remote storage though a replica has them "
    "on disk.",
    level="partition",
)
def cold_read_records(reads: ColdReads) -> OfRows:
    """The records of the window; no series where there is none."""
    return OfRows(reads.row, reads.end_offset - reads.start_offset)


@gauge(
    "cold_read_records",
    "Offsets of the topic that consumers read from remote storage though a replica has them on "
    "disk.",
    level="topic",
)
def topic_cold_read_records(reads: ColdReads, index: PartitionIndex) -> Array:
    """The records of the windows of its partitions, added up."""
    records = np.zeros(len(index.partition), np.int64)
    records[reads.row] = reads.end_offset - reads.start_offset
    return records


@gauge(
    "cold_read_partitions",
    "Partitions whose consumers are sent to the broker to read from remote storage what another "
    "replica has on disk.",
    level="broker",
)
def cold_read_partitions(reads: ColdReads) -> ByBroker:
    """The partitions by the broker that consumers are sent to."""
    return ByBroker(reads.broker)


@gauge(
    "partitions_cold_read_unknown",
    "Partitions for which it is unknown whether consumers are sent to a cold replica: the leader's "
    "replica.selector.class is a custom one, or an offset or a setting could not be read.",
)
def partitions_cold_read_unknown(reads: ReadsCold) -> int:
    """The partitions that no count of cold reads includes."""
    return int((reads.reads_cold == UNKNOWN).sum())


@api_field(
    "cold_reads",
    "offsets (`start_offset` to before `end_offset`) that consumers read through `broker` from "
    "remote storage though another replica has them on disk; null where none are known, see "
    "`reads_cold`",
)
def cold_reads_field(reads: ColdReads, partitions: Partitions) -> list[dict[str, int] | None]:
    """The window of each partition, null without one."""
    objects: list[dict[str, int] | None] = [None] * len(partitions.leader)
    columns = (reads.row, reads.broker, reads.start_offset, reads.end_offset)
    for row, broker, start, end in zip(*(c.tolist() for c in columns), strict=True):
        objects[row] = {"broker": broker, "start_offset": start, "end_offset": end}
    return objects
