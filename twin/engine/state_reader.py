"""Tables out of the frames of a state, read strictly: unusable ones are discarded, and said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.table import UNKNOWN, Array, Column, ReplicaTable, SparseTable, Table, blank
from twin.engine.catalog import Catalog
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import Tables

BEFORE: Final = "before."
"""Prefix of the names of tables that rules remember of the previous cycle."""


class StateReader:
    """Takes tables out of frames, and notes those that cannot be used.

    ``without`` are names of tables that an earlier message had in another version.
    """

    def __init__(
        self, catalog: Catalog, used: Array, without: frozenset[str] = frozenset()
    ) -> None:
        self._by_kind = {table.kind: table for table in catalog.stored}
        self._remembered = {table.kind: table for table in catalog.remembered}
        self._risks = {name: number for number, name in enumerate(catalog.risk_names)}
        self._used = used
        self.tables: Tables = {}
        self.before: Tables = {}
        self.discarded: list[str] = []
        self._discarded_tables: dict[bool, set[type[Table]]] = {True: set(), False: set()}
        self._without = without
        for name in without:
            self._note_discarded(name)

    def take_table(self, name: str, version: str, rows: pa.Table, prefix: str = "") -> None:
        """The table of that name, if it can be used; else it is discarded."""
        table = self.usable(name, version)
        if table is None:
            return
        if _has_columns(rows, table, prefix):
            self.put(name, self._table(table, rows, prefix))
        else:
            self.discard(name, f"its columns are not those of version {version}")

    def put(self, name: str, table: Table) -> None:
        """Add the table under its name in the message."""
        (self.before if name.startswith(BEFORE) else self.tables)[type(table)] = table

    def usable(self, name: str, version: str) -> type[Table] | None:
        """The class of a table, unless it is of another version, which discards the table."""
        table = self._class(name)
        if name in self._without:
            return None
        if table is None:
            self.discard(name, "this version does not have it")
        elif version != str(table.version):
            self.discard(name, f"version {version}, this version has {table.version}")
        else:
            return table
        return None

    def discard(self, name: str, why: str) -> None:
        """Note that the table is not used, and why."""
        self.discarded.append(f"{name}: {why}")
        self._note_discarded(name)

    def _note_discarded(self, name: str) -> None:
        if (table := self._class(name)) is not None:
            self._discarded_tables[name.startswith(BEFORE)].add(table)

    def _class(self, name: str) -> type[Table] | None:
        known = self._remembered if name.startswith(BEFORE) else self._by_kind
        return known.get(name.removeprefix(BEFORE))

    def drop_dependent(self) -> None:
        """Discard tables whose columns hold row numbers of a discarded table."""
        for is_before, tables in ((False, self.tables), (True, self.before)):
            for table in [
                t for t in tables if self._discarded_tables[is_before].intersection(t.counts_in)
            ]:
                name = f"{BEFORE if is_before else ''}{table.kind}"
                self.discarded.append(f"{name}: it numbers rows of a table that is discarded")
                del tables[table]

    def _table(self, table: type[Table], rows: pa.Table, prefix: str) -> Table:
        values = [self._values(c, rows.column(f"{prefix}{c.name}")) for c in table.columns]
        if issubclass(table, ReplicaTable):
            slots = max(int(self._used.max(initial=0)), 1)
            pairs = zip(values, table.columns, strict=True)
            return table.from_values(matrix(v, self._used, slots, c) for v, c in pairs)
        made = table.from_values(values)
        if not isinstance(made, SparseTable):
            return made
        if (made.row < 0).any() or (made.row >= len(self._used)).any():
            raise InvalidFrame("rows", f"{table.kind} names a partition that is not there")
        return self._without_unknown_risks(made)

    def _values(self, declared: Column, values: pa.ChunkedArray) -> Array:
        if declared.dtype == object or not pa.types.is_dictionary(declared.arrow):
            return to_numpy(values)
        entries = values.combine_chunks()
        numbers = [self._risks.get(name, UNKNOWN) for name in entries.dictionary.to_pylist()]
        entry_numbers: Array = np.array([*numbers, UNKNOWN], declared.dtype)
        return entry_numbers[entries.indices.to_numpy()]

    def _without_unknown_risks(self, made: SparseTable) -> SparseTable:
        """The table without the risks that this catalog does not have."""
        for declared, values in zip(made.columns, made.values(), strict=True):
            if pa.types.is_dictionary(declared.arrow) and declared.dtype != object:
                made = made.pick(values != UNKNOWN)
        return made


def _has_columns(rows: pa.Table, table: type[Table], prefix: str) -> bool:
    schema = rows.schema
    expected = {f"{prefix}{c.name}": c.arrow for c in table.columns}
    present = {field.name: field.type for field in schema if field.name.startswith(prefix)}
    return present == expected


def versions_of(metadata: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and version of each table with columns in a wide frame."""
    for entry in filter(None, metadata.get("tables", "").split(",")):
        name, _, version = entry.partition("=")
        yield name, version


def matrix(flat: Array, used: Array, slots: int, declared: Column) -> Array:
    """[P, R] from the flat rows of ``used[p]`` replicas each, in ``slots`` columns."""
    if len(flat) == len(used) * slots:
        return flat.reshape(len(used), slots)
    matrix = blank(declared, (len(used), slots))
    matrix[np.arange(slots) < used[:, None]] = flat
    return matrix
