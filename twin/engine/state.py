"""The state of one shard: one table of each kind, all with the same partitions.

A ``ShardState`` is a value: functions return a new one. ``state[T]`` is the table T, whether it is
stored or computed on demand. Rows are partitions, sorted by topic and number; replica slots are in
assignment order, so slot 0 is the preferred replica, and a slot without a replica holds NO_BROKER.
Slots from ``assigned`` on hold unlisted replicas: they answered before any listing named them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    _computed: Tables = field(default_factory=dict)  # on demand
    _latest: Tables | None = None  # while findings are made anew: those of the last step

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
        held = self.tables.get(table)
        if held is None:
            held = self._computed.get(table)
        return cast(T, self._made(table) if held is None else held)

    def of_before(self, table: type[T]) -> T:
        """The table as the previous cycle left it."""
        held = self.before.get(table)
        return cast(T, self._blank(table) if held is None else held)

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
        names: Array = self[Topics].topic[self[PartitionIndex].topic_index]
        return names

    def nbytes(self) -> int:
        """Memory of what is stored."""
        return sum(t.nbytes() for held in (self.tables, self.before) for t in held.values())

    def arguments(
        self, reads: Sequence[Parameter], earlier: ShardState | None = None
    ) -> dict[str, Any]:
        """The arguments for a function with these parameters."""
        return {parameter.name: self._argument(parameter, earlier) for parameter in reads}

    def call(self, function: Callable[..., Any], reads: Sequence[Parameter]) -> Any:
        """The function's answer for this state."""
        return function(**self.arguments(reads))

    # ------------------------------------------------------------ other states

    def with_tables(self, *tables: Table) -> ShardState:
        """The state with these in place of the tables of their kinds."""
        return replace(self, tables={**self.tables, **{type(t): t for t in tables}}, _computed={})

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

        return self._with_each(moved)

    def with_only(self, reads: Iterable[Parameter]) -> ShardState:
        """The state with the tables that these parameters read alone: for questions about few rows.

        Tables that are made on demand are made here, of all rows, so that a state that is asked
        again has them already.
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
        return replace(self, tables=kept, before=before, _computed={})

    def with_slot_capacity(self, slots: int) -> ShardState:
        """The state with at least that many replica slots."""
        if self.slots >= slots:
            return self
        return self._with_each(
            lambda t: t.with_slot_capacity(slots) if isinstance(t, ReplicaTable) else t
        )

    def with_slots(self, row: Rows, came_from: Array) -> ShardState:
        """The state with replicas in other slots, see ``ReplicaTable.with_slots``."""
        return self._with_each(
            lambda t: t.with_slots(row, came_from) if isinstance(t, ReplicaTable) else t
        )

    def begin_cycle(self, at_ms: int, cycle: int) -> ShardState:
        """Keep what rules want to remember, and let go of what is too old."""
        begun = replace(
            self,
            before={table: self[table] for table in self.catalog.remembered},
            observed_at_ms=at_ms,
            prev_observed_at_ms=self.observed_at_ms,
            cycle=cycle,
            judged_at_ms=at_ms,
            _computed={},
        )
        kept = [begun.call(each.compute, each.reads) for each in self.catalog.expiries]
        return begun.with_tables(*kept)

    def assessed(self, now_ms: int) -> ShardState:
        """The state with every finding made anew, judged at that time."""
        rules = self.catalog.rules
        working = replace(
            self,
            judged_at_ms=now_ms,
            tables={t: held for t, held in self.tables.items() if t not in rules},
            _computed={},
            _latest=self.tables,
        )
        for table in self.catalog.stored:
            working[table]
        return replace(working, _latest=None)

    def remade(self, *tables: type[Table]) -> ShardState:
        """The state with those findings made anew, and no others: for what-if questions."""
        state = self
        for table in tables:
            rule = self.catalog.rules[table]
            state = state.with_tables(state.call(rule.compute, rule.reads))
        return state

    # ------------------------------------------------------------ inside

    def _made(self, table: type[Table]) -> Table:
        """A table that is not there: computed, or blank if it was never observed."""
        rule = self.catalog.rules.get(table)
        making = self._latest is not None
        if rule is None or (table.stored and not making):
            if table not in self.catalog.stored:
                raise KeyError(table.kind)
            blank = self._blank(table)
            self._computed[table] = blank
            return blank
        made = self.call(rule.compute, rule.reads)
        held = self.tables if table.stored else self._computed
        held[table] = made
        return cast(Table, made)

    def _blank(self, table: type[Table]) -> Table:
        if issubclass(table, PartitionTable):
            return table.blank(self.partitions)
        if issubclass(table, ReplicaTable):
            return table.blank(self.partitions, self.slots)
        if issubclass(table, SparseTable | KeyedTable):
            return table.empty()
        raise KeyError(table.kind)

    def _argument(self, parameter: Parameter, earlier: ShardState | None) -> Any:
        match parameter.reads:
            case Reads.TIME:
                return self.judged_at_ms
            case Reads.CYCLE:
                return Cycle(
                    self.observed_at_ms, self.prev_observed_at_ms, self.listing.whole_at_ms
                )
            case Reads.GROUP:
                assert parameter.group is not None
                return parameter.group(**self.arguments(parameter.parts, earlier))
        table = parameter.table
        assert table is not None  # all others have one
        match parameter.reads:
            case Reads.LAZY:
                return Lazy(lambda: self[table])
            case Reads.BEFORE:
                return self.of_before(table)
            case Reads.LATEST:
                latest = (self._latest or self.tables).get(table)
                return self._blank(table) if latest is None else latest
            case Reads.EACH_RULE:
                rules = self.catalog.election_rules or (KAFKA,)
                return EachRule((name, self[table.under(name)]) for name in rules)
            case Reads.EARLIER:
                assert earlier is not None  # only functions of events read it
                return earlier[table]
        return self[table]

    def _with_each(self, moved: Callable[[Table], Table]) -> ShardState:
        return replace(
            self,
            tables=_each(self.tables, moved),
            before=_each(self.before, moved),
            _computed={},
        )


def concatenated(parts: Sequence[ShardState]) -> ShardState:
    """One state with the rows of several that have the same topics, brokers and configs."""
    slots = max(part.slots for part in parts)
    wide = [part.with_slot_capacity(slots) for part in parts]
    begins = np.cumsum([0, *(part.partitions for part in wide)])

    def joined(held: Sequence[Mapping[type[Table], Table]]) -> Tables:
        return {table: _joined([each[table] for each in held], begins) for table in held[0]}

    return replace(
        wide[0],
        tables=joined([_complete(part.tables, part.catalog.stored) for part in wide]),
        before=joined([_complete(part.before, part.catalog.remembered) for part in wide]),
        _computed={},
    )


def _complete(held: Tables, kinds: Iterable[type[Table]]) -> Tables:
    """Empty sparse tables are not sent: those that another part may have are put in."""
    return {**{t: t.empty() for t in kinds if issubclass(t, SparseTable)}, **held}


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


def _each(held: Tables, moved: Callable[[Table], Table]) -> Tables:
    return {kind: moved(table) for kind, table in held.items()}
