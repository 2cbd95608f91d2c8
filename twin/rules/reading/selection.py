"""The replica to which a consumer is sent (KIP-392).

The leader decides, by its own replica.selector.class. Without one every consumer reads from the
leader. RackAwareReplicaSelector sends a consumer to an in-sync replica in the consumer's own rack.
The choice of another class is unknown.

RackAwareReplicaSelector looks at log ends and log starts, not at what is on disk: a follower that
joined by KIP-1023 is chosen for offsets that it must read from remote storage. KIP-1023 asks for
such followers to be deprioritised. In the tier-aware choice here, replicas whose local log
begins above the offset come last, also in the consumer's own rack.

Source: RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.arrays.slots import any_slot, in_slots, over_slots
from twin.declarations.declare import api_field, gauge, rule
from twin.declarations.signature import NowMs
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
from twin.rules.brokers.racks import rack_names, racks_of
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.replication.caught_up import CaughtUp
from twin.rules.replication.high_watermark import HighWatermarks
from twin.tables.enums import ReplicaSelector
from twin.tables.state import Assignment, Brokers, Partitions, Replicas

_NEVER: Final = np.int64(1) << 62
_LEAST: Final = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class ReplicaViews:
    """[P, R] what a selector knows of each replica."""

    broker: Array
    rack: Array  # place in rack_names, UNKNOWN without one
    log_end_offset: Array
    since_caught_up_ms: Array
    is_leader: Array

    def rows(self, row: Array) -> ReplicaViews:
        """The views of some partitions."""
        names = (field.name for field in fields(ReplicaViews))
        return ReplicaViews(*(getattr(self, name).take(row, axis=0) for name in names))


class LeaderSelectors(
    PartitionTable, kind="leader_selectors", api="", on_demand="looked up in the table brokers"
):
    """[P] which kind of selector each partition's leader has."""

    replica_selector: Int8 = column(
        "who chooses the replicas that consumers read from: leader (nobody: all read from the "
        "leader), rack_aware, custom (a class that the twin does not know), or null if the "
        "leader's settings could not be read",
        enum=ReplicaSelector,
    )


class SelectorViews(
    ReplicaTable, kind="selector_views", on_demand="stored columns, as a selector sees them"
):
    """[P, R] the rack and the caught-up age of each replica, as a selector sees them."""

    rack: Int64 = column("place in the sorted names of racks")
    since_caught_up_ms: Int64 = column("age of its caught-up time; 0 for the leader")


@rule
def leader_selectors(partitions: Partitions, brokers: Brokers) -> LeaderSelectors:
    """The selector of the leader's broker; unknown without a leader."""
    selectors = np.append(brokers.replica_selector, np.int8(UNKNOWN))
    return LeaderSelectors(selectors[keys.find_sorted(brokers.broker, partitions.leader)])


@rule
def selector_views(
    assignment: Assignment, roles: Roles, caught_up: CaughtUp, brokers: Brokers, now_ms: NowMs
) -> SelectorViews:
    """A replica that was never seen caught up counts as caught up the longest ago."""
    at_ms = caught_up.caught_up_at_ms
    since = np.where(at_ms == UNKNOWN, _NEVER, np.maximum(now_ms - at_ms, 0))
    return SelectorViews(
        rack=racks_of(brokers, assignment.broker),
        since_caught_up_ms=np.where(roles.is_leader, 0, since),
    )


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

    It picks the leader if no candidate is in the rack, or if the leader is in it. Otherwise it
    picks the candidate in the rack with the highest log end, then the latest caught up, then the
    highest id. ``rack`` is a place in ``rack_names``; UNKNOWN is a client without one.
    """
    near = candidates & (views.rack == np.asarray(rack).reshape(-1, 1)) & (views.rack != UNKNOWN)
    server = _leader(views).astype(np.int32)
    follows = (server != NO_BROKER) & any_slot(near) & ~any_slot(near & views.is_leader)
    row = np.flatnonzero(follows)
    if len(row):
        server[row] = _best(views.rows(row), near[row])
    return server


def select_warm(views: ReplicaViews, candidates: Bool, is_warm: Bool, rack: Array | int) -> Int32:
    """[P] the tier-aware choice: of the warm candidates, if there are any.

    If the leader is not warm, and no warm candidate is in the rack, the best warm candidate of any
    rack serves.
    """
    warm = candidates & is_warm
    server = select(views, warm, rack)
    is_cold = ~any_slot((views.broker == server[:, None]) & warm)
    row = np.flatnonzero(is_cold & any_slot(warm))
    if len(row):
        server[row] = _best(views.rows(row), warm[row])
    nobody = ~any_slot(warm)
    return np.where(nobody, select(views, candidates, rack), server).astype(np.int32)


def candidates_at(offset: Int64, replicas: Replicas, roles: Roles) -> Bool:
    """[P, R] the leader, and in-sync followers that have the offset."""
    return with_offset(offset, replicas.log_start_offset, replicas.log_end_offset, roles)


def with_offset(offset: Int64, start: Int64, end: Int64, roles: Roles) -> Bool:
    """``candidates_at`` with the first and the next offset [P, R] of each replica."""
    has = (end >= offset[:, None]) & (start <= offset[:, None])
    follows = roles.in_isr & has & (end != UNKNOWN) & (start != UNKNOWN)
    return roles.is_assigned & (roles.is_leader | follows)


def is_warm_at(offset: Int64, replicas: Replicas) -> Bool:
    """[P, R] the replica has the offset on its own disk."""
    local = replicas.local_log_start_offset
    return (local != UNKNOWN) & (local <= offset[:, None])


def _best(views: ReplicaViews, candidates: Bool) -> Int32:
    """[P] of those, the broker with the highest log end, the latest caught up, the highest id.

    Each row has a candidate.
    """
    for rank in (views.log_end_offset, -views.since_caught_up_ms):
        best = over_slots(np.maximum, np.where(candidates, rank, _LEAST))
        candidates = candidates & (rank == in_slots(best, rank.shape[1]))
    return over_slots(np.maximum, np.where(candidates, views.broker, NO_BROKER))


def _leader(views: ReplicaViews) -> Int32:
    """[P] the leader's broker."""
    slot = views.is_leader.argmax(axis=1)
    leader = views.broker[np.arange(len(slot)), slot]
    return np.where(any_slot(views.is_leader), leader, NO_BROKER)


# ---------------------------------------------------------------- exported


@gauge(
    "partitions_by_replica_selector",
    "Partitions by the kind of their leader's replica.selector.class: leader (none is set), "
    "rack_aware, custom, or unknown.",
    labels=("selector",),
)
def partitions_by_replica_selector(selectors: LeaderSelectors) -> Mapping[tuple[str], int]:
    """The partitions by selector, unknown without a leader or without its settings."""
    kinds = selectors.replica_selector
    counts = {(kind.name.lower(),): int((kinds == kind).sum()) for kind in ReplicaSelector}
    return counts | {("unknown",): int((kinds == UNKNOWN).sum())}


@api_field(
    "read_replicas",
    'by a consumer\'s rack (`""`: no rack, or one without replicas), the broker that it is sent '
    "to (KIP-392): for the `newest` records, for the `oldest_on_disk` of the leader, and for those "
    "if the selector looked at local logs (`oldest_on_disk_tier_aware`). Null where the leader's "
    "`replica_selector` is custom or unknown",
)
def read_replicas(
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    views: SelectorViews,
    leaders: Leaders,
    watermarks: HighWatermarks,
    brokers: Brokers,
    selectors: LeaderSelectors,
) -> list[Mapping[str, Any]]:
    """The replicas that the leader's selector chooses; empty where offsets are unknown."""
    oldest, newest = leaders.local_log_start_offset, watermarks.high_watermark
    by_replica = replica_views(assignment, replicas, roles, views)
    warm = is_warm_at(oldest, replicas)
    has_offsets = (oldest != UNKNOWN) & (newest != UNKNOWN)
    listed: list[dict[str, Any]] = [{} for _ in range(len(oldest))]
    names = rack_names(brokers)
    for rack, place in (*zip(names, range(len(names)), strict=True), ("", UNKNOWN)):
        servers = {}
        for name, offset in (("newest", newest), ("oldest_on_disk", oldest)):
            near = select(by_replica, candidates_at(offset, replicas, roles), place)
            servers[name] = _as_configured(selectors, near, by_replica)
        candidates = candidates_at(oldest, replicas, roles)
        servers["oldest_on_disk_tier_aware"] = select_warm(by_replica, candidates, warm, place)
        for row in np.flatnonzero(has_offsets).tolist():
            listed[row][rack] = {name: plain.integer(who[row]) for name, who in servers.items()}
    return list(listed)


def _as_configured(selectors: LeaderSelectors, near: Int32, views: ReplicaViews) -> Int32:
    """[P] the broker a consumer reads from; ``near`` is the choice of RackAwareReplicaSelector."""
    kind = selectors.replica_selector
    only_leaders = np.where(kind == ReplicaSelector.LEADER, _leader(views), UNKNOWN)
    return np.where(kind == ReplicaSelector.RACK_AWARE, near, only_leaders).astype(np.int32)
