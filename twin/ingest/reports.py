"""Reports of shards to the cluster's own shard: the newest report of each shard counts."""

from __future__ import annotations

import numpy as np

from twin.arrays.columns_in_arrow import object_array, to_numpy
from twin.declarations.declare import ingest
from twin.declarations.table import Array, ShardReport
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.shard_reports import ReportIndex
from twin.engine.shard_state import ShardState


@ingest(ShardReport)
def take_report(state: ShardState, frame: Frame) -> ShardState:
    """Replace the earlier rows of a shard; rows stay in the order of shards."""
    header = frame.header
    if header.parts != 1:
        raise InvalidFrame("rows", f"a report in {header.parts} parts")
    index = state[ReportIndex]
    of_kind = index.report == header.kind
    at = np.flatnonzero(of_kind & (index.shard == header.shard))
    if len(at) and index.observed_at_ms[at[0]] > header.observed_at_ms:
        return state
    table = state.catalog.observations[header.kind]
    assert issubclass(table, ShardReport)  # the catalog gives no other kinds to this function
    reported = [to_numpy(column) for column in frame.rows.columns]
    begin = int(index.rows[of_kind & (index.shard < header.shard)].sum())
    end = begin + int(index.rows[at].sum())
    kept = state[table].values()
    if len(at) and index.observed_at_ms[at[0]] == header.observed_at_ms:
        shard_rows = [old[begin:end] for old in kept]
        if all(map(_equal, shard_rows, reported)):
            return state
    rows = [
        np.concatenate([old[:begin], new, old[end:]])
        for old, new in zip(kept, reported, strict=True)
    ]
    entry = ReportIndex(
        object_array([header.kind]),
        np.array([header.shard], np.int32),
        np.array([header.shards], np.int32),
        np.array([header.observed_at_ms], np.int64),
        np.array([frame.rows.num_rows], np.int64),
    )
    return state.with_tables(table.from_values(rows), _with_entry(index, entry, at))


def _equal(one: Array, other: Array) -> bool:
    if one.dtype == object:
        return bool(one.tolist() == other.tolist())
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _with_entry(index: ReportIndex, entry: ReportIndex, at: Array) -> ReportIndex:
    if len(at):  # nearly always: a shard that has reported before
        columns = [column.copy() for column in index.values()]
        for column, value in zip(columns, entry.values(), strict=True):
            column[at] = value
        return ReportIndex.from_values(columns)
    both = [np.concatenate(pair) for pair in zip(index.values(), entry.values(), strict=True)]
    order = np.lexsort((both[1], both[0].astype(str)))
    return ReportIndex.from_values(column[order] for column in both)
