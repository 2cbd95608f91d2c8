"""The state of a shard after a cycle, out of rows of the archive: the inverse of ``differences``.

It begins with the newest state before the cycle (``base_states``). Rows after that replace values:
the last one of each column counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.history.archive import row_layout
from streaming.history.archive.archive_columns import ArchiveColumns, Columns, read, restored
from streaming.history.archive.base_states import BaseState
from streaming.history.archive.other_rows import from_json
from streaming.history.archive.partition_rows import partition_rows
from streaming.history.archive.row_layout import (
    Field,
    other_tables,
    partition_fields,
    places_of,
    replica_fields,
)
from streaming.history.archive.sparse_rows import SparseRows
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, KeyedTable, SparseTable, Table, blank
from twin.engine import codec
from twin.engine.catalog import Catalog
from twin.engine.shard_state import Listing, ShardState
from twin.tables.state import Assignment


@dataclass(frozen=True, slots=True)
class ArchivedCycle:
    """A row of ``cycles``: times are Unix times in milliseconds, UNKNOWN where there is none."""

    shard: int
    at_ms: int
    number: int
    previous_ms: int
    listed_ms: int
    measured_ms: int  # the cycle at or before it in which measurements were written last


def rebuilt(
    catalog: Catalog, begin: BaseState, cycle: ArchivedCycle, rows: Mapping[str, SparseRows]
) -> ShardState:
    """The state after the cycle.

    Args:
        catalog: of the shard, or of the cluster's own.
        begin: the newest state in the archive at or before the cycle.
        cycle: the cycle.
        rows: of that shard, by table of the archive: what was written after ``begin``, up to the
            cycle, in order of time.

    Raises:
        InvalidFrame: ``begin`` cannot be read.
    """
    base = begin.state(catalog)
    if begin.update is None and begin.at_ms == cycle.at_ms:
        return base
    return _Rebuilding(catalog, base, cycle, rows).state()


class _Rebuilding:
    def __init__(
        self,
        catalog: Catalog,
        base: ShardState,
        cycle: ArchivedCycle,
        rows: Mapping[str, SparseRows],
    ) -> None:
        self._catalog, self._base, self._cycle = catalog, base, cycle
        self._rows = rows
        self._keys = partition_rows(base, rows[row_layout.PARTITIONS].keys)

    def state(self) -> ShardState:
        keys, cycle = self._keys, self._cycle
        slots = self._slots()
        taken = self._base.with_slot_capacity(slots).take(keys.base)
        taken = taken.with_tables(keys.topics, keys.index)
        taken = taken.with_tables(self._assignment(taken))
        wide = [*self._wide(taken)]
        others = [self._other(taken, table) for table in other_tables(self._catalog)]
        state = replace(
            taken.with_tables(*wide, *(each for each in others if each is not None)),
            observed_at_ms=cycle.at_ms,
            prev_observed_at_ms=cycle.previous_ms,
            cycle=cycle.number,
            judged_at_ms=cycle.at_ms,
            listing=Listing(cycle.at_ms, frozenset(), cycle.listed_ms),
            before={},
        )
        return replace(state, before={table: state[table] for table in self._catalog.remembered})

    def _slots(self) -> int:
        slot = _numbers(self._rows[row_layout.REPLICAS].keys, "slot")
        return max(self._base.slots, int(slot.max(initial=0)) + 1)

    def _assignment(self, state: ShardState) -> Assignment:
        """Replicas of partitions that were written whole are those of these rows."""
        broker = state[Assignment].broker.copy()
        broker[self._keys.is_reset] = NO_BROKER
        row, slot, used = self._places()
        is_whole = self._rows[row_layout.REPLICAS].at == self._keys.reset_ms[row]
        used = used & is_whole
        brokers = _numbers(self._rows[row_layout.REPLICAS].keys, "broker")
        broker[row[used], slot[used]] = brokers[used]
        return Assignment(broker)

    def _places(self) -> tuple[Array, Array, Array]:
        """[N] partition and slot of each row of ``replicas``, and whether the row counts."""
        rows = self._rows[row_layout.REPLICAS]
        row = self._keys.of(rows.keys)
        used = (row >= 0) & (rows.at >= self._keys.reset_ms[row])
        return row, _numbers(rows.keys, "slot"), used

    def _wide(self, state: ShardState) -> list[Table]:
        """The tables with a row a partition or a replica."""
        columns = ArchiveColumns(self._base.with_slot_capacity(state.slots))
        mine, theirs = partition_fields(self._catalog), replica_fields(self._catalog)
        rows = self._rows[row_layout.PARTITIONS]
        row = self._keys.of(rows.keys)
        used = (row >= 0) & (rows.at >= self._keys.reset_ms[row])
        if rows.count:
            used &= ~pc.equal(rows.keys.column("change"), row_layout.REMOVED).to_numpy()
        partition = self._filled(columns.of(mine), mine)
        for each in mine:
            self._apply(each, partition[each.name], rows, used, (row,))
        place, slot, used = self._places()
        rows = self._rows[row_layout.REPLICAS]
        replica = self._filled(columns.of(theirs), theirs)
        for each in theirs:
            self._apply(each, replica[each.name], rows, used, (place, slot))
        return self._tables(state, partition, replica)

    def _filled(self, columns: Columns, fields: tuple[Field, ...]) -> Columns:
        """The columns for the partitions that are there; empty where rows follow."""
        filled = {}
        is_new = self._keys.is_reset
        for each in fields:
            old = columns[each.name]
            new = np.zeros((len(self._keys.base), *old.shape[1:]), old.dtype)
            stays = self._keys.base >= 0
            new[stays] = old[self._keys.base[stays]]
            if is_new.any():
                new[is_new] = 0 if each.is_movement or each.from_leader else each.column.fill
            filled[each.name] = new
        return filled

    @staticmethod
    def _apply(
        field: Field, values: Array, rows: SparseRows, used: Array, place: tuple[Array, ...]
    ) -> None:
        if field.name not in rows.values:
            return
        sent_in, sent = rows.values[field.name]
        counts = used[sent_in]
        if not counts.all():
            sent_in, sent = sent_in[counts], sent[counts]
        where = tuple(each[sent_in] for each in place)
        if field.is_movement:
            np.add.at(values, where, sent)
        else:
            values[where] = read(field, sent, rows.at[sent_in])

    def _tables(self, state: ShardState, partition: Columns, replica: Columns) -> list[Table]:
        measured = np.maximum(self._cycle.measured_ms, self._keys.reset_ms[:-1])
        used = codec.slots_in_use(state)
        values: dict[tuple[type[Table], str], Array] = {}
        leaders: dict[tuple[type[Table], str], Array] = {}
        for each in partition_fields(self._catalog):
            made = restored(each, partition[each.name], measured)
            (leaders if each.of_leader else values)[each.table, each.column.name] = made
        for each in replica_fields(self._catalog):
            key = each.table, each.column.name
            made = restored(each, replica[each.name], measured, leaders.get(key))
            values[key] = np.where(used, made, blank(each.column, used.shape))
        tables = dict.fromkeys(table for table, _ in values)
        return [t.from_values(values[t, c.name] for c in t.columns) for t in tables]

    def _other(self, state: ShardState, table: type[Table]) -> Table | None:
        """One of the other tables; None if it is as in the whole state."""
        rows, at = self._rows[row_layout.TABLES].keys, self._rows[row_layout.TABLES].at
        if not rows.num_rows:
            return None
        mine = pc.equal(rows.column("table"), table.kind).to_numpy(zero_copy_only=False)
        if not mine.any():
            return None
        rows, at = rows.filter(pa.array(mine)), at[mine]
        if issubclass(table, KeyedTable):
            newest = rows.filter(pa.array(at == at[-1]))
            in_order = pa.array(np.argsort(places_of(newest), kind="stable"))
            return self._read(table, newest.take(in_order), None)
        assert issubclass(table, SparseTable)
        row = self._keys.of(rows)
        last_ms = np.full(state.partitions + 1, UNKNOWN, np.int64)
        np.maximum.at(last_ms, row, at)
        counts = (row >= 0) & (at == last_ms[row]) & (at >= self._keys.removed_ms[row])
        old = state[table]
        stays = old.pick(last_ms[old.row] == UNKNOWN)
        lines = counts & rows.column("row").is_valid().to_numpy()
        order = np.flatnonzero(lines)
        order = order[np.lexsort((places_of(rows)[order], row[order]))]
        new: Any = self._read(table, rows.take(pa.array(order)), row[order])
        return stays.with_rows(new)

    def _read(self, table: type[Table], rows: pa.Table, row: Array | None) -> Table:
        lines = [line for line in rows.column("row").to_pylist() if line is not None]
        return from_json(table, lines, self._catalog.risk_names, row)


def _numbers(rows: pa.Table, name: str) -> Array:
    column = rows.column(name)
    return to_numpy(column) if len(column) else np.zeros(0, np.int64)
