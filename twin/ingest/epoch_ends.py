"""Ends of leader epochs: the newest answer about each partition."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.declarations.table import to_numpy
from twin.engine.frames import Frame
from twin.engine.rows import refuse_duplicate_rows, rows_of
from twin.engine.state import ShardState
from twin.rules.election.leader_changes import EPOCH_END_WITHIN_MS, EpochEnds, EpochEndsFrame


@ingest(EpochEndsFrame)
def take_epoch_ends(state: ShardState, frame: Frame) -> ShardState:
    """Replace what is known of the partitions in the frame, unless that is newer."""
    refuse_duplicate_rows(frame.rows)
    _, rows = rows_of(state, frame.rows, create=False)
    table, at_ms = state[EpochEnds], frame.header.observed_at_ms
    read_at_ms = keys.look_up(table.row.astype(np.int64), table.read_at_ms, rows)
    order = np.argsort(rows, kind="stable")
    order = order[((rows >= 0) & (read_at_ms < at_ms))[order]]
    if not len(order):
        return state
    row = rows[order].astype(np.int32)
    columns = {
        name: to_numpy(frame.rows.column(name))[order]
        for name in ("leader_epoch", "prev_epoch", "end_offset")
    }
    fresh = EpochEnds(row=row, read_at_ms=np.full(len(row), at_ms), **columns)
    return state.with_tables(table.pick(~np.isin(table.row, row)).with_rows(fresh))


@expiry
def recent_epoch_ends(ends: EpochEnds, cycle: Cycle) -> EpochEnds:
    """Drop answers once no change of a leader waits for them."""
    return ends.pick(cycle.observed_at_ms - ends.read_at_ms <= EPOCH_END_WITHIN_MS)
