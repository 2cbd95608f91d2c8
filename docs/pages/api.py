"""docs/api.md: written by hand, but for the fields that come from declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

import numpy as np

from docs.pages.markdown import DOCS, between, names, rows, state_tables
from twin.builtin import CATALOG
from twin.plain import column_values
from twin.table import UNKNOWN, Column, PartitionTable, ReplicaTable, Table

_PARTITION: Final = "<!-- made by `make docs`: fields of a partition -->"
_REPLICA: Final = "<!-- made by `make docs`: fields of a replica -->"

Cells = tuple[str, str, str]


def page() -> str:
    """The text of the page."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    header = ("field", "value", "meaning")
    text = between(text, _PARTITION, rows(header, _partition_fields()))
    return between(text, _REPLICA, rows(header, _replica_fields()))


def _partition_fields() -> Iterator[Cells]:
    """Columns of the partition itself, then objects by their name, then further fields."""
    exported = list(_with_api(PartitionTable))
    for table in exported:
        if not table.api:
            yield from (_cells(column) for column in _columns(table))
    for table in exported:
        if table.api:
            yield f"`{table.api}`", "object", _what(table)
            yield from (_cells(column, f"`{table.api}`.") for column in _columns(table))
    for each in CATALOG.api_fields:
        yield f"`{each.name}`", "as described", each.meaning


def _replica_fields() -> Iterator[Cells]:
    for table in _with_api(ReplicaTable):
        prefix = f"`{table.api}`." if table.api else ""
        yield from (_cells(column, prefix) for column in _columns(table))


def _with_api(base: type[Table]) -> Iterator[type[Table]]:
    for table in state_tables(CATALOG):
        if issubclass(table, base) and table.api is not None:
            yield table


def _columns(table: type[Table]) -> Iterable[Column]:
    return (column for column in table.columns if column.in_api)


def _cells(column: Column, prefix: str = "") -> Cells:
    return f"{prefix}`{column.name}`", _value(column), column.meaning


def _what(table: type[Table]) -> str:
    """The first line of its docstring without shape and full stop."""
    return table.meaning().partition("] ")[2].rstrip(".")


def _value(column: Column) -> str:
    """The JSON that the column becomes."""
    if column.enum is not None:
        return f"one of {_values(column.enum)}, or null"
    if column.flags is not None:
        return f"list of {_values(column.flags)}"
    if column.tri_state:
        return "true, false or null"
    if column.dtype.kind == "b":
        return "true or false"
    if column.dtype.kind == "O":
        return "string"
    return "number or null" if _may_be_null(column) else "number"


def _may_be_null(column: Column) -> bool:
    """An unknown value becomes null; of few columns -1 is a value like any other."""
    return column.dtype.kind in "if" and None in column_values(
        column, np.full(1, UNKNOWN, column.dtype)
    )


def _values(kind: type[Enum]) -> str:
    return names(each.name.lower() for each in kind)
