"""Rows of the archive, grouped by shard and sorted by time; nulls are dropped while they are read.

An hour of 300 000 replicas has millions of rows, and most of their columns are null. In Arrow a
null takes as much memory as a value, so a whole hour is never held as Arrow columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from streaming.history.archive.row_layout import CHANGED, REMOVED, WHOLE, times_of
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.table import Array

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


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of one shard that follow each other in a file, in order."""

    place: Array  # [N] cycles, and within them what happened
    keys: pa.RecordBatch
    values: dict[str, Values]


def by_shard(batches: Iterable[pa.RecordBatch], sparse: Collection[str]) -> dict[int, SparseRows]:
    """The rows of each shard.

    The archive's program writes the rows of a batch shard by shard, and those of a shard in order
    of time. So hardly anything has to be sorted.

    Args:
        batches: rows of one table of the archive.
        sparse: its columns that are null in most rows; the others are keys.
    """
    pieces: dict[int, list[_Piece]] = defaultdict(list)
    for batch in batches:
        for shard, piece in _pieces(batch, sparse):
            pieces[shard].append(piece)
    return {shard: _joined(of_shard) for shard, of_shard in pieces.items()}


def _pieces(batch: pa.RecordBatch, sparse: Collection[str]) -> Iterator[tuple[int, _Piece]]:
    """The rows of a batch, cut where another shard begins."""
    if not batch.num_rows:
        return
    shard = batch.column("shard").to_numpy()
    keys = batch.select([n for n in batch.schema.names if n not in sparse])
    place = _places(keys)
    columns = {name: _present(batch, name) for name in sparse}
    values = {name: each for name, each in columns.items() if each is not None}
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(shard)) + 1, [len(shard)]])
    cuts = {name: np.searchsorted(row, bounds) for name, (row, _) in values.items()}
    for n, (begin, end) in enumerate(pairwise(bounds.tolist())):
        mine = {}
        for name, (row, value) in values.items():
            first, last = cuts[name][n : n + 2]
            if first < last:
                mine[name] = row[first:last] - begin, value[first:last]
        piece = _Piece(place[begin:end], keys.slice(begin, end - begin), mine)
        yield int(shard[begin]), piece


def _places(keys: pa.RecordBatch) -> Array:
    """[N] the order of the rows: by time, and within a cycle removals before new rows."""
    place = times_of(keys.column("at"))
    if "change" not in keys.schema.names:
        return place
    change = keys.column("change")
    if not pa.types.is_dictionary(change.type):
        change = change.dictionary_encode()
    order = [_IN_A_CYCLE.index(text) for text in change.dictionary.to_pylist()]
    return place * len(_IN_A_CYCLE) + np.array(order, np.int64)[change.indices.to_numpy()]


def _joined(pieces: list[_Piece]) -> SparseRows:
    """The rows of all pieces of a shard, in order."""
    pieces.sort(key=lambda piece: int(piece.place[0]))
    place = np.concatenate([piece.place for piece in pieces])
    keys = _with_plain_codes(pa.Table.from_batches([piece.keys for piece in pieces]))
    begins = np.cumsum([0, *(len(piece.place) for piece in pieces)])
    parts: dict[str, list[Values]] = defaultdict(list)
    for piece, begin in zip(pieces, begins.tolist(), strict=False):
        for name, (row, value) in piece.values.items():
            parts[name].append((row + np.int32(begin), value))
    values = {
        name: (np.concatenate([row for row, _ in of]), np.concatenate([value for _, value in of]))
        for name, of in parts.items()
    }
    if (place[1:] < place[:-1]).any():
        order = np.argsort(place, kind="stable")
        keys = keys.take(pa.array(order))
        moved_to = np.empty(len(order), np.int32)
        moved_to[order] = np.arange(len(order), dtype=np.int32)
        values = {name: _moved(each, moved_to) for name, each in values.items()}
    return SparseRows(times_of(keys.column("at")), keys, values)


def _present(batch: pa.RecordBatch, name: str) -> Values | None:
    """The values of a column; None if it has none, or was added after the rows were written."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    if column.null_count == len(column):
        return None
    if not column.null_count:
        return np.arange(len(column), dtype=np.int32), to_numpy(column)
    row = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return row.astype(np.int32), to_numpy(column.drop_null())


def _moved(values: Values, moved_to: Array) -> Values:
    """The values of a column where their rows moved to."""
    row, value = moved_to[values[0]], values[1]
    order = np.argsort(row, kind="stable")
    return row[order], value[order]


def _with_plain_codes(keys: pa.Table) -> pa.Table:
    """The same rows in one piece. Arrow does not combine dictionaries of several files."""
    for i, name in enumerate(keys.column_names):
        column = keys.column(name)
        if pa.types.is_dictionary(column.type):
            codes: dict[str, int] = {}
            chunks = []
            for chunk in column.chunks:
                code = [codes.setdefault(text, len(codes)) for text in chunk.dictionary.to_pylist()]
                chunks.append(np.array(code, np.int32)[chunk.indices.to_numpy()])
            texts = pa.array([*codes], pa.string())
            whole = pa.DictionaryArray.from_arrays(np.concatenate(chunks), texts)
            keys = keys.set_column(i, name, whole)
    return keys.combine_chunks()
