"""Sums by broker of which a part may be unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Array, Int64

QUANTITIES: Final = (
    "leaders", "bytes_in_per_s", "replication_in_per_s", "replication_out_per_s",
    "bytes_out_per_s", "remote_bytes",
)  # fmt: skip
"""[Q] what a broker carries: partitions that it leads; bytes a second from producers, from leaders,
to followers and to consumers; bytes that groups will read there from remote storage."""

LEADERS, IN, REPLICATION_IN, REPLICATION_OUT, OUT, REMOTE = range(len(QUANTITIES))


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """[Q, ...] sums of the known parts, and how many parts are unknown."""

    known: Array
    unknown: Array

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.known + other.known, self.unknown + other.unknown)

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.known - other.known, self.unknown - other.unknown)


class Sums:
    """Sums by broker, or by lost broker and survivor; NaN is counted as unknown."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape
        self.total = Amounts(
            np.zeros((len(QUANTITIES), *shape), np.int64),
            np.zeros((len(QUANTITIES), *shape), np.int64),
        )

    def add(self, quantity: int, values: Array, *place: Int64) -> None:
        """Add [N] whole numbers at [N] places; those with an UNKNOWN place are left out."""
        is_here = place[0] != UNKNOWN
        for each in place[1:]:
            is_here = is_here & (each != UNKNOWN)
        flat = np.ravel_multi_index([each[is_here] for each in place], self._shape)
        values = values[is_here]
        is_unknown = np.isnan(values)
        if is_unknown.any():
            self._count(self.total.unknown[quantity], flat[is_unknown])
            flat, values = flat[~is_unknown], values[~is_unknown]
        self._count(self.total.known[quantity], flat, values)

    def _count(self, sums: Int64, flat: Int64, values: Array | None = None) -> None:
        counted = np.bincount(flat, values, sums.size)  # exact below 2^53
        sums += counted.astype(np.int64).reshape(self._shape)
