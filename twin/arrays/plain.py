"""Values of the twin's columns as plain data, with None for unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from twin.declarations.table import UNKNOWN, Array, Column

_T = TypeVar("_T")


def integer(value: Any) -> int | None:
    """The whole number, or None where it is unknown."""
    return None if value == UNKNOWN else int(value)


def finite(value: Any) -> float | None:
    """The number, or None: JSON has neither infinity nor not-a-number, and -1 is unknown."""
    return float(value) if math.isfinite(value) and value != UNKNOWN else None


def counted(number: int, one: str, several: str = "") -> str:
    """The number followed by its noun, e.g. ``1 group`` or ``2 groups``.

    ``several`` is the plural, if it is not formed by adding an s: ``"group is"``, ``"groups are"``.
    """
    return f"{number} {one}" if number == 1 else f"{number} {several or one + 's'}"


def enumerated(each: Sequence[object]) -> str:
    """One or more for a sentence, e.g. ``1, 2 and 3``."""
    *first, last = map(str, each)
    return f"{', '.join(first)} and {last}" if first else last


def yes_or_no(value: Any) -> bool | None:
    """A tri-state number as a boolean, or None."""
    return None if value == UNKNOWN else bool(value)


def name(kind: type[IntEnum], value: Any) -> str | None:
    """The name of an enum's value, or None."""
    return None if value == UNKNOWN else kind(int(value)).name.lower()


def flag_values(declared: Column, values: Array) -> dict[str, list[bool]]:
    """[N] each flag of a column as booleans, by name; empty for a column that has no flags."""
    if declared.flags is None:
        return {}
    flags = [(int(each.value), str(each.name).lower()) for each in declared.flags]
    return {text: ((values & bit) != 0).tolist() for bit, text in flags}


def column_values(declared: Column, values: Array) -> list[Any]:
    """[N] a column as plain data, by its declaration."""
    if declared.enum is not None:
        names = {int(each.value): each.name.lower() for each in declared.enum}
        return [names.get(value) for value in values.tolist()]
    if declared.flags is not None:
        flags = [(int(each.value), str(each.name).lower()) for each in declared.flags]
        return [[text for bit, text in flags if value & bit] for value in values.tolist()]
    if declared.tri_state:
        return [None if value == UNKNOWN else bool(value) for value in values.tolist()]
    if values.dtype.kind == "f":
        is_known = np.isfinite(values) & (values != UNKNOWN)
        return [v if ok else None for v, ok in zip(values.tolist(), is_known.tolist(), strict=True)]
    if values.dtype.kind in "iu" and not declared.minus_one_is_a_value:
        # Where -1 is no limit, the column is blank with another value: that is unknown.
        unknown = min(int(declared.fill), UNKNOWN)
        return [None if value == unknown else value for value in values.tolist()]
    return values.tolist()


def by_partition(row: Array, objects: Iterable[_T], partitions: int) -> list[list[_T]]:
    """[P] the objects of each partition, where object i belongs to partition ``row[i]``."""
    listed: list[list[_T]] = [[] for _ in range(partitions)]
    for place, each in zip(row.tolist(), objects, strict=True):
        listed[place].append(each)
    return listed
