"""The state of one shard: one table of each kind, all with the same partitions.

A ``ShardState`` is a value: functions return a new one. ``state[T]`` is the table T, whether it is
stored or computed on demand. Rows are partitions, sorted by topic and number; replica slots are in
assignment order, so slot 0 is the preferred replica, and a slot without a replica holds NO_BROKER.
Slots from ``assigned`` on hold unlisted replicas: they answered before any listing named them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

import numpy as np

from twin.declarations.signature import Cycle, EachRule, Lazy, Parameter, Reads, without_groups
from twin.declarations.table import (
    KAFKA,
    UNKNOWN,
    Array,
    KeyedTable,
    PartitionTable,
    ReplicaTable,
    Rows,
    SparseTable,
    T,
    Table,
)
from twin.engine.catalog import Catalog
from twin.tables.state import Assignment, PartitionIndex, Topics

Tables = dict[type[Table], Table]


@dataclass(frozen=True, slots=True)
class Listing:
    """The progress of the newest cycle's listing: partitions disappear when it is whole."""

    at_ms: int = UNKNOWN
    parts_seen: frozenset[int] = frozenset()
    whole_at_ms: int = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class ShardState:
    """All of one shard. P is its number of partitions, R the width of its widest assignment."""

    catalog: Catalog
    cluster: str
    shard: int
    shards: int
    observed_at_ms: int = UNKNOWN  # newest cycle seen
    prev_observed_at_ms: int = UNKNOWN  # the cycle before it
    cycle: int = UNKNOWN
    listing: Listing = Listing()
    judged_at_ms: int = UNKNOWN  # the time against which ages were judged
    tables: Tables = field(default_factory=dict)
    before: Tables = field(default_factory=dict)  # as the previous cycle left them
    _on_demand: Tables = field(default_factory=dict)  # computed so far: a cache

    @staticmethod
    def empty(catalog: Catalog, cluster: str, shard: int, shards: int) -> ShardState:
        """A shard before anything was observed."""
        spine = (Topics.empty(), PartitionIndex.blank(0), Assignment.blank(0, 1))
        return ShardState(
            catalog, cluster, shard, shards, tables={type(table): table for table in spine}
        )

    # ------------------------------------------------------------ tables

    def __getitem__(self, table: type[T]) -> T:
        """The table of that kind.

        Raises:
            KeyError: the catalog does not have it.
        """
        stored = self.tables.get(table)
        if stored is None:
            stored = self._on_demand.get(table)
        if stored is None:
            stored = self._on_demand[table] = self._computed(table)
        return cast(T, stored)

    def of_before(self, table: type[T]) -> T:
        """The table as the previous cycle left it."""
        remembered = self.before.get(table)
        return cast(T, self.blank(table) if remembered is None else remembered)

    @property
    def partitions(self) -> int:
        """P, the number of partitions."""
        return len(cast(PartitionIndex, self.tables[PartitionIndex]).partition)

    @property
    def slots(self) -> int:
        """R, the widest assignment, unlisted replicas included; at least 1."""
        return int(cast(Assignment, self.tables[Assignment]).broker.shape[1])

    def topic_names(self) -> Array:
        """[P] the topic of each row."""
        return self[Topics].topic[self[PartitionIndex].topic_index]

    def nbytes(self) -> int:
        """Memory of what is stored."""
        return sum(table.nbytes() for table in (*self.tables.values(), *self.before.values()))

    def arguments(
        self, reads: Sequence[Parameter], earlier: ShardState | None = None
    ) -> dict[str, Any]:
        """The arguments for a function with these parameters."""
        inputs = _Inputs(self, earlier or self)
        return {parameter.name: inputs.argument(parameter) for parameter in reads}

    def call(self, function: Callable[..., Any], reads: Sequence[Parameter]) -> Any:
        """The function's answer for this state."""
        return function(**self.arguments(reads))

    # ------------------------------------------------------------ other states

    def with_tables(self, *tables: Table) -> ShardState:
        """The state with these in place of the tables of their kinds."""
        return replace(self, tables={**self.tables, **{type(t): t for t in tables}}, _on_demand={})

    def take(self, rows: Rows) -> ShardState:
        """The state of other partitions: row i is the old row ``rows[i]``, blank where it is -1."""
        if len(rows) == self.partitions and np.array_equal(rows, np.arange(len(rows))):
            return self
        new_row = np.full(self.partitions, UNKNOWN, np.intp)
        new_row[rows[rows >= 0]] = np.flatnonzero(rows >= 0)

        def moved(table: Table) -> Table:
            if isinstance(table, PartitionTable | ReplicaTable):
                return table.take(rows)
            return table.renumbered(new_row) if isinstance(table, SparseTable) else table

        return self.with_each(moved)

    def with_only(self, reads: Iterable[Parameter]) -> ShardState:
        """The state with only the tables that these parameters read, for questions about few rows.

        Tables that are computed on demand are computed here for all rows, so that this state has
        them already for the next question.
        """
        kept: dict[type[Table], Table] = {
            table: self[table] for table in (Topics, PartitionIndex, Assignment)
        }
        before: dict[type[Table], Table] = {}
        for parameter in without_groups(reads):
            if parameter.table is not None and parameter.reads is Reads.BEFORE:
                before[parameter.table] = self.of_before(parameter.table)
            else:
                kept |= {table: self[table] for table in self.catalog.tables_read(parameter)}
        return replace(self, tables=kept, before=before, _on_demand={})

    def with_slot_capacity(self, slots: int) -> ShardState:
        """The state with at least that many replica slots."""
        if self.slots >= slots:
            return self
        return self.with_each(
            lambda t: t.with_slot_capacity(slots) if isinstance(t, ReplicaTable) else t
        )

    def with_slots(self, row: Rows, came_from: Array) -> ShardState:
        """The state with replicas in other slots, see ``ReplicaTable.with_slots``."""
        return self.with_each(
            lambda t: t.with_slots(row, came_from) if isinstance(t, ReplicaTable) else t
        )

    def begin_cycle(self, at_ms: int, cycle: int) -> ShardState:
        """Keep the tables that rules remember, and drop rows that are too old."""
        begun = replace(
            self,
            before={table: self[table] for table in self.catalog.remembered},
            observed_at_ms=at_ms,
            prev_observed_at_ms=self.observed_at_ms,
            cycle=cycle,
            judged_at_ms=at_ms,
            _on_demand={},
        )
        kept = [begun.call(each.compute, each.reads) for each in self.catalog.expiries]
        return begun.with_tables(*kept)

    def as_sent(self) -> ShardState:
        """The state as a reader of its messages has it, for the next step.

        Of what was computed on demand it has the tables that rules remember: the next cycle begins
        with them, and they take a tenth of the memory of all.
        """
        if self.judged_at_ms != self.observed_at_ms:  # readers judge at the time of observation
            return replace(self, judged_at_ms=self.observed_at_ms, _on_demand={})
        remembered = {table: self[table] for table in self.catalog.remembered if not table.stored}
        return replace(self, _on_demand=remembered)

    def assessed(self, now_ms: int) -> ShardState:
        """The state with every finding computed again, judged at that time."""
        rules = self.catalog.rules
        observed = {kind: table for kind, table in self.tables.items() if kind not in rules}
        state = replace(self, judged_at_ms=now_ms, tables=observed, _on_demand={})
        return _Assessment(state, self).result()

    def remade(self, *tables: type[Table]) -> ShardState:
        """The state with only those findings computed again, for what-if questions."""
        state = self
        for table in tables:
            rule = self.catalog.rules[table]
            state = state.with_tables(state.call(rule.compute, rule.reads))
        return state

    # ------------------------------------------------------------ inside

    def _computed(self, table: type[Table]) -> Table:
        """A table that is not stored: computed, or blank if it was never observed."""
        rule = self.catalog.rules.get(table)
        if rule is not None and not table.stored:
            return cast(Table, self.call(rule.compute, rule.reads))
        if table not in self.catalog.stored:
            raise KeyError(table.kind)
        return self.blank(table)

    def blank(self, table: type[Table]) -> Table:
        """That table for the state's partitions, before anything is known."""
        if issubclass(table, PartitionTable):
            return table.blank(self.partitions)
        if issubclass(table, ReplicaTable):
            return table.blank(self.partitions, self.slots)
        if issubclass(table, SparseTable | KeyedTable):
            return table.empty()
        raise KeyError(table.kind)

    def with_each(self, moved: Callable[[Table], Table]) -> ShardState:
        return replace(
            self,
            tables=_each(self.tables, moved),
            before=_each(self.before, moved),
            _on_demand={},
        )


class _Inputs:
    """The arguments of functions that are called with tables of a state."""

    def __init__(self, state: ShardState, earlier: ShardState) -> None:
        self._state, self._earlier = state, earlier

    def table(self, table: type[T]) -> T:
        """The table of this cycle."""
        return self._state[table]

    def earlier(self, table: type[T]) -> T:
        """The table as the last step left it."""
        return self._earlier[table]

    def argument(self, parameter: Parameter) -> Any:
        """The argument for that parameter."""
        table = parameter.table
        if parameter.reads is Reads.TABLE and table is not None:  # most are, so this comes first
            return self.table(table)
        state = self._state
        match parameter.reads:
            case Reads.TIME:
                return state.judged_at_ms
            case Reads.CYCLE:
                return Cycle(
                    state.observed_at_ms, state.prev_observed_at_ms, state.listing.whole_at_ms
                )
            case Reads.GROUP:
                assert parameter.group is not None
                parts = {part.name: self.argument(part) for part in parameter.parts}
                return parameter.group(**parts)
        assert table is not None  # every other parameter has a table
        match parameter.reads:
            case Reads.LAZY:
                return Lazy(lambda: self.table(table))
            case Reads.BEFORE:
                return state.of_before(table)
            case Reads.EACH_RULE:
                rules = state.catalog.election_rules or (KAFKA,)
                return EachRule((name, self.table(table.under(name))) for name in rules)
            case Reads.EARLIER:
                return self.earlier(table)
            case _:
                raise AssertionError(parameter.reads)


class _Assessment(_Inputs):
    """The findings of one step. Each is made once, when the first rule that reads it needs it."""

    def __init__(self, state: ShardState, earlier: ShardState) -> None:
        """``state`` has what was observed, ``earlier`` the findings of the last step."""
        super().__init__(state, earlier)
        self._tables = dict(state.tables)

    def result(self) -> ShardState:
        """The state with every finding."""
        for table in self._state.catalog.stored:
            self.table(table)
        observed = self._state.tables
        made = {kind: table for kind, table in self._tables.items() if kind not in observed}
        stored = {kind: table for kind, table in made.items() if kind.stored}
        others = {kind: table for kind, table in made.items() if not kind.stored}
        return replace(self._state, tables={**observed, **stored}, _on_demand=others)

    def earlier(self, table: type[T]) -> T:
        """The table as the last step left it; blank if there was none."""
        stored = self._earlier.tables.get(table)
        return cast(T, self._state.blank(table) if stored is None else stored)

    def table(self, table: type[T]) -> T:
        """The table of this cycle, made now if it was not before."""
        made = self._tables.get(table)
        if made is None:
            rule = self._state.catalog.rules.get(table)
            if rule is None:
                return self._state[table]  # never observed
            arguments = {each.name: self.argument(each) for each in rule.reads}
            made = self._tables[table] = rule.compute(**arguments)
        return cast(T, made)


def concatenated(parts: Sequence[ShardState]) -> ShardState:
    """One state with the rows of several that have the same topics, brokers and configs.

    Parts of a state without partitions (``row_slice``) have different rows of these as well.
    """
    slots = max(part.slots for part in parts)
    wide = [part.with_slot_capacity(slots) for part in parts]
    begins = np.cumsum([0, *(part.partitions for part in wide)])

    def joined(of_parts: Sequence[Mapping[type[Table], Table]]) -> Tables:
        if not begins[-1]:
            return _joined_rows(of_parts)
        return {kind: _joined([part[kind] for part in of_parts], begins) for kind in of_parts[0]}

    return replace(
        wide[0],
        tables=joined([_complete(part.tables, part.catalog.stored) for part in wide]),
        before=joined([_complete(part.before, part.catalog.remembered) for part in wide]),
        _on_demand={},
    )


def row_slice(state: ShardState, part: int, parts: int) -> ShardState:
    """A part of a state without partitions: as many rows of each table, in order."""

    def cut(table: Table) -> Table:
        rows = np.array_split(np.arange(len(table.values()[0])), parts)[part]
        return table.pick(rows) if isinstance(table, KeyedTable) else table

    return state.with_each(cut)


def most_rows(state: ShardState) -> int:
    """The rows of the largest table."""
    tables = (*state.tables.values(), *state.before.values())
    return max(len(table.values()[0]) for table in tables)


def _joined_rows(of_parts: Sequence[Mapping[type[Table], Table]]) -> Tables:
    """The rows of all parts, table by table; a part has no table of which it has no rows."""
    joined: Tables = {}
    for kind in dict.fromkeys(chain(*of_parts)):
        tables = [part[kind] for part in of_parts if kind in part]
        columns = zip(*(table.values() for table in tables), strict=True)
        joined[kind] = tables[0].from_values(np.concatenate(column) for column in columns)
    return joined


def _complete(tables: Tables, kinds: Iterable[type[Table]]) -> Tables:
    """The tables, with empty ones for kinds that are missing: empty sparse tables are not sent."""
    return {**{t: t.empty() for t in kinds if issubclass(t, SparseTable)}, **tables}


def _joined(tables: Sequence[Table], begins: Array) -> Table:
    first = tables[0]
    if isinstance(first, KeyedTable):
        return first
    if isinstance(first, SparseTable):
        sparse = cast(Sequence[SparseTable], tables)
        values = [t.values() for t in sparse]
        for column, begin in zip(values, begins, strict=False):
            column[0] = (column[0] + begin).astype(np.int32)
        return first.from_values(np.concatenate(column) for column in zip(*values, strict=True))
    columns = zip(*(table.values() for table in tables), strict=True)
    return first.from_values(np.concatenate(column) for column in columns)


def _each(tables: Tables, moved: Callable[[Table], Table]) -> Tables:
    return {kind: moved(table) for kind, table in tables.items()}
