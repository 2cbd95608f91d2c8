"""The base classes of tables: frozen classes of columns, declared once.

From the declaration come the arrays' types, the Arrow schema, blank rows, the documentation and the
fields of the JSON API. The base class says what a row is:

    PartitionTable   [P]     one row a partition of the shard
    ReplicaTable     [P, R]  one row a partition, one column a replica slot in assignment order
    SparseTable      [N]     rows about few partitions; ``row`` is the index of the partition
    KeyedTable       [K]     rows with a key of their own (brokers, topics, configs)
    ClusterTable     [K]     rows about the whole cluster, such as one a broker
    Observation      [N]     rows of a frame on the bus; never part of a state
    ShardReport      [K]     what a shard reports of itself to the cluster's own shard

This module knows nothing of Kafka, of rules, and of how a state is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import Field, dataclass, field, fields
from enum import Enum
from functools import cache
from types import new_class
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

UNKNOWN: Final = -1
"""Not known, in offset, time, size and yes/no columns: Kafka's own -1, never a zero."""

NO_BROKER: Final = -1

KAFKA: Final = "kafka"
"""The election rule of Kafka itself."""

Int8 = NDArray[np.int8]
UInt8 = NDArray[np.uint8]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]
Rows = NDArray[np.intp]
Array = NDArray[Any]

_ITEM_I32 = pa.list_(pa.field("item", pa.int32(), nullable=False))
_ITEM_I64 = pa.list_(pa.field("item", pa.int64(), nullable=False))
_ITEM_U8 = pa.list_(pa.field("item", pa.uint8(), nullable=False))

# Columns of Python objects: the annotation holds their Arrow type.
Text = Annotated[NDArray[np.object_], pa.dictionary(pa.int32(), pa.string())]
Uuid = Annotated[NDArray[np.object_], pa.dictionary(pa.int32(), pa.binary(16))]
SegmentId = Annotated[NDArray[np.object_], pa.binary(16)]
Blob = Annotated[NDArray[np.object_], pa.binary()]
Int32List = Annotated[NDArray[np.object_], _ITEM_I32]
Int64List = Annotated[NDArray[np.object_], _ITEM_I64]
UInt8List = Annotated[NDArray[np.object_], _ITEM_U8]

T = TypeVar("T", bound="Table")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    ``enum`` names the values of a number, ``flags`` its bits; ``tri_state`` is 1 yes, 0 no, -1
    unknown. The documentation and the JSON API write the names. A column that is not ``in_api`` is
    for rules only. With ``minus_one_is_a_value``, -1 does not mean unknown: it means no leader,
    or it is a Kafka error code.
    """

    name: str
    dtype: np.dtype[Any]
    arrow: pa.DataType
    meaning: str
    source: str
    fill: Any
    enum: type[Enum] | None = None
    flags: type[Enum] | None = None
    tri_state: bool = False
    in_api: bool = True
    minus_one_is_a_value: bool = False

    @property
    def is_measurement(self) -> bool:
        """Whether it is read off something that moves by itself: an offset, size, time or rate.

        The last word of the name is the unit. All other columns are decisions: somebody, or a rule,
        settled on the value, such as a leader, a flag or a verdict.
        """
        return self.dtype.kind == "f" or self.name.rpartition("_")[2] in _MEASURED_IN


_MEASURED_IN: Final = ("offset", "bytes", "ms", "s", "records", "ratio")


def column(
    meaning: str, *, source: str = "", fill: Any = UNKNOWN, enum: type[Enum] | None = None,
    flags: type[Enum] | None = None, tri_state: bool = False, in_api: bool = True,
    minus_one_is_a_value: bool = False,
) -> Any:  # fmt: skip
    """A column: its meaning, the request it is read from, its value before anything is known."""
    declared = {"meaning": meaning, "source": source, "fill": fill, "enum": enum, "flags": flags,
                "tri_state": tri_state, "in_api": in_api,
                "minus_one_is_a_value": minus_one_is_a_value}  # fmt: skip
    return field(metadata=declared)


def _columns(table: type[Any]) -> Iterator[Column]:
    hints = get_type_hints(table, include_extras=True)
    for each in fields(table):
        yield _column(each, hints[each.name])


def _column(declared: Field[Any], hint: Any) -> Column:
    array, arrow = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
    dtype = np.dtype(get_args(get_args(array)[1])[0])
    if arrow is None:
        arrow = pa.from_numpy_dtype(dtype)
    return Column(name=declared.name, dtype=dtype, arrow=arrow, **declared.metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(column,))
class Table:
    """Base of all tables.

    Class arguments of a concrete table:
        kind: its name in frames, in the documentation, and by default in the JSON API.
        version: rises when the meaning of a column changes, so that a table of another version is
            discarded alone. Without that, a table with other columns is discarded, too.
        stored: false for a table that is computed on demand; ``why_on_demand`` says why.
        api: name of the JSON object that holds its columns; "" puts them into the object of the
            partition or replica itself, None leaves the table out.
        counts_in: tables whose row numbers its columns hold; it is discarded together with them.
        by_election_rule: there is one for each election rule, see ``under``; the API has them below
            the name of the rule.
    """

    kind: ClassVar[str] = ""
    version: ClassVar[int] = 1
    stored: ClassVar[bool] = True
    why_on_demand: ClassVar[str] = ""
    api: ClassVar[str | None] = None
    counts_in: ClassVar[tuple[type[Table], ...]] = ()
    by_election_rule: ClassVar[bool] = False
    columns: ClassVar[tuple[Column, ...]] = ()

    def __init_subclass__(
        cls, *, kind: str = "", version: int = 1, on_demand: str = "",
        api: str | None = None, counts_in: tuple[type[Table], ...] = (),
        by_election_rule: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        super().__init_subclass__(**more)
        dataclass(frozen=True, eq=False)(cls)
        cls.columns = tuple(_columns(cls))
        if kind:
            cls.kind, cls.version, cls.api = kind, version, api
            cls.stored, cls.why_on_demand = not on_demand, on_demand
            cls.counts_in = counts_in
            cls.by_election_rule = by_election_rule
            if by_election_rule and api:
                cls.api = f"{api}.{KAFKA}"

    @classmethod
    def under(cls, election_rule: str) -> type[Self]:
        """The table with the same columns for that election rule; this table itself for Kafka's.

        Tables for other rules are never stored.
        """
        table: Any = cls  # as in schema()
        return cast(type[Self], _under(table, election_rule))

    @classmethod
    def meaning(cls) -> str:
        """The first line of its docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def schema(cls) -> pa.Schema:
        """The Arrow schema of its rows."""
        table: Any = cls  # mypy does not know that classes can be hashed
        return _schema(table)

    @classmethod
    def from_values(cls, values: Iterable[Array]) -> Self:
        """The table of those arrays, in the order of its columns."""
        make: Any = cls  # the base class has no columns, but every concrete table does
        return make(*values)

    def values(self) -> list[Array]:
        """The arrays, in the order of the columns."""
        return [getattr(self, c.name) for c in self.columns]

    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return sum(value.nbytes for value in self.values())


OTHER_ELECTIONS: Final = "elections over stored columns, of the few rows where rules differ"


@cache
def _schema(table: type[Any]) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.arrow, nullable=False) for c in table.columns])


@cache
def _under(table: type[Any], election_rule: str) -> type[Any]:
    if election_rule == KAFKA:
        return table
    api = table.api and f"{table.api.removesuffix(KAFKA)}{election_rule}"
    declared = {"kind": f"{table.kind}_{election_rule}", "api": api, "on_demand": OTHER_ELECTIONS}
    named = {"__module__": table.__module__, "__doc__": table.__doc__}
    return new_class(
        f"{table.__name__}_{election_rule}", (table,), declared, lambda own: own.update(named)
    )


class PartitionTable(Table):
    """[P] one row a partition."""

    @classmethod
    def blank(cls, partitions: int) -> Self:
        """The table before anything is known."""
        return cls.from_values(blank(c, partitions) for c in cls.columns)

    def take(self, rows: Rows) -> Self:
        """The table of other partitions: row i was row ``rows[i]``, blank where that is -1."""
        return self.from_values(_taken(self, rows))


class ReplicaTable(Table):
    """[P, R] one row a partition, one column a replica slot."""

    @classmethod
    def blank(cls, partitions: int, slots: int) -> Self:
        """The table before anything is known."""
        return cls.from_values(blank(c, (partitions, slots)) for c in cls.columns)

    def take(self, rows: Rows) -> Self:
        """The table of other partitions: row i was row ``rows[i]``, blank where that is -1."""
        return self.from_values(_taken(self, rows))

    def with_slot_capacity(self, slots: int) -> Self:
        """The table with that many slots; new ones are blank."""
        wide = []
        for c, old in zip(self.columns, self.values(), strict=True):
            new = blank(c, (len(old), slots))
            new[:, : old.shape[1]] = old
            wide.append(new)
        return self.from_values(wide)

    def with_slots(self, row: Rows, came_from: Array) -> Self:
        """The table with replicas in other slots: slot s of ``row[i]`` was ``came_from[i, s]``.

        Args:
            row: [N] partitions.
            came_from: [N, R] old slot of each, -1 for a replica that was not there.
        """
        moved = []
        for c, old in zip(self.columns, self.values(), strict=True):
            new = old.copy()
            old_values = np.take_along_axis(old[row], np.maximum(came_from, 0), axis=1)
            new[row] = np.where(came_from < 0, np.array(c.fill, old.dtype), old_values)
            moved.append(new)
        return self.from_values(moved)


class _Rows(Table):
    """Any number of rows."""

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls.from_values(blank(c, 0) for c in cls.columns)

    def pick(self, rows: Array) -> Self:
        """The table of those rows, given by a mask or by ascending indices."""
        values = self.values()
        if not len(values[0]):
            return self  # as are most tables of a calm cluster
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return self.from_values(value.take(rows) for value in values)


class SparseTable(_Rows):
    """[N] rows about few partitions, in ascending order of ``row``."""

    row: Int32 = column("row of the partition in this state")

    def __len__(self) -> int:
        return len(self.row)

    def row_mask(self, partitions: int) -> Bool:
        """[P] the partition has a row here."""
        mask = np.zeros(partitions, bool)
        mask[self.row] = True
        return mask

    def renumbered(self, new_row: Array) -> Self:
        """The table of other partitions: row i is now ``new_row[i]``, negative if it is gone."""
        if not len(self.row):
            return self
        row = new_row[self.row]
        order = np.argsort(row, kind="stable")
        order = order[row[order] >= 0]
        _, *others = self.values()
        return self.from_values([row[order].astype(np.int32), *(value[order] for value in others)])

    def with_rows(self, other: Self) -> Self:
        """The rows of both."""
        if not len(other.row):
            return self
        if not len(self.row):
            return other
        order = np.argsort(np.concatenate([self.row, other.row]), kind="stable")
        both = zip(self.values(), other.values(), strict=True)
        return self.from_values(np.concatenate(pair)[order] for pair in both)


class KeyedTable(_Rows):
    """[K] rows with a key of their own."""

    def with_rows(self, other: Self, key: str) -> Self:
        """The rows of both tables, sorted by key; ``other`` wins where both have a key."""
        stays = ~np.isin(getattr(self, key), getattr(other, key))
        both = [
            np.concatenate([mine[stays], theirs])
            for mine, theirs in zip(self.values(), other.values(), strict=True)
        ]
        at = [c.name for c in self.columns].index(key)
        order = np.argsort(both[at], kind="stable")
        return self.from_values(value[order] for value in both)


class ClusterTable(KeyedTable):
    """[K] rows about the whole cluster: a table of the cluster's own shard."""


class Observation(Table):
    """[N] rows of a frame on the bus.

    Class argument ``event``: its rows belong to no cycle; their own times say if they are new.
    """

    event: ClassVar[bool] = False

    def __init_subclass__(cls, *, event: bool = False, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.event = event


class ShardReport(KeyedTable, Observation):
    """[K] what a shard reports of itself to the cluster's own shard, such as a sum by broker.

    A rule computes it from the tables of a shard. The cluster's own shard observes these reports
    and keeps the rows of all shards; a cluster rule reads them by a parameter of the class.
    """

    def __init_subclass__(cls, *, kind: str = "", **more: Any) -> None:
        why = "each shard reports it to the cluster's own after a step" if kind else ""
        super().__init_subclass__(kind=kind, on_demand=why, **more)


def blank(column: Column, shape: int | tuple[int, ...]) -> Array:
    """An array filled with the column's value for "nothing is known yet"."""
    values = np.empty(shape, column.dtype)
    values.fill(column.fill)  # not np.full, which would spread a list over the rows
    return values


def _taken(table: Table, rows: Rows) -> list[Array]:
    """The rows of each column: a view of consecutive rows, else ``take``, faster than [].

    The arrays of a table never change, so two tables may share memory.
    """
    is_new = rows < 0
    if not is_new.any():
        spans = len(rows) and rows[-1] - rows[0] == len(rows) - 1  # a cheap check first
        if spans and (np.diff(rows) == 1).all():
            return [old[rows[0] : rows[-1] + 1] for old in table.values()]
        return [old.take(rows, axis=0) for old in table.values()]
    taken = []
    for column, old in zip(table.columns, table.values(), strict=True):
        new = blank(column, (len(rows), *old.shape[1:]))
        new[~is_new] = old[rows[~is_new]]
        taken.append(new)
    return taken
