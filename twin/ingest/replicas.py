"""Samples that replicas report about their own logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twin.arrays import keys
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.rows import refuse_duplicate_rows, rows_of
from twin.engine.shard_state import ShardState
from twin.tables.columns import LOG_SAMPLE
from twin.tables.observations import ReplicasFrame
from twin.tables.state import PRIOR_END_STAYS_MS, Assignment, Partitions, PriorEnds, Replicas

_ASKED_APART: Final = ("local_log_bytes", "local_start_timestamp_ms", "local_start_batch")
"""By other requests, which may fail alone; while the local start stays, so do these values."""


@ingest(ReplicasFrame)
def take_replicas(state: ShardState, frame: Frame) -> ShardState:
    """Replace older answers by newer ones; a failed answer keeps the last good one."""
    at_ms, rows = frame.header.observed_at_ms, frame.rows
    broker = to_numpy(rows.column("broker"))
    refuse_duplicate_rows(rows, broker)
    if (broker < 0).any():
        raise InvalidFrame("rows", "a replica has a negative broker id")
    state, listed, row, slot = places_of(state, rows, broker, at_ms)
    sample = {name: to_numpy(rows.column(name)) for name in LOG_SAMPLE}
    if not listed.all():
        broker = broker[listed]
        sample = {name: value[listed] for name, value in sample.items()}
    place = row * state.slots + slot
    before, held_at = state[Replicas], np.maximum(place, 0)
    heard_at_ms = before.sampled_at_ms.ravel().take(held_at)
    fresh = (slot >= 0) & (at_ms > heard_at_ms)
    end, prior_end = sample["log_end_offset"], before.log_end_offset.ravel().take(held_at)
    is_prior = (end < prior_end) | (heard_at_ms < state.prev_observed_at_ms)
    is_prior &= fresh & (sample["error_code"] == 0) & (end != UNKNOWN) & (prior_end != UNKNOWN)
    if is_prior.any():
        ends = _prior_ends(row[is_prior], broker[is_prior], prior_end[is_prior], at_ms)
        state = state.with_tables(_furthest(state[PriorEnds], ends))
    return state.with_tables(_sampled(before, place, fresh, sample, at_ms))


def places_of(
    state: ShardState, rows: pa.Table, broker: Int32, at_ms: int
) -> tuple[ShardState, Bool, Rows, Rows]:
    """The state with a slot for every replica in the frame, and the place of each.

    Returns:
        the state;
        [N] whether its partition is in this cycle's whole listing, or that is not there yet;
        [n] of these, the row;
        [n] and the slot, UNKNOWN for a replica that a listing no longer has.
    """
    state, row = rows_of(state, rows, create=state.listing.whole_at_ms < at_ms)
    listed = row >= 0
    if not listed.all():
        row, broker = row[listed], broker[listed]
    slot = _slot_of(state, row, broker)
    unlisted = (slot < 0) & (at_ms > state[Partitions].described_at_ms[row])
    if unlisted.any():
        state = _with_unlisted(state, row[unlisted], broker[unlisted])
        slot = _slot_of(state, row, broker)
    return state, listed, row, slot


@expiry
def recent_prior_ends(prior: PriorEnds, cycle: Cycle) -> PriorEnds:
    """Drop answers that are too old for the next change of the leader."""
    return prior.pick(cycle.observed_at_ms - prior.at_ms <= PRIOR_END_STAYS_MS)


def _prior_ends(row: Rows, broker: Int32, end: Int64, at_ms: int) -> PriorEnds:
    """Where the logs of these replicas ended before they answered again."""
    order = np.lexsort((broker, row))
    return PriorEnds(
        row=row[order].astype(np.int32),
        broker=broker[order],
        at_ms=np.full(len(row), at_ms),
        end_offset=end[order],
    )


def _furthest(known: PriorEnds, ends: PriorEnds) -> PriorEnds:
    """One row a replica, with the furthest of its ends."""
    theirs, mine = keys.pack(known.row, known.broker), keys.pack(ends.row, ends.broker)
    earlier = keys.look_up(theirs, known.end_offset, mine)
    ends = replace(ends, end_offset=np.maximum(ends.end_offset, earlier))
    return known.pick(~np.isin(theirs, mine)).with_rows(ends)


def _sampled(
    replicas: Replicas, place: Rows, fresh: Bool, sample: dict[str, Array], at_ms: int
) -> Replicas:
    """Fresh answers at their places in the flat [P * R] columns."""
    if not len(place):
        return replicas
    good = fresh & (sample["error_code"] == 0)
    held_at = np.maximum(place, 0)
    start = sample["local_log_start_offset"]
    same_start = start == replicas.local_log_start_offset.ravel().take(held_at)
    # Mostly all replicas answer: each place takes its answer, and few places keep what they have.
    heard_at_ms = replicas.sampled_at_ms
    answer = np.full(heard_at_ms.shape, UNKNOWN, np.intp)
    answer.ravel()[place[good]] = np.flatnonzero(good)
    keeps_place = np.flatnonzero(answer == UNKNOWN)
    in_order = not len(keeps_place) and np.array_equal(answer.ravel(), np.arange(answer.size))
    columns: dict[str, Any] = {}
    for name, value in sample.items():
        old = getattr(replicas, name)
        if name in _ASKED_APART:
            keeps = (value == UNKNOWN) & same_start
            if keeps.any():
                value = np.where(keeps, old.ravel().take(held_at), value)
        value = value.astype(old.dtype, copy=False)
        columns[name] = new = value.reshape(old.shape) if in_order else value.take(answer)
        if len(keeps_place):
            new.ravel()[keeps_place] = old.ravel().take(keeps_place)
    failed = fresh & (sample["error_code"] != 0)
    if failed.any():
        columns["error_code"].ravel()[place[failed]] = sample["error_code"][failed]
    columns["sampled_at_ms"] = np.where(answer == UNKNOWN, heard_at_ms, at_ms)
    return replace(replicas, **columns)


def _slot_of(state: ShardState, row: Rows, broker: Int32) -> Rows:
    """[N] the slot of each (row, broker), UNKNOWN where it has none."""
    place = np.zeros(len(row), np.intp)  # counted from 1
    for slot, brokers in enumerate(state[Assignment].broker.T, 1):
        place += slot * (brokers.take(row) == broker)  # one slot of a row at most has the broker
    return place - 1


def _with_unlisted(state: ShardState, row: Rows, broker: Int32) -> ShardState:
    """Put replicas that no listing named yet behind the assigned ones, sorted by id."""
    order = np.lexsort((broker, row))
    row, broker = row[order], broker[order]
    taken = (state[Assignment].broker[row] != NO_BROKER).sum(axis=1)
    slot = taken + np.arange(len(row)) - np.searchsorted(row, row)
    state = state.with_slot_capacity(int(slot.max()) + 1)
    brokers = state[Assignment].broker.copy()
    brokers[row, slot] = broker
    return state.with_tables(Assignment(brokers))
