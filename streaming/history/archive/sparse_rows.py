"""Rows of the archive, grouped by shard and sorted by time; nulls are dropped while they are read.

An hour of 300 000 replicas has millions of rows, and most of their columns are null. In Arrow a
null takes as much memory as a value, so a whole hour is never held as Arrow columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.history.archive.layout import CHANGED, REMOVED, WHOLE, times_of
from twin.declarations.table import Array, to_numpy

_IN_A_CYCLE = (CHANGED, REMOVED, WHOLE)
"""A topic that was created again is removed and written whole in the same cycle."""

Values = tuple[Array, Array]
"""[M] numbers of rows, in order, and the value of a column in each."""


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows of one shard, sorted by time; within a cycle, removed partitions come first."""

    at: Array  # [N] Unix times in milliseconds
    keys: pa.Table  # [N] the columns that name partitions and replicas, and say what happened
    values: dict[str, Values]  # by column; a column that is null in all rows is left out

    @classmethod
    def empty(cls, schema: pa.Schema) -> SparseRows:
        """No rows of a table with those columns."""
        return cls(np.zeros(0, np.int64), schema.empty_table(), {})

    @property
    def count(self) -> int:
        """N."""
        return len(self.at)

    def between(self, after_ms: int, until_ms: int) -> SparseRows:
        """The rows after one moment, up to another."""
        begin, end = np.searchsorted(self.at, (after_ms, until_ms), "right")
        values = {}
        for name, (row, value) in self.values.items():
            first, last = np.searchsorted(row, (begin, end))
            if first < last:
                values[name] = row[first:last] - begin, value[first:last]
        return SparseRows(self.at[begin:end], self.keys.slice(begin, end - begin), values)


def by_shard(batches: Iterable[pa.RecordBatch], sparse: Collection[str]) -> dict[int, SparseRows]:
    """The rows of each shard.

    Args:
        batches: rows of one table of the archive.
        sparse: its columns that are null in most rows; the others are keys.
    """
    kept, found, count = [], defaultdict(list), 0
    for batch in batches:
        kept.append(batch.select([n for n in batch.schema.names if n not in sparse]))
        for name in sparse:
            values = _present(batch, name)
            if values is not None:
                found[name].append((values[0] + np.int32(count), values[1]))
        count += batch.num_rows
    if not count:
        return {}
    keys = _with_plain_codes(pa.Table.from_batches(kept))
    order, begins = _order(keys)
    place = np.empty(count, np.int32)
    place[order] = np.arange(count, dtype=np.int32)
    columns = {name: _moved(parts, place) for name, parts in found.items()}
    at, keys = times_of(keys.column("at"))[order], keys.take(pa.array(order))
    shards = keys.column("shard").to_numpy()
    bounds = np.append(begins, count)
    pieces: dict[int, dict[str, Values]] = {n: {} for n in range(len(begins))}
    for name, (row, value) in columns.items():
        cuts = np.searchsorted(row, bounds)
        for n, (first, last) in enumerate(pairwise(cuts)):
            if first < last:
                pieces[n][name] = row[first:last] - bounds[n], value[first:last]
    return {
        int(shards[begin]): SparseRows(at[begin:end], keys.slice(begin, end - begin), pieces[n])
        for n, (begin, end) in enumerate(pairwise(bounds))
    }


def _present(batch: pa.RecordBatch, name: str) -> Values | None:
    """The values of a column; None if it has none, or was added after the rows were written."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    if column.null_count == len(column):
        return None
    row = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return row.astype(np.int32), to_numpy(column.drop_null())


def _moved(parts: list[Values], place: Array) -> Values:
    """The values of a column in the order of their rows."""
    row = place[np.concatenate([row for row, _ in parts])]
    value = np.concatenate([value for _, value in parts])
    if (row[1:] < row[:-1]).any():
        order = np.argsort(row, kind="stable")
        row, value = row[order], value[order]
    return row, value


def _order(keys: pa.Table) -> tuple[Array, Array]:
    """[N] the rows by shard and time, and where each shard begins."""
    shard, place = keys.column("shard").to_numpy(), times_of(keys.column("at"))
    if "change" in keys.column_names:
        change = pc.index_in(keys.column("change"), pa.array(_IN_A_CYCLE)).to_numpy()
        place = place * len(_IN_A_CYCLE) + change
    order = np.argsort(shard, kind="stable")
    begins = np.unique(shard[order], return_index=True)[1]
    for begin, end in zip(begins, np.append(begins[1:], len(order)), strict=True):
        mine = order[begin:end]
        here = place[mine]
        if (here[1:] < here[:-1]).any():
            order[begin:end] = mine[np.argsort(here, kind="stable")]
    return order, begins


def _with_plain_codes(keys: pa.Table) -> pa.Table:
    """The same rows in one piece. Arrow does not combine the dictionaries of several files."""
    for i, name in enumerate(keys.column_names):
        column = keys.column(name)
        if pa.types.is_dictionary(column.type):
            codes: dict[str, int] = {}
            found = []
            for chunk in column.chunks:
                code = [codes.setdefault(text, len(codes)) for text in chunk.dictionary.to_pylist()]
                found.append(np.array(code, np.int32)[chunk.indices.to_numpy()])
            texts = pa.array([*codes], pa.string())
            whole = pa.DictionaryArray.from_arrays(np.concatenate(found), texts)
            keys = keys.set_column(i, name, whole)
    return keys.combine_chunks()
