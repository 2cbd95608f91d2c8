"""Answers about single partitions, of which the newest counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.arrays import keys
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.table import SparseTable
from twin.engine.frames import Frame
from twin.engine.rows import rows_of
from twin.engine.shard_state import ShardState


def with_newest(state: ShardState, frame: Frame, kind: type[SparseTable]) -> ShardState:
    """Keep the newer answer of each partition.

    ``kind``: a table with one row a partition, ``read_at_ms``, and columns of the frame. Of two
    rows about a partition the first counts.
    """
    _, rows = rows_of(state, frame.rows, create=False)
    table: Any = state[kind]
    read_at_ms = keys.look_up(table.row.astype(np.int64), table.read_at_ms, rows)
    row, first = np.unique(rows, return_index=True)
    is_new = (row >= 0) & (read_at_ms[first] < frame.header.observed_at_ms)
    row, place = row[is_new].astype(np.int32), first[is_new]
    if not len(row):
        return state
    columns: dict[str, Any] = {
        c.name: to_numpy(frame.rows.column(c.name))[place]
        for c in kind.columns
        if c.name not in ("row", "read_at_ms")
    }
    columns |= {"row": row, "read_at_ms": np.full(len(row), frame.header.observed_at_ms)}
    fresh = kind(**columns)
    return state.with_tables(table.pick(~np.isin(table.row, row)).with_rows(fresh))
