"""Pack pairs of small numbers into one number, and look such numbers up.

A replica is a pair (row, broker), and a partition is a pair (topic, number). Packed into one Int64,
the pairs of a whole table can be sorted, compared and searched in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Array, Int32, Int64, Rows

_BITS: Final = 32


def pack(high: Array, low: Array) -> Int64:
    """[N] one number per pair. A pair with a negative number matches no other pair."""
    packed = high.astype(np.int64)
    packed <<= _BITS
    packed |= low
    return packed


def unpack(key: Int64) -> tuple[Int32, Int32]:
    """[N], [N] the two numbers of each pair."""
    return (key >> _BITS).astype(np.int32), (key & ((1 << _BITS) - 1)).astype(np.int32)


def find(keys: Int64, targets: Int64) -> Rows:
    """The place of each target among the keys, of any shape; UNKNOWN where the keys lack it."""
    if not len(keys):
        return np.full(targets.shape, UNKNOWN, np.intp)
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys, targets, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == targets, place, UNKNOWN)


def distinct(values: Array) -> tuple[Array, Rows]:
    """The distinct values, ascending, and [N] the place of each value among them."""
    if not len(values) or values.min() < 0 or values.max() >= len(values):
        each, at = np.unique(values, return_inverse=True)
        return each, at
    # Small numbers, as ids of brokers are: to count them takes a tenth of sorting them.
    occurs = np.bincount(values) > 0
    return np.flatnonzero(occurs).astype(values.dtype), (np.cumsum(occurs) - 1)[values]


def find_sorted(keys: Array, targets: Array) -> Rows:
    """The same as ``find``, for ascending keys of numbers or text.

    If the targets are the keys themselves, there is no search. Small numbers that occur many times,
    such as broker ids, are looked up in an array of all numbers up to the largest key, which takes
    a fifth of the time of a search. UNKNOWN indexes the last value of an array, so a caller can
    append a value for missing keys and index with the result.
    """
    if len(keys) == len(targets) and np.array_equal(keys, targets):
        return np.arange(len(targets))
    if not len(keys):
        return np.full(targets.shape, UNKNOWN, np.intp)
    is_number = keys.dtype.kind == "i"
    if is_number and keys[0] >= 0 and keys[-1] < targets.size and targets.min() >= UNKNOWN:
        places = np.full(int(keys[-1]) + 2, UNKNOWN, np.intp)  # the last place belongs to no key
        places[keys[::-1]] = np.arange(len(keys))[::-1]
        return places.take(np.minimum(targets, len(places) - 1))
    place = np.minimum(np.searchsorted(keys, targets), len(keys) - 1)
    return np.where(keys[place] == targets, place, UNKNOWN)


def look_up(keys: Int64, values: Array, targets: Int64, missing: int | float = UNKNOWN) -> Array:
    """The value of each target key, of any shape; ``missing`` where the keys lack it."""
    place = find(keys, targets)
    if not len(values):
        return np.full(targets.shape, missing, values.dtype)
    return np.where(place == UNKNOWN, np.array(missing, values.dtype), values[place])


def pairs(one: Int64, other: Int64) -> tuple[Rows, Rows]:
    """[M], [M] all pairs of equal numbers, as indices into both."""
    order = np.argsort(other, kind="stable")
    first = np.searchsorted(other, one, "left", sorter=order)
    count = np.searchsorted(other, one, "right", sorter=order) - first
    here = np.repeat(np.arange(len(one)), count)
    nth = np.arange(len(here)) - np.repeat(np.cumsum(count) - count, count)
    return here, order[first[here] + nth]


def groups(columns: Iterable[Array]) -> tuple[Rows, Rows]:
    """[G] a row of each group of equal rows, and [N] the group of each row.

    Args:
        columns: [N] each, whole numbers or booleans; at least one.
    """
    code: Int64 = np.zeros(1, np.int64)
    codes = 1
    for values in columns:
        numbers, count = _from_zero(values)
        if codes > _MOST_CODES // count:
            code, codes = _ranks(code)
        if codes > _MOST_CODES // count:
            numbers, count = _ranks(numbers)
        code, codes = code * count + numbers, codes * count
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group


_MOST_CODES: Final = 1 << 62


def _from_zero(values: Array) -> tuple[Int64, int]:
    """[N] the values less the lowest, and how many there may be."""
    if not len(values):
        return np.zeros(0, np.int64), 1
    low, high = int(values.min()), int(values.max())
    if high - low >= _MOST_CODES:
        return _ranks(values)
    return values.astype(np.int64) - low, high - low + 1


def _ranks(values: Array) -> tuple[Int64, int]:
    """[N] the place of each value among all that occur, and how many these are."""
    unique, place = np.unique(values, return_inverse=True)
    return place.astype(np.int64), len(unique)


def bit_numbers(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, the lowest first; not for negative numbers."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1
