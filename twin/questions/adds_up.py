"""Answers of shards that add up to the answer of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import add
from typing import Any, Self, TypeVar, get_type_hints

import numpy as np

_T = TypeVar("_T")


def same(one: _T, _: _T) -> _T:
    """A value that all shards have in common."""
    return one


def lowest(one: float, other: float) -> float:
    """The lower of two numbers; NaN is unknown."""
    return float(np.fmin(one, other))


def highest(one: float, other: float) -> float:
    """The higher of two numbers; NaN is unknown."""
    return float(np.fmax(one, other))


class AddsUp:
    """Base class of the answers of a shard: frozen dataclasses that add up field by field.

    Numbers add up; mappings, and tuples of pairs, key by key. ``Annotated[T, function]`` is
    combined by that function of two values, e.g. ``highest``.
    """

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        kind: type = type(self)
        each = _combined_by(kind).items()
        return type(self)(**{n: f(getattr(self, n), getattr(other, n)) for n, f in each})


@cache
def _combined_by(kind: type) -> Mapping[str, Callable[[Any, Any], Any]]:
    """The function that combines two values of each field."""
    return {
        name: next(filter(callable, getattr(hint, "__metadata__", ())), _sum)
        for name, hint in get_type_hints(kind, include_extras=True).items()
    }


def _sum(one: Any, other: Any) -> Any:
    if not isinstance(one, Mapping | tuple):
        return add(one, other)
    total = dict(one)
    for key, value in dict(other).items():
        total[key] = add(total[key], value) if key in total else value
    ordered = sorted(total.items())
    return tuple(ordered) if isinstance(one, tuple) else dict(ordered)
