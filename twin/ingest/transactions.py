"""Holders of open transactions: the newest answer about each partition."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.declarations.table import to_numpy
from twin.engine.frames import Frame
from twin.engine.rows import rows_of
from twin.engine.state import ShardState
from twin.rules.reading.open_transactions import (
    HOLDER_STAYS_MS,
    TransactionHolders,
    TransactionsFrame,
)


@ingest(TransactionsFrame)
def take_transactions(state: ShardState, frame: Frame) -> ShardState:
    """Replace what is known of the partitions in the frame, unless that is newer."""
    _, rows = rows_of(state, frame.rows, create=False)
    table = state[TransactionHolders]
    read_at_ms = keys.look_up(table.row.astype(np.int64), table.read_at_ms, rows)
    first = np.zeros(len(rows), bool)
    first[np.unique(rows, return_index=True)[1]] = True
    new = first & (rows >= 0) & (read_at_ms < frame.header.observed_at_ms)
    if not new.any():
        return state
    row = rows[new].astype(np.int32)
    order = np.argsort(row)
    columns = {
        name: to_numpy(frame.rows.column(name))[new][order]
        for name in ("stable_offset", "producer_id", "transactional_id", "began_at_ms")
    }
    at_ms = np.full(len(row), frame.header.observed_at_ms)
    fresh = TransactionHolders(row=row[order], read_at_ms=at_ms, **columns)
    return state.with_tables(table.pick(~np.isin(table.row, row)).with_rows(fresh))


@expiry
def recent_holders(holders: TransactionHolders, cycle: Cycle) -> TransactionHolders:
    """Drop answers that were not repeated, since their transaction has ended."""
    return holders.pick(cycle.observed_at_ms - holders.read_at_ms <= HOLDER_STAYS_MS)
