"""To which replica a consumer is sent (KIP-392), and whether that one has the records on disk.

A leader with RackAwareReplicaSelector sends a consumer to an in-sync replica in the consumer's own
rack. It looks at log ends and log starts, not at what is on disk: a follower that joined by
KIP-1023 is chosen for offsets that it must read from remote storage. KIP-1023 asks for such
followers to be deprioritised. The tier-aware choice here reads that as: replicas whose local log
begins above the offset come last, in the consumer's rack as anywhere.

The rules assume RackAwareReplicaSelector. Source: RackAwareReplicaSelector,
ReplicaManager.findPreferredReadReplica, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from twin import plain
from twin.declare import Alert, ByBroker, OfRows, api_field, gauge, risk, rule
from twin.rules.leaders import Leaders, Roles
from twin.rules.racks import rack_names, racks_of
from twin.rules.replication import CaughtUp
from twin.rules.topic_configs import TopicConfigs
from twin.signature import Lazy, NowMs
from twin.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int32,
    Int64,
    PartitionTable,
    ReplicaTable,
    SparseTable,
    column,
)
from twin.tables.state import Assignment, Brokers, PartitionIndex, Partitions, Replicas

_NEVER: Final = np.int64(1) << 62


@dataclass(frozen=True, slots=True)
class ReplicaViews:
    """[P, R] what a selector knows of each replica."""

    broker: Array
    rack: Array  # place in rack_names, UNKNOWN without one
    log_end_offset: Array
    since_caught_up_ms: Array
    is_leader: Array

    def rows(self, row: Array) -> ReplicaViews:
        """Those of some partitions."""
        return ReplicaViews(*(getattr(self, field.name)[row] for field in fields(ReplicaViews)))


class ColdReads(SparseTable, kind="cold_reads"):
    """[N] offsets that a consumer of some rack would read from remote storage for no need.

    The widest window over the racks: from ``start_offset`` up to, not including, ``end_offset``.
    """

    broker: Int32 = column("broker that reads them from remote storage")
    start_offset: Int64 = column("first offset")
    end_offset: Int64 = column("first offset behind them")


class SelectorViews(
    ReplicaTable, kind="selector_views", on_demand="stored columns, as a selector sees them"
):
    """[P, R] the rack and the caught-up age of each replica, as a selector sees them."""

    rack: Int64 = column("place in the sorted names of racks")
    since_caught_up_ms: Int64 = column("age of its caught-up time; 0 for the leader")


class HighWatermarks(
    PartitionTable, kind="high_watermark", api="", on_demand="the lowest stored log end of the ISR"
):
    """[P] an estimate of each partition's high watermark."""

    high_watermark_estimate: Int64 = column(
        "lowest sampled log end of the ISR; the leader's own is at most one fetch behind it"
    )


@rule
def selector_views(
    assignment: Assignment, roles: Roles, caught_up: CaughtUp, brokers: Brokers, now_ms: NowMs
) -> SelectorViews:
    """A replica that was never seen caught up was so the longest ago."""
    at_ms = caught_up.caught_up_at_ms
    since = np.where(at_ms == UNKNOWN, _NEVER, np.maximum(now_ms - at_ms, 0))
    return SelectorViews(
        rack=racks_of(brokers, assignment.broker),
        since_caught_up_ms=np.where(roles.is_leader, 0, since),
    )


@rule
def high_watermarks(replicas: Replicas, roles: Roles) -> HighWatermarks:
    """Unknown where a log end of the ISR is."""
    isr = roles.in_isr & roles.is_assigned
    ends = np.where(isr, replicas.log_end_offset, _NEVER).min(axis=1, initial=_NEVER)
    return HighWatermarks(np.where(ends == _NEVER, UNKNOWN, ends))


@rule
def cold_reads(
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    brokers: Brokers,
    configs: TopicConfigs,
    views: Lazy[SelectorViews],
) -> ColdReads:
    """The widest window of each partition in which a consumer is sent to a cold replica.

    Looked for between the highest log start and the lowest log end of the in-sync replicas, where
    all of them are candidates and the choice is the same for every offset.
    """
    serving = _serving(replicas, roles)
    local = replicas.local_log_start_offset
    highest = np.where(serving, local, UNKNOWN).max(axis=1, initial=UNKNOWN)
    lowest = np.where(serving, local, _NEVER).min(axis=1, initial=_NEVER)
    row = np.flatnonzero((highest > lowest) & (configs.remote_storage == 1))
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
    begins = np.where(serving, replicas.log_start_offset[row], UNKNOWN).max(axis=1)
    ends = np.where(serving, replicas.log_end_offset[row], _NEVER).min(axis=1)
    start = np.maximum(begins, lowest[row])
    for rack in range(len(rack_names(brokers))):
        chosen = select(by_replica, serving, rack)
        sent_to = by_replica.broker == chosen[:, None]
        end = np.minimum(ends, np.where(sent_to, local, UNKNOWN).max(axis=1))
        wider = end - start > widest.end_offset - widest.start_offset
        widest.start_offset[wider], widest.end_offset[wider] = start[wider], end[wider]
        widest.broker[wider] = chosen[wider]
    return widest.pick(widest.broker != NO_BROKER)


def replica_views(
    assignment: Assignment, replicas: Replicas, roles: Roles, views: SelectorViews
) -> ReplicaViews:
    """The input of a replica selector, from the tables of a state."""
    return ReplicaViews(
        broker=assignment.broker,
        rack=views.rack,
        log_end_offset=replicas.log_end_offset,
        since_caught_up_ms=views.since_caught_up_ms,
        is_leader=roles.is_leader,
    )


def select(views: ReplicaViews, candidates: Bool, rack: Array | int) -> Int32:
    """[P] the broker that RackAwareReplicaSelector picks of the candidates for a client's rack.

    The leader, if no candidate is in the rack or the leader itself is; else the one with the
    highest log end, then the latest caught up, then the highest id. ``rack`` is a place in
    ``rack_names``; UNKNOWN is a client without one.
    """
    near = candidates & (views.rack == np.asarray(rack).reshape(-1, 1)) & (views.rack != UNKNOWN)
    leader = _leader(views)
    follows = (leader != NO_BROKER) & near.any(axis=1) & ~(near & views.is_leader).any(axis=1)
    return np.where(follows, _best(views, near), leader).astype(np.int32)


def select_warm(views: ReplicaViews, candidates: Bool, is_warm: Bool, rack: Array | int) -> Int32:
    """[P] the tier-aware choice: of the warm candidates, if there are any.

    Where the leader is not warm itself, and no warm candidate is in the rack, the best warm one of
    any rack serves.
    """
    warm = candidates & is_warm
    chosen = select(views, warm, rack)
    is_cold = ~((views.broker == chosen[:, None]) & warm).any(axis=1)
    row = np.flatnonzero(is_cold & warm.any(axis=1))
    if len(row):
        chosen[row] = _best(views.rows(row), warm[row])
    nobody = ~warm.any(axis=1)
    return np.where(nobody, select(views, candidates, rack), chosen).astype(np.int32)


def candidates_at(offset: Int64, replicas: Replicas, roles: Roles) -> Bool:
    """[P, R] the leader, and in-sync followers that have the offset."""
    end, start = replicas.log_end_offset, replicas.log_start_offset
    has = (end >= offset[:, None]) & (start <= offset[:, None])
    follows = roles.in_isr & has & (end != UNKNOWN) & (start != UNKNOWN)
    candidates: Bool = roles.is_assigned & (roles.is_leader | follows)
    return candidates


def is_warm_at(offset: Int64, replicas: Replicas) -> Bool:
    """[P, R] the replica has the offset on its own disk."""
    local = replicas.local_log_start_offset
    warm: Bool = (local != UNKNOWN) & (local <= offset[:, None])
    return warm


def _serving(replicas: Replicas, roles: Roles) -> Bool:
    """[P, R] in-sync replicas whose offsets are known: the leader and those that may be chosen."""
    is_known = (replicas.log_end_offset != UNKNOWN) & (replicas.local_log_start_offset != UNKNOWN)
    member = roles.is_assigned & (roles.is_leader | roles.in_isr)
    serving: Bool = is_known & member & roles.is_leader.any(axis=1, keepdims=True)
    return serving


def _best(views: ReplicaViews, among: Bool) -> Int32:
    """[P] of those, the broker with the highest log end, the latest caught up, the highest id."""
    ranks = (views.broker, -views.since_caught_up_ms, views.log_end_offset, among)
    best = np.lexsort(ranks, axis=1)[:, -1]
    chosen: Int32 = views.broker[np.arange(len(best)), best]
    return chosen


def _leader(views: ReplicaViews) -> Int32:
    slot = views.is_leader.argmax(axis=1)
    leader = views.broker[np.arange(len(slot)), slot]
    return np.where(views.is_leader.any(axis=1), leader, NO_BROKER)


# ---------------------------------------------------------------- risks


@risk(
    "cold_read_replica",
    rank=120,
    severity="info",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="consumers are sent to a replica that reads from remote storage what another has on "
    "disk",
    source="KIP-392, KIP-1023",
    alert=Alert(
        summary="send consumers to a replica that reads from remote storage without need",
        description="Consumers of {n} partitions of {cluster} are sent to a replica that reads "
        "from remote storage what another has on disk (KIP-392).",
        wait="5m",
        keep_firing_for="5m",
    ),
)
def has_cold_reads(reads: ColdReads, partitions: Partitions) -> Bool:
    """There is such a window."""
    return reads.row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge(
    "cold_read_records",
    "Offsets of the partition that consumers read from remote storage though a replica has them "
    "on disk.",
    level="partition",
)
def cold_read_records(reads: ColdReads) -> OfRows:
    """No series where there are none."""
    return OfRows(reads.row, reads.end_offset - reads.start_offset)


@gauge(
    "cold_read_records",
    "Offsets of the topic that consumers read from remote storage though a replica has them on "
    "disk.",
    level="topic",
)
def topic_cold_read_records(reads: ColdReads, index: PartitionIndex) -> Array:
    """Summed over its partitions."""
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
    """By the broker that they are sent to."""
    return ByBroker(reads.broker)


@api_field(
    "cold_reads",
    "offsets (`start_offset` to before `end_offset`) that consumers read through `broker` from "
    "remote storage though another replica has them on disk; null where there are none",
)
def cold_reads_field(reads: ColdReads, partitions: Partitions) -> list[dict[str, int] | None]:
    """At most one window a partition."""
    objects: list[dict[str, int] | None] = [None] * len(partitions.leader)
    columns = (reads.row, reads.broker, reads.start_offset, reads.end_offset)
    for row, broker, start, end in zip(*(c.tolist() for c in columns), strict=True):
        objects[row] = {"broker": broker, "start_offset": start, "end_offset": end}
    return objects


@api_field(
    "read_replicas",
    "by a consumer's rack, the broker that it is sent to (KIP-392): for the `newest` records, for "
    "the `oldest_on_disk` of the leader, and for those if the selector looked at local logs "
    "(`oldest_on_disk_tier_aware`)",
)
def read_replicas(
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    views: SelectorViews,
    leaders: Leaders,
    watermarks: HighWatermarks,
    brokers: Brokers,
) -> list[Mapping[str, Any]]:
    """As RackAwareReplicaSelector decides; empty where offsets are unknown."""
    oldest, newest = leaders.local_log_start_offset, watermarks.high_watermark_estimate
    by_replica = replica_views(assignment, replicas, roles, views)
    at_newest = candidates_at(newest, replicas, roles)
    at_oldest = candidates_at(oldest, replicas, roles)
    warm = is_warm_at(oldest, replicas)
    has_offsets = (oldest != UNKNOWN) & (newest != UNKNOWN)
    listed: list[dict[str, Any]] = [{} for _ in range(len(oldest))]
    for place, rack in enumerate(rack_names(brokers)):
        chosen = {
            "newest": select(by_replica, at_newest, place),
            "oldest_on_disk": select(by_replica, at_oldest, place),
            "oldest_on_disk_tier_aware": select_warm(by_replica, at_oldest, warm, place),
        }
        for row in np.flatnonzero(has_offsets).tolist():
            listed[row][rack] = {name: plain.integer(who[row]) for name, who in chosen.items()}
    return list(listed)
