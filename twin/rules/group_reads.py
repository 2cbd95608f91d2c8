"""Where groups of consumers read: from a disk, from remote storage, or nowhere.

A consumer reads from the leader of its partition, or from the in-sync replica of its own rack where
the leader has RackAwareReplicaSelector (KIP-392). What that replica does not have on its disk it
reads from remote storage; what is below the log start is gone. A group without members is judged as
if its consumer came back without a rack.

Source: ReplicaManager.readFromLog and findPreferredReadReplica, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from twin.declare import Alert, group_gauge, risk, rule
from twin.rules.group_moves import GroupLags, GroupMoves
from twin.rules.leaders import Leaders, Roles
from twin.rules.racks import rack_names
from twin.rules.selection import (
    LeaderSelectors,
    SelectorViews,
    candidates_at,
    replica_views,
    select,
)
from twin.rules.topic_configs import TopicConfigs
from twin.signature import Lazy
from twin.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    Int64,
    Rows,
    SparseTable,
    column,
)
from twin.tables.enums import ReplicaSelector
from twin.tables.state import (
    Assignment,
    Brokers,
    GroupOffsets,
    Partitions,
    ReaderRacks,
    Replicas,
)

_NEVER: Final = np.int64(1) << 62


class ReadsFrom(IntEnum):
    """Where the next records of a group come from."""

    DISK = 0  # of the replica that serves it
    REMOTE = 1  # remote storage
    NOWHERE = 2  # they are deleted: the consumer is reset, or stops
    NOBODY = 3  # no replica leads the partition


class GroupReads(
    SparseTable, kind="group_reads", on_demand="a comparison of stored offsets and settings"
):
    """[N] where each group reads now, in the order of ``group_offsets``."""

    reads_from: Int8 = column("where its next records come from", enum=ReadsFrom)
    remote_records: Int64 = column("records that it will read from remote storage from there on")


class GroupServers(
    SparseTable, kind="group_servers", on_demand="looked up by the stored racks of members"
):
    """[N] who serves each group now, in the order of ``group_offsets``."""

    broker: Int32 = column(
        "broker that serves it; unknown without a leader and under a custom selector",
        fill=NO_BROKER,
    )


@rule
def group_reads(
    moves: GroupMoves,
    offsets: GroupOffsets,
    reader_racks: ReaderRacks,
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    leaders: Leaders,
    brokers: Brokers,
    configs: TopicConfigs,
    selectors: LeaderSelectors,
    views: Lazy[SelectorViews],
) -> GroupReads:
    """By the offsets of the replica that serves the group."""
    rack = racks_of_readers(offsets, reader_racks, brokers)
    servers = Servers(assignment, replicas, roles, configs, views)
    kind = selectors.replica_selector
    return GroupReads(moves.row, *servers.read(moves, leaders.slot, kind, rack))


@rule
def group_servers(
    moves: GroupMoves,
    offsets: GroupOffsets,
    reader_racks: ReaderRacks,
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    leaders: Leaders,
    brokers: Brokers,
    configs: TopicConfigs,
    selectors: LeaderSelectors,
    views: Lazy[SelectorViews],
) -> GroupServers:
    """The leader, or the replica that it sends consumers of that rack to."""
    rack = racks_of_readers(offsets, reader_racks, brokers)
    servers = Servers(assignment, replicas, roles, configs, views)
    kind = selectors.replica_selector
    return GroupServers(moves.row, servers.brokers(moves, leaders.slot, kind, rack))


# ---------------------------------------------------------------- of any replica


@dataclass(frozen=True, slots=True)
class Servers:
    """Replicas that may serve consumers. ``roles`` says who leads, also if another led."""

    assignment: Assignment
    replicas: Replicas
    roles: Roles
    configs: TopicConfigs
    views: Lazy[SelectorViews]

    def read(
        self, moves: GroupMoves, leading: Array, selector: Int8, rack: Int64
    ) -> tuple[Int8, Int64]:
        """[N], [N] ReadsFrom and the records that groups read from remote storage.

        Args:
            moves: [N] the groups and their offsets.
            leading: [P] slot of the leader, UNKNOWN without one.
            selector: [P] ReplicaSelector of the leader.
            rack: [N] place of the consumer's rack in ``rack_names``.
        """
        row = moves.row.astype(np.intp)  # numpy looks up by another type more slowly
        slot, kind = leading[row], selector[row]
        reads = np.full(len(row), ReadsFrom.DISK, np.int8)
        records = np.zeros(len(row), np.int64)
        # Most groups are near the log end: whichever replica serves them has that on its disk.
        open_to_doubt = moves.committed_offset < self._on_every_disk()[row]
        some = np.flatnonzero(open_to_doubt | (moves.committed_offset == UNKNOWN))
        if len(some):
            picked = moves.pick(some)
            slot[some] = self._slots(picked, slot[some], kind[some], rack[some])
            reads[some], records[some] = self._by_offsets(picked, slot[some])
        # A custom selector may send consumers anywhere; so may one that could not be read.
        is_known = (kind == ReplicaSelector.LEADER) | (kind == ReplicaSelector.RACK_AWARE)
        is_led = slot != UNKNOWN
        reads = np.where(is_known, reads, np.int8(UNKNOWN))
        return (
            np.where(is_led, reads, np.int8(ReadsFrom.NOBODY)),
            np.where(is_known & is_led, records, UNKNOWN),
        )

    def brokers(self, moves: GroupMoves, leading: Array, selector: Int8, rack: Int64) -> Int32:
        """[N] the broker that serves each group, NO_BROKER where that is not known."""
        row = moves.row
        kind = selector[row]
        slot = self._slots(moves, leading[row], kind, rack)
        is_known = (kind == ReplicaSelector.LEADER) | (kind == ReplicaSelector.RACK_AWARE)
        served = self.assignment.broker[row, np.maximum(slot, 0)]
        broker: Int32 = np.where(is_known & (slot != UNKNOWN), served, np.int32(NO_BROKER))
        return broker

    def _on_every_disk(self) -> Int64:
        """[P] the first offset that all replicas have on disk; beyond all offsets if unknown."""
        local, start = self.replicas.local_log_start_offset, self.replicas.log_start_offset
        is_known = (local != UNKNOWN) & (start != UNKNOWN)
        first = np.where(is_known, np.maximum(local, start), _NEVER)
        # By slot: numpy reduces many short rows slowly.
        highest: Int64 = np.maximum.reduce(np.where(self.roles.is_assigned, first, 0).T)
        return highest

    def _slots(self, moves: GroupMoves, slot: Rows, kind: Int8, rack: Int64) -> Rows:
        """[N] the slot of the replica that serves each group, given that of the leader."""
        near = (kind == ReplicaSelector.RACK_AWARE) & (rack != UNKNOWN) & (slot != UNKNOWN)
        if not near.any():
            return slot
        row = moves.row[near].astype(np.intp)
        candidates = candidates_at(
            moves.committed_offset[near], self.replicas.take(row), self.roles.take(row)
        )
        near_views = replica_views(self.assignment, self.replicas, self.roles, self.views()).rows(
            row
        )
        chosen = select(near_views, candidates, rack[near])
        slot = slot.copy()
        slot[near] = (near_views.broker == chosen[:, None]).argmax(axis=1)
        return slot

    def _by_offsets(self, moves: GroupMoves, slot: Rows) -> tuple[Array, Array]:
        """[N], [N] ReadsFrom and remote records, if the replicas in those slots serve."""
        row, offset = moves.row, moves.committed_offset
        place = row.astype(np.intp) * self.assignment.broker.shape[1] + np.maximum(slot, 0)
        start, local, end = (
            getattr(self.replicas, f"{name}_offset").ravel()[place]
            for name in ("log_start", "local_log_start", "log_end")
        )
        tiered = self.configs.remote_storage[row]
        records = np.where(tiered == 1, np.maximum(np.minimum(local, end) - offset, 0), 0)
        reads = np.where(records > 0, ReadsFrom.REMOTE, ReadsFrom.DISK)
        is_gone = start > offset
        is_known = (offset != UNKNOWN) & (start != UNKNOWN) & (end != UNKNOWN)
        # What is not tiered and not deleted is on disk.
        is_known &= (tiered == 0) | ((tiered == 1) & (local != UNKNOWN)) | is_gone
        reads = np.where(is_gone, ReadsFrom.NOWHERE, reads)
        return (
            np.where(is_known, reads, UNKNOWN),
            np.where(is_known & ~is_gone, records, UNKNOWN),
        )


def racks_of_readers(offsets: GroupOffsets, reader_racks: ReaderRacks, brokers: Brokers) -> Int64:
    """[N] the place in ``rack_names`` of the member that reads each row; UNKNOWN for none."""
    place = {name: i for i, name in enumerate(rack_names(brokers))}
    places = [place.get(str(name), UNKNOWN) for name in reader_racks.rack]
    return np.array([*places, UNKNOWN], np.int64)[offsets.rack_index]


# ---------------------------------------------------------------- risks


@risk(
    "consumer_reads_remote",
    rank=125,
    severity="info",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="a group of consumers reads the partition from remote storage",
    source="KIP-405; KIP-1303, motivation",
    alert=Alert(
        summary="are read from remote storage by groups of consumers",
        description="Groups of consumers read {n} partitions of {cluster} from remote storage, "
        "which is slower than a disk; kafka_twin_group_remote_records names them.",
        # A replay is often on purpose.
        wait="15m",
        keep_firing_for="5m",
    ),
)
def reads_remote(reads: GroupReads, lags: GroupLags, partitions: Partitions) -> Bool:
    """A group that is in use does."""
    remote = (reads.reads_from == ReadsFrom.REMOTE) & lags.in_use
    return reads.pick(remote).row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@group_gauge(
    "remote_records",
    "Records that {group} reads from remote storage before it reads from a disk.",
)
def remote_records(reads: GroupReads) -> Array:
    """Unknown ones are left out."""
    return reads.remote_records
