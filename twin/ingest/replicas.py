"""Samples that replicas report about their own logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, Rows, to_numpy
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.rows import refuse_duplicate_rows, rows_of
from twin.engine.state import ShardState
from twin.tables.columns import LOG_SAMPLE
from twin.tables.observations import ReplicasFrame
from twin.tables.state import (
    SHORTER_STAYS_MS,
    Assignment,
    Partitions,
    Replicas,
    ShorterLogs,
)

_ASKED_APART: Final = ("local_log_bytes", "local_start_timestamp_ms")
"""By other requests, which may fail alone; while the local start stays, so do these values."""


@ingest(ReplicasFrame)
def take_replicas(state: ShardState, frame: Frame) -> ShardState:
    """Replace older answers by newer ones; a failed answer keeps the last good one."""
    at_ms, rows = frame.header.observed_at_ms, frame.rows
    broker = to_numpy(rows.column("broker"))
    refuse_duplicate_rows(rows, broker)
    if (broker < 0).any():
        raise InvalidFrame("rows", "a replica has a negative broker id")
    state, row = rows_of(state, rows, create=state.listing.whole_at_ms < at_ms)
    sample = {name: to_numpy(rows.column(name)) for name in LOG_SAMPLE}
    listed = row >= 0
    if not listed.all():  # of partitions that this cycle's whole listing does not have
        row, broker = row[listed], broker[listed]
        sample = {name: value[listed] for name, value in sample.items()}

    slot = _slot_of(state, row, broker)
    unlisted = (slot < 0) & (at_ms > state[Partitions].described_at_ms[row])
    if unlisted.any():
        state = _with_unlisted(state, row[unlisted], broker[unlisted])
        slot = _slot_of(state, row, broker)
    place = row * state.slots + slot
    before = state[Replicas]
    fresh = (slot >= 0) & (at_ms > before.sampled_at_ms.ravel()[np.maximum(place, 0)])
    end = sample["log_end_offset"]
    is_shorter = fresh & (sample["error_code"] == 0) & (end != UNKNOWN)
    is_shorter &= end < before.log_end_offset.ravel()[np.maximum(place, 0)]
    if is_shorter.any():
        state = _with_shorter(state, row[is_shorter], broker[is_shorter], place[is_shorter], at_ms)
    return state.with_tables(_sampled(before, place, fresh, sample, at_ms))


@expiry
def recent_shorter_logs(shorter: ShorterLogs, cycle: Cycle) -> ShorterLogs:
    """Drop answers that are too old for the next change of the leader."""
    return shorter.pick(cycle.observed_at_ms - shorter.at_ms <= SHORTER_STAYS_MS)


def _with_shorter(
    state: ShardState, row: Rows, broker: Int32, place: Rows, at_ms: int
) -> ShardState:
    """Note that the logs of these replicas have become shorter."""
    order = np.argsort(row, kind="stable")
    shorter = ShorterLogs(
        row=row[order].astype(np.int32),
        broker=broker[order],
        at_ms=np.full(len(row), at_ms),
        end_before_offset=state[Replicas].log_end_offset.ravel()[place[order]],
    )
    return state.with_tables(state[ShorterLogs].with_rows(shorter))


def _sampled(
    replicas: Replicas, place: Rows, fresh: Bool, sample: dict[str, Array], at_ms: int
) -> Replicas:
    """Fresh answers at their places in the flat [P * R] columns."""
    good = fresh & (sample["error_code"] == 0)
    all_good = bool(good.all())
    at = place if all_good else place[good]
    held_at = np.maximum(place, 0)
    start = sample["local_log_start_offset"]
    same_start = start == replicas.local_log_start_offset.ravel()[held_at]
    columns: dict[str, Any] = {}
    for name, value in sample.items():
        old = getattr(replicas, name)
        if name in _ASKED_APART:
            keeps = (value == UNKNOWN) & same_start
            if keeps.any():
                value = np.where(keeps, old.ravel()[held_at], value)
        columns[name] = new = old.copy()
        new.ravel()[at] = value if all_good else value[good]
    failed = fresh & (sample["error_code"] != 0)
    if failed.any():
        columns["error_code"].ravel()[place[failed]] = sample["error_code"][failed]
    columns["sampled_at_ms"] = sampled_at_ms = replicas.sampled_at_ms.copy()
    sampled_at_ms.ravel()[at] = at_ms
    return replace(replicas, **columns)


def _slot_of(state: ShardState, row: Rows, broker: Int32) -> Rows:
    """[N] the slot of each (row, broker), UNKNOWN where it has none."""
    brokers = state[Assignment].broker
    slot = np.full(len(row), UNKNOWN, np.intp)
    for each in range(state.slots):
        slot[brokers[row, each] == broker] = each
    return slot


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
