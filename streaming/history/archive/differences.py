"""The rows that the archive writes of one shard: what has changed since the rows before.

Decisions are compared in each cycle, measurements once in a while. A whole state begins each hour,
and is written in full: as rows, and as the messages of the bus. So a past moment needs the rows of
its hour alone, and those of its quarter if an update of the whole state begins that
(``base_states``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streaming.history.archive.archive_columns import ArchiveColumns, Columns
from streaming.history.archive.base_states import UPDATE_EVERY_MS, update_of
from streaming.history.archive.other_rows import changed_partitions, different, is_changed
from streaming.history.archive.row_layout import (
    Field,
    hour_of,
    other_tables,
    partition_fields,
    replica_fields,
)
from streaming.history.archive.writing import Changed, Rows, Writer
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, KeyedTable, SparseTable, Table
from twin.engine.rows import common_rows
from twin.engine.shard_state import ShardState
from twin.tables.state import Assignment, PartitionIndex, Topics


@dataclass(slots=True)
class ShardArchive:
    """The newest archived state of a shard, with which the next one is compared."""

    measurements_ms: int
    before: ShardState | None = None  # the cycle that was written last
    _whole: list[bytes] = field(default_factory=list)  # messages of the newest whole state
    _partition: Columns = field(default_factory=dict)  # [P] in the form of the archive
    _replica: Columns = field(default_factory=dict)  # [P, R]
    _other: dict[type[Table], Any] = field(default_factory=dict)  # as written
    _begins_anew: bool = False
    # Tables that were compared last, and whether with their measurements: they need no other look.
    _compared: dict[type[Table], tuple[Table, bool]] = field(default_factory=dict)

    def step(
        self, state: ShardState, missing_since_ms: int = UNKNOWN, is_filled: bool = False
    ) -> Rows:
        """The rows of a cycle.

        Args:
            state: the shard as the cycle left it.
            missing_since_ms: the cycle since which others are missing before this one, if any are.
            is_filled: there was no snapshot of the cycle: it was computed from observations.
        """
        writer = Writer(state)
        is_sampled = self._is_due(state, lambda at_ms: at_ms // self.measurements_ms)
        if self.before is None or self._begins_anew or self._is_due(state, hour_of):
            is_sampled, self._begins_anew = True, False
            self._begin(state, writer)
        else:
            if self._is_due(state, lambda at_ms: at_ms // UPDATE_EVERY_MS):
                is_sampled = True
                self._update(state, writer)
            reset = self._align(self.before, state, writer)
            self._compare(state, reset, is_sampled, writer)
        writer.cycle(is_sampled, missing_since_ms, is_filled)
        self.before = state
        return writer.rows

    def begin_anew(self) -> None:
        """Write everything of the next cycle."""
        self._begins_anew = True

    def _is_due(self, state: ShardState, stretch: Callable[[int], object]) -> bool:
        """Whether the cycle begins a new hour, or a new interval: whatever ``stretch`` returns."""
        at_ms = state.observed_at_ms
        return self.before is None or stretch(self.before.observed_at_ms) != stretch(at_ms)

    def _begin(self, state: ShardState, writer: Writer) -> None:
        """Write everything."""
        self._whole = writer.state()
        columns, catalog = ArchiveColumns(state), state.catalog
        self._partition = columns.of(partition_fields(catalog))
        self._replica = columns.of(replica_fields(catalog))
        everything = np.ones(state.partitions, bool)
        writer.partitions(self._partition, {}, everything)
        writer.replicas(self._replica, {}, everything)
        self._other = {table: state[table] for table in other_tables(catalog)}
        for rows in self._other.values():
            if len(rows.values()[0]):
                writer.other(rows, None)
        self._compared = {table: (state[table], True) for table in catalog.stored}

    def _update(self, state: ShardState, writer: Writer) -> None:
        update = update_of(self._whole, state)
        if update is None:
            self._whole = writer.state()
        else:
            writer.update(update)

    def _compare(self, state: ShardState, reset: Bool, sampled: bool, writer: Writer) -> None:
        due = {table for table in state.catalog.stored if self._is_new(state, table, sampled)}
        columns = ArchiveColumns(state)
        mine, theirs = partition_fields(state.catalog), replica_fields(state.catalog)
        everything = bool(reset.any())

        def needed(fields: tuple[Field, ...]) -> list[Field]:
            # A time that was that of its cycle is another one now, although its table is the same.
            return [
                each
                for each in fields
                if everything
                or (sampled and each.is_time)
                or (each.table in due and (sampled or not each.is_measurement))
            ]

        written = _changed(self._partition, columns.of(needed(mine)), reset, sampled, mine)
        writer.partitions(self._partition, written, reset)
        written = _changed(self._replica, columns.of(needed(theirs)), reset, sampled, theirs)
        writer.replicas(self._replica, written, reset)
        for table in other_tables(state.catalog):
            if table in due:
                self._compare_other(state, table, sampled, writer)
        self._compared |= {table: (state[table], sampled) for table in due}

    def _is_new(self, state: ShardState, table: type[Table], sampled: bool) -> bool:
        compared = self._compared.get(table)
        return compared is None or compared[0] is not state[table] or sampled > compared[1]

    def _compare_other(
        self, state: ShardState, table: type[Table], sampled: bool, writer: Writer
    ) -> None:
        old, new = self._other[table], state[table]
        if isinstance(new, KeyedTable):
            if is_changed(old, new, sampled):
                writer.other(new, None)
                self._other[table] = new
        elif isinstance(new, SparseTable):
            changed = changed_partitions(old, new, state.partitions, sampled)
            if changed.any():
                writer.other(new, changed)
                stay = old.pick(~changed[old.row])
                self._other[table] = stay.with_rows(new.pick(changed[new.row]))

    def _align(self, before: ShardState, state: ShardState, writer: Writer) -> Bool:
        """[P] partitions that are new, or have other replicas.

        What was written is put into the order of the new state.
        """
        if all(before[t] is state[t] for t in (Topics, PartitionIndex, Assignment)):
            return np.zeros(state.partitions, bool)
        row, slots = common_rows(before, state), max(before.slots, state.slots)
        old, new = (_wide(each[Assignment].broker, slots) for each in (before, state))
        reset = (row < 0) | (_taken(old, row) != new).any(axis=1)
        if len(row) != before.partitions or not np.array_equal(row, np.arange(len(row))):
            writer.removed(before, row)
            self._partition = {name: _taken(v, row) for name, v in self._partition.items()}
            self._replica = {name: _taken(v, row) for name, v in self._replica.items()}
            new_row = np.full(before.partitions, UNKNOWN, np.intp)
            new_row[row[row >= 0]] = np.flatnonzero(row >= 0)
            for table, rows in self._other.items():
                if isinstance(rows, SparseTable):
                    self._other[table] = rows.renumbered(new_row)
            self._compared = {}
        self._replica = {name: _wide(v, state.slots) for name, v in self._replica.items()}
        return reset


def _changed(
    kept: Columns, new: Columns, reset: Bool, sampled: bool, fields: tuple[Field, ...]
) -> Changed:
    """Where each column changed, and what is written there; ``kept`` has the new values then."""
    changed: Changed = {}
    for each in fields:
        if each.name not in new:
            continue
        before, after = kept[each.name], new[each.name]
        rows = reset if after.ndim == 1 else reset[:, None]
        if sampled or not each.is_measurement:
            mask = different(before, after) | rows
        else:
            mask = np.broadcast_to(rows, after.shape)
        if mask.any():
            kept[each.name] = np.where(mask, after, before)
            moved = np.where(rows, after, after - before) if each.is_movement else after
            changed[each.name] = mask, moved
    return changed


def _taken(values: Array, row: Array) -> Array:
    """The rows with those numbers; rows numbered -1 get arbitrary values."""
    if len(values):
        return values[row]
    return np.zeros((len(row), *values.shape[1:]), values.dtype)


def _wide(values: Array, slots: int) -> Array:
    """[P, slots] the same, padded with the value of a slot without a replica."""
    if values.shape[1] == slots:
        return values
    wide = np.full((len(values), slots), NO_BROKER, values.dtype)
    both = min(slots, values.shape[1])
    wide[:, :both] = values[:, :both]
    return wide
