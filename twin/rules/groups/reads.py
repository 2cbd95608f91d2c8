"""Where groups of consumers read: from a disk, from remote storage, or nowhere.

A consumer reads from the leader of its partition, or from the in-sync replica of its own rack where
the leader has RackAwareReplicaSelector (KIP-392). Records that are not on the disk of that
replica come from remote storage; records below the log start are gone. A group without members is
judged as if its consumer came back without a rack.

After an election that lost records, a group may continue beyond the log end (KIP-392, case 4). A
consumer that knows the leader epoch of its position detects that and continues where the logs
diverge (KIP-320); others get OFFSET_OUT_OF_RANGE and go where auto.offset.reset sends them.

Source: ReplicaManager.readFromLog and findPreferredReadReplica, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np

from twin.arrays.slots import over_slots
from twin.declarations.declare import group_gauge, rule
from twin.declarations.signature import Lazy, TableGroup
from twin.declarations.table import (
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
from twin.rules.brokers.racks import rack_names
from twin.rules.election.truncations import CommonLogs
from twin.rules.groups.moves import GroupMoves, is_ahead
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.reading.selection import (
    LeaderSelectors,
    SelectorViews,
    replica_views,
    select,
    with_offset,
)
from twin.rules.tiering.gaps import RemoteGaps
from twin.rules.tiering.remote_reads import in_remote
from twin.rules.tiering.tier_invariants import TierDisorder
from twin.tables.enums import ReplicaSelector
from twin.tables.state import (
    Assignment,
    Brokers,
    GroupOffsets,
    ReaderRacks,
    Replicas,
)

_NEVER: Final = np.uint64(1) << np.uint64(62)


class ReadsFrom(IntEnum):
    """The place from which the next records of a group come."""

    DISK = 0  # of the replica that serves it
    REMOTE = 1  # remote storage
    NOWHERE = 2  # they are deleted, or in no copy: the consumer is reset, or stops
    NOBODY = 3  # no replica leads the partition
    AHEAD = 4  # the log ends before its offset: the consumer is reset, or stops


CANNOT_READ: Final = (ReadsFrom.NOWHERE, ReadsFrom.NOBODY, ReadsFrom.AHEAD)
"""Where a group gets none of its next records."""


class GroupReads(
    SparseTable, kind="group_reads", on_demand="a comparison of stored offsets and settings"
):
    """[N] where each group reads now, in the order of ``group_offsets``."""

    reads_from: Int8 = column("where its next records come from", enum=ReadsFrom)
    remote_records: Int64 = column(
        "records that it will read from remote storage from there on, up to the next one that is "
        "not there"
    )


class GroupServers(
    SparseTable, kind="group_servers", on_demand="looked up by the stored racks of members"
):
    """[N] who serves each group now, in the order of ``group_offsets``."""

    broker: Int32 = column(
        "broker that serves it; unknown without a leader and under a custom selector",
        fill=NO_BROKER,
    )


@dataclass(frozen=True)
class Servers(TableGroup):
    """Replicas that may serve consumers, and the racks in which consumers may be.

    With other ``roles``, it tells where consumers would read if another replica led.
    """

    assignment: Assignment
    replicas: Replicas
    roles: Roles
    brokers: Brokers
    configs: TopicConfigs
    racks: ReaderRacks
    leaders: Leaders
    gaps: RemoteGaps
    disorder: Lazy[TierDisorder]
    views: Lazy[SelectorViews]
    common: Lazy[CommonLogs]

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
        row = moves.row.astype(np.intp)  # numpy indexes more slowly by another type
        offset, slot, kind = moves.committed_offset, leading[row], selector[row]
        reads, records = _on_disk(slot, kind)
        # Most groups are near the log end: whichever replica serves them has that on its disk.
        open_to_doubt = (offset < self.on_every_disk[row]) | (offset == UNKNOWN)
        some = np.flatnonzero(open_to_doubt & (records == 0))
        if len(some):
            row, offset = row[some], offset[some]
            serving = self._slots(row, offset, slot[some], kind[some], rack[some])
            reads[some], records[some] = self._by_offsets(row, offset, serving)
        return reads, records

    @cached_property
    def on_every_disk(self) -> Int64:
        """[P] the first offset that all replicas have on disk; beyond all offsets if unknown."""
        columns = self.replicas.local_log_start_offset, self.replicas.log_start_offset
        # As an unsigned number, UNKNOWN is the highest.
        local, start = (column.view(np.uint64) for column in columns)
        first = np.where(self.roles.is_assigned, np.maximum(local, start), np.uint64(0))
        return np.minimum(over_slots(np.maximum, first), _NEVER).astype(np.int64)

    def reader_racks(self, offsets: GroupOffsets) -> Int64:
        """[N] the place in ``rack_names`` of the member that reads each row; UNKNOWN for none."""
        place = {name: i for i, name in enumerate(rack_names(self.brokers))}
        places = [place.get(str(name), UNKNOWN) for name in self.racks.rack]
        return np.array([*places, UNKNOWN], np.int64)[offsets.rack_index]

    def serving(self, moves: GroupMoves, leading: Array, selector: Int8, rack: Int64) -> Int32:
        """[N] the broker that serves each group, NO_BROKER where that is not known."""
        row = moves.row.astype(np.intp)
        kind = selector[row]
        slot = self._slots(row, moves.committed_offset, leading[row], kind, rack)
        is_known = (kind == ReplicaSelector.LEADER) | (kind == ReplicaSelector.RACK_AWARE)
        served = self.assignment.broker[row, np.maximum(slot, 0)]
        return np.where(is_known & (slot != UNKNOWN), served, np.int32(NO_BROKER))

    def ahead_then(self, moves: GroupMoves, leading: Array) -> Bool:
        """[N] the leaders in those slots [P] are from outside the ISR and lack what was read."""
        row = moves.row.astype(np.intp)
        slot = leading[row]
        members = self.roles.in_isr | self.roles.in_elr
        row = np.flatnonzero((slot != UNKNOWN) & ~members[row, slot])
        is_ahead = np.zeros(len(moves), bool)
        if len(row):  # few elections are unclean
            place = moves.row[row].astype(np.intp), slot[row]
            end = self.common().end_offset[place]
            is_ahead[row] = (end != UNKNOWN) & (moves.committed_offset[row] > end)
        return is_ahead

    def _slots(self, row: Rows, offset: Int64, slot: Rows, kind: Int8, rack: Int64) -> Rows:
        """[N] the slot of the replica that serves each group, given that of the leader."""
        near = (kind == ReplicaSelector.RACK_AWARE) & (rack != UNKNOWN) & (slot != UNKNOWN)
        if not near.any():
            return slot
        row = row[near]
        views = replica_views(self.assignment, self.replicas, self.roles, self.views()).rows(row)
        start = self.replicas.log_start_offset.take(row, axis=0)
        candidates = with_offset(offset[near], start, views.log_end_offset, self.roles.take(row))
        server = select(views, candidates, rack[near])
        slot = slot.copy()
        slot[near] = (views.broker == server[:, None]).argmax(axis=1)
        return slot

    def _by_offsets(self, row: Rows, offset: Int64, slot: Rows) -> tuple[Array, Array]:
        """[N], [N] ReadsFrom and remote records, if the replicas in those slots serve."""
        place = row * self.assignment.broker.shape[1] + np.maximum(slot, 0)
        start, local, end = (
            getattr(self.replicas, f"{name}_offset").ravel()[place]
            for name in ("log_start", "local_log_start", "log_end")
        )
        tiered, on_disk_from = self.configs.remote_storage[row], np.minimum(local, end)
        is_below = (tiered == 1) & (offset < on_disk_from)
        in_remote_until, is_missing, may_be_missing = in_remote(
            self.leaders, self.gaps, self.configs, self.disorder, row, offset
        )
        is_gone = (start > offset) | (is_below & is_missing)
        is_known = (offset != UNKNOWN) & (start != UNKNOWN) & (end != UNKNOWN)
        # Records that are not tiered and not deleted are on disk.
        is_known &= (tiered == 0) | ((tiered == 1) & (local != UNKNOWN)) | is_gone
        is_known &= is_gone | ~(is_below & may_be_missing)
        records = np.where(is_below, np.minimum(on_disk_from, in_remote_until) - offset, 0)
        reads = np.where(is_below, ReadsFrom.REMOTE, ReadsFrom.DISK)
        reads = np.where(is_gone, ReadsFrom.NOWHERE, reads)
        return (
            np.where(is_known, reads, UNKNOWN),
            np.where(is_known & ~is_gone, records, UNKNOWN),
        )


@rule
def group_reads(
    moves: GroupMoves,
    offsets: GroupOffsets,
    servers: Servers,
    leaders: Leaders,
    selectors: LeaderSelectors,
) -> GroupReads:
    """The reads of each group, by the offsets of the replica that serves it."""
    rack, kind = servers.reader_racks(offsets), selectors.replica_selector
    reads, records = servers.read(moves, leaders.slot, kind, rack)
    ahead = is_ahead(moves, leaders)
    return GroupReads(
        moves.row,
        np.where(ahead, np.int8(ReadsFrom.AHEAD), reads),
        np.where(ahead, UNKNOWN, records),
    )


@rule
def group_servers(
    moves: GroupMoves,
    offsets: GroupOffsets,
    servers: Servers,
    leaders: Leaders,
    selectors: LeaderSelectors,
) -> GroupServers:
    """The leader, or the replica that it sends consumers of that rack to."""
    rack, kind = servers.reader_racks(offsets), selectors.replica_selector
    return GroupServers(moves.row, servers.serving(moves, leaders.slot, kind, rack))


def _on_disk(slot: Rows, kind: Int8) -> tuple[Int8, Int64]:
    """[N], [N] ReadsFrom and remote records of groups whose next records are on every disk.

    A custom selector may send consumers anywhere; so may one that could not be read.
    """
    is_known = (kind == ReplicaSelector.LEADER) | (kind == ReplicaSelector.RACK_AWARE)
    is_led = slot != UNKNOWN
    reads = np.where(is_known, np.int8(ReadsFrom.DISK), np.int8(UNKNOWN))
    return (
        np.where(is_led, reads, np.int8(ReadsFrom.NOBODY)),
        np.where(is_known & is_led, np.int64(0), np.int64(UNKNOWN)),
    )


# ---------------------------------------------------------------- exported


@group_gauge(
    "remote_records",
    "Records that {group} reads from remote storage before it reads from a disk.",
)
def remote_records(reads: GroupReads) -> Array:
    """The remote records of each group; unknown ones are left out."""
    return reads.remote_records
