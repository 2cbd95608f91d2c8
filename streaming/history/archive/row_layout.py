"""The tables of the archive and their columns, derived from the declarations of the state's tables.

    cycles      a row for each shard and cycle: what was archived, written last
    partitions  what changed of a partition: columns of tables with a row a partition, and what the
                leader's replica measures
    replicas    what changed of a replica: columns of tables with a row a replica; what it measures
                is written as the difference to its leader
    tables      rows of all other tables as JSON, and whole states and updates as on the bus
    events      the events

A column is a *measurement* or a *decision* by its declaration (``Column.is_measurement``).
Decisions are written in the cycle in which they change, measurements once in a while. A null is no
value: the column is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twin.declarations.table import UNKNOWN, Array, Column, PartitionTable, ReplicaTable, Table
from twin.engine.catalog import Catalog
from twin.tables.state import Assignment, PartitionIndex, Partitions, Replicas, Topics

CYCLES: Final = "cycles"
PARTITIONS: Final = "partitions"
REPLICAS: Final = "replicas"
TABLES: Final = "tables"
EVENTS: Final = "events"

WRITTEN_IN_ORDER: Final = (TABLES, PARTITIONS, REPLICAS, EVENTS, CYCLES)
"""A reader believes in the cycles that ``cycles`` has, so that is written last. ``tables`` is
first: no whole state may be beside rows that a killed program compared with an older one."""

HOUR: Final = "hour"
HOUR_MS: Final = 3_600_000
AT: Final = pa.timestamp("us", "UTC")
"""Delta has times in microseconds."""
UNKNOWN_DIFFERENCE: Final = np.iinfo(np.int64).min
"""A replica's measurement is unknown."""

_MANTISSA_BITS: Final = 7
"""Of measured numbers that are no whole numbers: their error is less than half a percent."""

STATE, UPDATE = "state", "update"
"""In ``tables``, what rows with messages say in place of a table: a whole state, or an update."""

PLACE: Final = "place"
"""A column of ``tables``: in which order rows that are written together belong. Files do not keep
it: Delta puts the pieces of a file in another order when it compacts several."""

WHOLE, CHANGED, REMOVED = "whole", "changed", "removed"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of ``partitions`` or ``replicas``, and the column of the state that it is."""

    name: str
    table: type[Table]
    column: Column
    of_leader: bool = False  # what the leader's replica has
    from_leader: bool = False  # the difference to that

    @property
    def is_measurement(self) -> bool:
        """Whether it is written once in a while only."""
        return self.column.is_measurement

    @property
    def is_time(self) -> bool:
        """Whether it is a time that may be the time of the cycle."""
        return self.column.name.endswith("at_ms") and not self.from_leader

    @property
    def is_movement(self) -> bool:
        """Whether a row has by how much it moved, unless the row is whole."""
        return self.of_leader and not self.is_time and self.column.dtype.kind == "i"

    @property
    def arrow(self) -> pa.DataType:
        """Its type in the archive: Spark has no numbers without a sign."""
        if self.from_leader:
            return pa.int64()
        if self.column.dtype.kind == "f":
            return pa.float32()
        return pa.int16() if self.column.dtype == np.uint8 else self.column.arrow

    @property
    def meaning(self) -> str:
        """What it means, in a sentence."""
        meaning = self.column.meaning
        if self.of_leader:
            moved = ", or by how much it moved since the row before" if self.is_movement else ""
            return f"{meaning}; of the leader's replica, the first one's while nobody leads{moved}"
        return f"{meaning}; the difference to the leader's" if self.from_leader else meaning


@cache
def _fields(stored: tuple[type[Table], ...]) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    partition = [
        Field(_name(table, column, Partitions), table, column)
        for table in stored
        if issubclass(table, PartitionTable) and table is not PartitionIndex
        for column in table.columns
    ]
    replica = [
        Field(_name(table, column, Replicas), table, column)
        for table in stored
        if issubclass(table, ReplicaTable) and table is not Assignment
        for column in table.columns
    ]
    measured = [
        field for field in replica if field.is_measurement and field.column.dtype.kind == "i"
    ]
    partition += [
        Field(f"leader_{field.name}", field.table, field.column, of_leader=True)
        for field in measured
    ]
    replica = [
        Field(f"{field.name}_from_leader", field.table, field.column, from_leader=True)
        if field in measured
        else field
        for field in replica
    ]
    return tuple(partition), tuple(replica)


def _name(table: type[Table], column: Column, plain: type[Table]) -> str:
    return column.name if table is plain else f"{table.kind}_{column.name}"


def partition_fields(catalog: Catalog) -> tuple[Field, ...]:
    """The columns of ``partitions`` beside its keys."""
    return _fields(catalog.stored)[0]


def replica_fields(catalog: Catalog) -> tuple[Field, ...]:
    """The columns of ``replicas`` beside its keys."""
    return _fields(catalog.stored)[1]


def sparse_columns(catalog: Catalog, name: str) -> frozenset[str]:
    """The columns of a table of the archive that are null in most rows."""
    fields = {PARTITIONS: partition_fields, REPLICAS: replica_fields}.get(name)
    return frozenset() if fields is None else frozenset(each.name for each in fields(catalog))


def other_tables(catalog: Catalog) -> tuple[type[Table], ...]:
    """The tables of the state whose rows are in ``tables``; topics are in ``partitions``."""
    wide = (PartitionTable, ReplicaTable)
    return tuple(t for t in catalog.stored if t is not Topics and not issubclass(t, wide))


_KEYS: Final = (
    pa.field(HOUR, pa.string()),
    pa.field("at", AT),
    pa.field("shard", pa.int32()),
)
_OF_PARTITION: Final = (
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("change", pa.string()),
)


def schemas(catalog: Catalog) -> dict[str, pa.Schema]:
    """The Arrow schema of each table, in the order in which they are written."""

    def own(fields: Iterable[Field]) -> list[pa.Field]:
        return [pa.field(each.name, each.arrow) for each in fields]

    made = {
        CYCLES: [
            *_KEYS, pa.field("cycle", pa.int64()), pa.field("previous_at", AT),
            pa.field("listed_at", AT), pa.field("shards", pa.int32()),
            pa.field("partitions", pa.int64()),
            pa.field("is_measured", pa.bool_()), pa.field("missing_since", AT),
            pa.field("is_filled", pa.bool_()),
        ],
        PARTITIONS: [*_KEYS, *_OF_PARTITION, pa.field("topic_id", pa.string()),
                     *own(partition_fields(catalog))],
        REPLICAS: [*_KEYS, *_OF_PARTITION, pa.field("slot", pa.int16()),
                   pa.field("broker", pa.int32()), *own(replica_fields(catalog))],
        TABLES: [
            *_KEYS, pa.field("table", pa.string()), pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()), pa.field("row", pa.string()),
            pa.field("state", pa.binary()), pa.field(PLACE, pa.int32()),
        ],
        EVENTS: [
            pa.field(HOUR, pa.string()), pa.field("at", AT), pa.field("id", pa.string()),
            pa.field("kind", pa.string()), pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()), pa.field("broker", pa.int32()),
            pa.field("text", pa.string()), pa.field("event", pa.string()),
        ],
    }  # fmt: skip
    return {name: pa.schema(made[name]) for name in WRITTEN_IN_ORDER}


def hour_of(at_ms: int) -> str:
    """The hour of a moment as it names folders: ``2026-11-24T03``."""
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%dT%H}"


def times_of(times: pa.ChunkedArray | pa.Array) -> Array:
    """[N] Unix times in milliseconds, UNKNOWN where there is none."""
    numbers = pc.fill_null(times.cast(pa.int64()), UNKNOWN * 1_000)
    return numbers.to_numpy() // 1_000 if len(numbers) else np.zeros(0, np.int64)


def places_of(rows: pa.Table) -> Array:
    """[N] the places of rows of ``tables``; 0 in those of older archives, which have none."""
    if PLACE not in rows.column_names or not rows.num_rows:
        return np.zeros(rows.num_rows, np.int32)
    places: Array = pc.fill_null(rows.column(PLACE), 0).to_numpy()
    return places


def rounded(values: Array) -> Array:
    """Numbers with the digits that are kept: float32, so that the rest is zeros."""
    bits = values.astype(np.float32).view(np.uint32)
    drop = np.uint32(23 - _MANTISSA_BITS)
    finite = np.isfinite(values.astype(np.float32))
    half = np.uint32(1) << (drop - np.uint32(1))
    kept = ((bits + half) >> drop) << drop
    return np.where(finite, kept, bits).astype(np.uint32).view(np.float32)
