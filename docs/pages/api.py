"""docs/api.md: written by hand, but for the fields that come from declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from docs.pages.markdown import DOCS, between, names, rows, state_tables
from streaming.exporter.api_views import summed_metrics
from twin.builtin import CATALOG
from twin.table import Column, PartitionTable, ReplicaTable, Table

_PARTITION: Final = "<!-- made by `make docs`: fields of a partition -->"
_REPLICA: Final = "<!-- made by `make docs`: fields of a replica -->"
_BROKER: Final = "<!-- made by `make docs`: fields of a broker -->"
_RACK: Final = "<!-- made by `make docs`: fields of a rack -->"
_CLUSTER: Final = "<!-- made by `make docs`: fields of the cluster -->"

Cells = tuple[str, str, str]


def page() -> str:
    """The text of the page."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    header = ("field", "value", "meaning")
    text = between(text, _PARTITION, rows(header, _partition_fields()))
    text = between(text, _REPLICA, rows(header, _table_fields(ReplicaTable)))
    for begins, level in ((_BROKER, "broker"), (_RACK, "rack"), (_CLUSTER, "cluster")):
        text = between(text, begins, rows(header, _metric_fields(level)))
    return text


def _partition_fields() -> Iterator[Cells]:
    yield from _table_fields(PartitionTable)
    for each in CATALOG.api_fields:
        yield f"`{each.name}`", "as described", each.meaning


def _table_fields(base: type[Table]) -> Iterator[Cells]:
    """Columns of the partition or replica itself, then objects with their columns."""
    tables = [t for t in state_tables(CATALOG) if issubclass(t, base) and t.api is not None]
    for table in tables:
        if not table.api:
            yield from (_cells(column) for column in _columns(table))
    for table in tables:
        if table.api:
            yield f"`{table.api}`", "object", _what(table)
            yield from (_cells(column, f"`{table.api}`.") for column in _columns(table))


def _metric_fields(level: str) -> Iterator[Cells]:
    """The metrics that an object of that level has by their names."""
    for metric in summed_metrics(CATALOG, level):
        value = f"number by {names(metric.labels)}" if metric.labels else "number"
        yield f"`{metric.name}`", value, metric.help


def _columns(table: type[Table]) -> Iterable[Column]:
    return (column for column in table.columns if column.in_api)


def _cells(column: Column, prefix: str = "") -> Cells:
    if column.flags is not None:
        flags = ", ".join(f"{prefix}`{str(each.name).lower()}`" for each in column.flags)
        return flags, "true or false", column.meaning
    return f"{prefix}`{column.name}`", _value(column), column.meaning


def _what(table: type[Table]) -> str:
    """The first line of its docstring without shape and full stop."""
    return table.meaning().partition("] ")[2].rstrip(".")


def _value(column: Column) -> str:
    """The JSON that the column becomes."""
    if column.enum is not None:
        return f"one of {names(each.name.lower() for each in column.enum)}, or null"
    if column.tri_state:
        return "true, false or null"
    if column.dtype.kind == "b":
        return "true or false"
    if column.dtype.kind == "O":
        return "string"
    return "number or null" if _may_be_null(column) else "number"


def _may_be_null(column: Column) -> bool:
    return column.dtype.kind in "if" and not column.minus_one_is_a_value
