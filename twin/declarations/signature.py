"""A function's signature is its declaration: its parameters say what it reads.

    def growth(ends: LeaderEnds, last: Before[LeaderEnds], average: Before[Growth]) -> Growth: ...

A parameter is one of
    T            the table of this cycle
    Before[T]    the table as the previous cycle left it: memory from cycle to cycle. With each
                 frame of a cycle the function starts from the same memory, as a moving average must
    Lazy[T]      a function that returns the table: for tables that few cycles need
    Earlier[T]   the table as the last step left it, perhaps in this same cycle, with its rows where
                 they are now: for events, and for what must not be lost once a frame has shown it
    EachRule[T]  of a table ``by_election_rule``: its tables by the name of the election rule
    G            a group of tables that several rules read together (``TableGroup``)
    NowMs        the time against which ages are judged
    Cycle        which cycle this is, and when the one before it was observed
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import (
    Annotated,
    Any,
    Generic,
    NewType,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from twin.declarations.table import Table


class Reads(Enum):
    """The source of a parameter's value."""

    TABLE = "table"
    LAZY = "lazy"
    BEFORE = "before"
    EARLIER = "earlier"
    EACH_RULE = "each rule"
    TIME = "time"
    CYCLE = "cycle"
    GROUP = "group"


_T = TypeVar("_T")
Before = Annotated[_T, Reads.BEFORE]
Earlier = Annotated[_T, Reads.EARLIER]
NowMs = NewType("NowMs", int)


@dataclass(frozen=True, slots=True)
class Lazy(Generic[_T]):
    """A table that is computed when it is first asked for."""

    make: Callable[[], _T]

    def __call__(self) -> _T:
        """The table, computed now if it was not before."""
        return self.make()


class EachRule(dict[str, _T]):
    """Tables by the name of the election rule, Kafka's first."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The newest cycle. Times are UNKNOWN before the first one."""

    observed_at_ms: int
    prev_observed_at_ms: int  # of the cycle before it
    listed_whole_at_ms: int  # of the newest cycle whose listing of partitions was complete


class DeclarationError(TypeError):
    """A declaration cannot be served: raised when the catalog is made, never during a cycle."""


class TableGroup:
    """Base class of groups of tables that several rules read together: frozen dataclasses.

    Fields are declared like parameters. A rule with a parameter of the class reads all its fields.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; ``table`` is None for time, cycle and groups. A group has ``parts``."""

    name: str
    reads: Reads
    table: type[Table] | None = None
    group: type[TableGroup] | None = None
    parts: tuple[Parameter, ...] = ()

    def under(self, election_rule: str) -> Parameter:
        """The parameter of the same function under that election rule."""
        if self.reads is Reads.GROUP:
            return replace(self, parts=tuple(part.under(election_rule) for part in self.parts))
        is_fixed = self.reads is Reads.EACH_RULE
        if self.table is None or is_fixed or not self.table.by_election_rule:
            return self
        return replace(self, table=self.table.under(election_rule))


def without_groups(reads: Iterable[Parameter]) -> tuple[Parameter, ...]:
    """These parameters, with each group replaced by the parameters of its fields."""
    return tuple(
        part
        for each in reads
        for part in (without_groups(each.parts) if each.reads is Reads.GROUP else (each,))
    )


def reading(*tables: type[Table]) -> tuple[Parameter, ...]:
    """The parameters of a function that reads these tables."""
    return tuple(Parameter("", Reads.TABLE, table) for table in tables)


def name_of(function: Callable[..., Any]) -> str:
    """Module and name, for messages."""
    return f"{function.__module__}.{function.__name__}"


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a function, or the fields of a group, with the tables that they name.

    Raises:
        DeclarationError: a parameter is not of a kind listed above.
    """
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        _parameter(function, name, hints.get(name))
        for name in inspect.signature(function).parameters
    )


def makes(function: Callable[..., Any]) -> type[Table]:
    """The table that the function returns.

    Raises:
        DeclarationError: it returns something else.
    """
    returned = get_type_hints(function, include_extras=True).get("return")
    if not _is_table(returned):
        raise DeclarationError(f"{name_of(function)}: it must return a table with a kind")
    return returned


def _parameter(function: Callable[..., Any], name: str, hint: Any) -> Parameter:
    if hint is NowMs:
        return Parameter(name, Reads.TIME)
    if hint is Cycle:
        return Parameter(name, Reads.CYCLE)
    if isinstance(hint, type) and issubclass(hint, TableGroup):
        return Parameter(name, Reads.GROUP, group=hint, parts=parameters(hint))
    reads: Any = Reads.TABLE
    if get_origin(hint) is Annotated:
        hint, *how = get_args(hint)
        reads = how[0] if len(how) == 1 else None
    elif get_origin(hint) is Lazy:
        (hint,), reads = get_args(hint), Reads.LAZY
    elif get_origin(hint) is EachRule:
        (hint,), reads = get_args(hint), Reads.EACH_RULE
    if not (_is_table(hint) and isinstance(reads, Reads)):
        raise DeclarationError(
            f"{name_of(function)}: parameter {name} must be a table with a kind, or Before, "
            "Earlier, Lazy or EachRule of one, a group of tables (TableGroup), NowMs, or Cycle"
        )
    if reads is Reads.EACH_RULE and not hint.by_election_rule:
        raise DeclarationError(
            f"{name_of(function)}: parameter {name} reads {hint.kind} by election rule, and that "
            "table is not declared by_election_rule"
        )
    return Parameter(name, reads, hint)


def _is_table(hint: Any) -> TypeGuard[type[Table]]:
    return isinstance(hint, type) and issubclass(hint, Table) and bool(hint.kind)
