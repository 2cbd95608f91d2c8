"""The controller's view of partitions: leaders, assignments, ISRs; partitions come and go."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from twin.arrays.columns_in_arrow import to_numpy
from twin.arrays.slots import any_slot, count_slots
from twin.declarations.declare import ingest
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, Rows, UInt8
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.rows import refuse_duplicate_rows, rows_of, without
from twin.engine.shard_state import Listing, ShardState
from twin.tables.observations import PartitionsFrame
from twin.tables.state import Assignment, Partitions, Replicas


@dataclass(frozen=True, slots=True)
class _PartitionArrays:
    """A frame as arrays: [N] rows, [N, S] slots in assignment order."""

    leader: Int32
    leader_epoch: Int32
    elr_known: Bool
    broker: Int32
    flags: UInt8
    assigned: UInt8

    @staticmethod
    def from_rows(rows: pa.Table) -> _PartitionArrays:
        replicas = rows.column("replicas").combine_chunks()
        flags = rows.column("replica_flags").combine_chunks()
        assigned = np.diff(replicas.offsets.to_numpy())
        if not np.array_equal(assigned, np.diff(flags.offsets.to_numpy())):
            raise InvalidFrame("rows", "replicas and replica_flags have different lengths")
        width = int(assigned.max(initial=0))
        if width > np.iinfo(np.uint8).max:
            raise InvalidFrame("rows", f"a partition has {width} replicas")
        listed = replicas.flatten().to_numpy()
        if (listed < 0).any():
            raise InvalidFrame("rows", "a replica has a negative broker id")
        of_slots = flags.flatten().to_numpy()
        if (assigned == width).all():  # as in most frames
            broker, slots = (each.reshape(len(assigned), width) for each in (listed, of_slots))
        else:
            holds = np.arange(width) < assigned[:, None]
            broker = np.full(holds.shape, NO_BROKER, np.int32)
            broker[holds] = listed
            slots = np.zeros(holds.shape, np.uint8)
            slots[holds] = of_slots
        if any(
            ((one == other) & (one != NO_BROKER)).any() for one, other in combinations(broker.T, 2)
        ):
            raise InvalidFrame("rows", "a partition lists one broker twice")
        return _PartitionArrays(
            leader=to_numpy(rows.column("leader")),
            leader_epoch=to_numpy(rows.column("leader_epoch")),
            elr_known=to_numpy(rows.column("elr_known")),
            broker=broker,
            flags=slots,
            assigned=assigned.astype(np.uint8),
        )

    def pick(self, rows: Bool) -> _PartitionArrays:
        """Those rows of the frame."""
        columns = (getattr(self, each.name) for each in fields(self))
        return self if rows.all() else _PartitionArrays(*(values[rows] for values in columns))


@ingest(PartitionsFrame)
def take_partitions(state: ShardState, frame: Frame) -> ShardState:
    """Take in the view with the higher leader epoch, or the later one of the same epoch."""
    at_ms = frame.header.observed_at_ms
    described = _PartitionArrays.from_rows(frame.rows)
    refuse_duplicate_rows(frame.rows)
    state, row = rows_of(state, frame.rows)
    table = state[Partitions]
    epoch = table.leader_epoch.take(row)
    wins = (described.leader_epoch > epoch) | (
        (described.leader_epoch == epoch) & (at_ms > table.described_at_ms.take(row))
    )
    described = described.pick(wins)
    state = _reassigned(state, row[wins], described.broker, described.assigned, at_ms)
    winners = _as_slice(row[wins], len(table.leader))
    # The slots of the listing get its flags; unlisted replicas have no flags.
    replicas = state[Replicas]
    flags = replicas.replica_flags.copy()
    flags[winners] = 0
    flags[winners, : described.flags.shape[1]] = described.flags

    def written(values: Array, news: Array | int) -> Array:
        values = values.copy()
        values[winners] = news
        return values

    listed_at_ms = table.listed_at_ms.copy()
    listed_at_ms[_as_slice(row, len(listed_at_ms))] = at_ms
    partitions = Partitions(
        leader=written(table.leader, described.leader),
        leader_epoch=written(table.leader_epoch, described.leader_epoch),
        listed_at_ms=listed_at_ms,
        described_at_ms=written(table.described_at_ms, at_ms),
        elr_known=written(table.elr_known, described.elr_known),
        assigned=state[Partitions].assigned,
    )
    return _listed(state.with_tables(partitions, replace(replicas, replica_flags=flags)), frame)


def _as_slice(row: Rows, partitions: int) -> Any:
    """The rows as an index; if they are all in order, as mostly, one with which copies are fast."""
    is_all = len(row) == partitions and np.array_equal(row, np.arange(partitions))
    return slice(None) if is_all else row


def _reassigned(
    state: ShardState, row: Rows, broker: Int32, assigned: UInt8, at_ms: int
) -> ShardState:
    """Give those rows a new assignment; every replica keeps what is known of it."""
    state = state.with_slot_capacity(broker.shape[1])
    target = np.full((len(row), state.slots), NO_BROKER, np.int32)
    target[:, : broker.shape[1]] = broker
    current = state[Assignment].broker
    moved = any_slot(current.take(row, axis=0) != target)
    moved |= state[Partitions].assigned.take(row) != assigned
    if not moved.any():
        return state
    row, target, assigned = row[moved], target[moved], assigned[moved]
    old = current[row]
    # A replica that answered after this listing was made, and is not in it, stays unlisted.
    is_unlisted = (
        (old != NO_BROKER)
        & (state[Replicas].sampled_at_ms[row] > at_ms)
        & ~(old[:, :, None] == target[:, None, :]).any(axis=2)
    )
    far = np.iinfo(np.int32).max
    unlisted = np.sort(np.where(is_unlisted, old, far), axis=1)
    state = state.with_slot_capacity(int((assigned + count_slots(is_unlisted)).max()))
    rank = np.arange(state.slots) - assigned[:, None].astype(np.intp)
    padded = np.full((len(row), state.slots), NO_BROKER, np.int32)
    padded[:, : target.shape[1]] = target[:, : state.slots]
    behind = np.take_along_axis(unlisted, np.clip(rank, 0, unlisted.shape[1] - 1), axis=1)
    is_behind = (rank < unlisted.shape[1]) & (behind != far)
    brokers = np.where(rank < 0, padded, np.where(is_behind, behind, NO_BROKER)).astype(np.int32)

    old = state[Assignment].broker[row]
    match = (brokers[:, :, None] == old[:, None, :]) & (brokers != NO_BROKER)[:, :, None]
    came_from = np.where(match.any(axis=2), match.argmax(axis=2), UNKNOWN)
    state = state.with_slots(row, came_from)
    assignment, counts = state[Assignment].broker.copy(), state[Partitions].assigned.copy()
    assignment[row], counts[row] = brokers, assigned
    return state.with_tables(Assignment(assignment), replace(state[Partitions], assigned=counts))


def _listed(state: ShardState, frame: Frame) -> ShardState:
    """Note the part of the listing; once it is whole, drop partitions that it did not name."""
    header, listing = frame.header, state.listing
    at_ms = header.observed_at_ms
    if not header.complete or listing.whole_at_ms == at_ms:
        return state
    parts_seen = listing.parts_seen if listing.at_ms == at_ms else frozenset()
    parts_seen |= {header.part}
    is_whole = len(parts_seen) == header.parts
    listing = Listing(
        at_ms=at_ms,
        parts_seen=frozenset() if is_whole else parts_seen,
        whole_at_ms=at_ms if is_whole else listing.whole_at_ms,
    )
    state = replace(state, listing=listing)
    gone = state[Partitions].listed_at_ms < at_ms
    return without(state, gone) if is_whole and gone.any() else state
