"""The most that each broker carried on each of the last seven days."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.table import UNKNOWN, ClusterTable, Float64, Int32, Int64, column

DAY_MS: Final = 86_400_000
DAYS: Final = 7
WATCHED_MS: Final = DAY_MS
"""A broker has no peak before it was observed for so long, since traffic differs by the hour."""


class CarriedPeaks(ClusterTable, kind="carried_peaks"):
    """[K] one row a broker and day of the last seven, sorted by both.

    No rows where no capacity follows from it.
    """

    broker: Int32 = column("broker id")
    day: Int32 = column("days since 1970-01-01, in UTC")
    since_ms: Int64 = column("first cycle of that day")
    bytes_in_per_s: Float64 = column("the most that producers sent it a second", fill=0.0)
    bytes_out_per_s: Float64 = column("the most that it sent consumers a second", fill=0.0)

    def after(self, at_ms: int, broker: Int32, into: Float64, out: Float64) -> CarriedPeaks:
        """The peaks once a cycle is counted.

        Args:
            at_ms: the cycle.
            broker: [B] broker ids.
            into: [B] bytes a second from producers.
            out: [B] bytes a second to consumers.
        """
        today = at_ms // DAY_MS
        kept = self.pick(self.day > today - DAYS)
        brokers = np.concatenate([kept.broker, broker])
        days = np.concatenate([kept.day, np.full(len(broker), today, np.int32)])
        key, row = np.unique(brokers.astype(np.int64) << 32 | days, return_inverse=True)
        since_ms = np.full(len(key), at_ms)
        np.minimum.at(since_ms, row, np.concatenate([kept.since_ms, np.full(len(broker), at_ms)]))
        most_in, most_out = np.zeros((2, len(key)))
        np.maximum.at(most_in, row, np.concatenate([kept.bytes_in_per_s, into]))
        np.maximum.at(most_out, row, np.concatenate([kept.bytes_out_per_s, out]))
        return CarriedPeaks(
            (key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32), since_ms,
            most_in, most_out,
        )  # fmt: skip

    def highest(self, broker: Int32, now_ms: int) -> tuple[Float64, Float64]:
        """[B], [B] the most of those days, in and out; NaN before a broker was observed for a day.

        ``broker``: [B] ids, ascending.
        """
        place = keys.find_sorted(broker, self.broker)
        is_asked = place != UNKNOWN
        row = place[is_asked]
        since_ms = np.full(len(broker), now_ms)
        np.minimum.at(since_ms, row, self.since_ms[is_asked])
        is_known = now_ms - since_ms >= WATCHED_MS
        peaks = np.zeros((2, len(broker)))
        for most, values in zip(peaks, (self.bytes_in_per_s, self.bytes_out_per_s), strict=True):
            np.maximum.at(most, row, values[is_asked])
        into, out = np.where(is_known, peaks, np.nan)
        return into, out
