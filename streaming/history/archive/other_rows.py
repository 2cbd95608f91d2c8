"""Rows of tables that have neither a row a partition nor one a replica: JSON, and back.

Rows about a partition are replaced together, and so are all rows of a table with keys of its own.
A number that stands for a risk is written by name, as on the bus.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from twin.arrays.columns_in_arrow import object_array
from twin.declarations.table import UNKNOWN, Array, Bool, Column, KeyedTable, SparseTable, Table


def changed_partitions(old: SparseTable, new: SparseTable, count: int, sampled: bool) -> Bool:
    """[P] the rows about the partition differ.

    Args:
        old, new: rows in ascending order of partitions, which are numbered alike.
        count: P.
        sampled: compare measurements as well.
    """
    if old is new:
        return np.zeros(count, bool)
    had, has = (np.bincount(table.row, minlength=count) for table in (old, new))
    changed = had != has
    mine, theirs = (table.pick(~changed[table.row]) for table in (old, new))
    for column, before, after in _columns(mine, theirs, sampled):
        if column.name != "row":
            changed[theirs.row[different(before, after)]] = True
    return changed


def is_changed(old: KeyedTable, new: KeyedTable, sampled: bool) -> bool:
    """Whether the rows of a table with keys differ."""
    if old is new:
        return False
    if len(old.values()[0]) != len(new.values()[0]):
        return True
    return any(different(*values).any() for _, *values in _columns(old, new, sampled))


def different(before: Array, after: Array) -> Bool:
    """Where two columns of the same length differ; two NaN are equal."""
    if before is after:
        return np.zeros(after.shape, bool)
    if after.dtype == object:
        pairs = zip(before.tolist(), after.tolist(), strict=True)
        return np.fromiter((one != other for one, other in pairs), bool, len(after))
    unlike = before != after
    return unlike & ~(np.isnan(before) & np.isnan(after)) if after.dtype.kind == "f" else unlike


def _columns(old: Table, new: Table, sampled: bool) -> Iterable[tuple[Column, Array, Array]]:
    for column, before, after in zip(new.columns, old.values(), new.values(), strict=True):
        if sampled or not column.is_measurement:
            yield column, before, after


def to_json(table: Table, risks: Sequence[str]) -> list[str]:
    """A line for each row, without the number of the partition."""
    columns = [column for column in table.columns if column.name != "row"]
    values = [_plain(column, getattr(table, column.name), risks) for column in columns]
    names = [column.name for column in columns]
    encode = msgspec.json.Encoder().encode
    return [
        encode(dict(zip(names, row, strict=True))).decode() for row in zip(*values, strict=True)
    ]


def from_json(
    table: type[Table], lines: Sequence[str], risks: Sequence[str], row: Array | None = None
) -> Table:
    """The table of those lines. A column that the lines lack gets its blank value.

    Args:
        table: its class.
        lines: its rows.
        risks: their names by number.
        row: [N] the partition of each, for tables that have one.
    """
    decoded = [msgspec.json.decode(line) for line in lines]
    values = [
        row.astype(np.int32)
        if column.name == "row" and row is not None
        else _array(column, [each.get(column.name, column.fill) for each in decoded], risks)
        for column in table.columns
    ]
    return table.from_values(values)


def _is_risk(column: Column) -> bool:
    return pa.types.is_dictionary(column.arrow) and column.dtype != object


def _plain(column: Column, values: Array, risks: Sequence[str]) -> list[Any]:
    if _is_risk(column):
        return [risks[number] for number in values.tolist()]
    plain: list[Any] = values.tolist()
    if values.dtype.kind == "f" and np.isinf(values).any():
        # JSON has no infinity, and null stands for a number that is unknown.
        return [str(value) if math.isinf(value) else value for value in plain]
    return plain


def _array(column: Column, values: list[Any], risks: Sequence[str]) -> Array:
    if _is_risk(column):
        number = {name: i for i, name in enumerate(risks)}
        return np.array([number.get(name, UNKNOWN) for name in values], column.dtype)
    if column.dtype != object:
        if column.dtype.kind == "f":
            values = [np.nan if value is None else float(value) for value in values]
        return np.array(values, column.dtype)
    kind = column.arrow
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return object_array(b64decode(each) if isinstance(each, str) else each for each in values)
    return object_array(values)
