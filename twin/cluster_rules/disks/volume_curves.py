"""What the logs on each volume take from now on, as sums of what shards report."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.cluster_rules.disks.dir_contents import ReportedLogDirs, places
from twin.declarations.declare import rule
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Float64,
    Int16,
    Int32,
    Int64,
    Rows,
    ShardReport,
    column,
)
from twin.rules.disks.curves import DiskCurves
from twin.rules.disks.points import POINTS_S

AHEAD: Final = 24
"""What grows beside logs goes on for so many times as long as it was seen: half an hour of image
builds says nothing of next week."""

NOT_IN_SIGHT: Final = np.inf


class ReportedDiskCurves(ShardReport, kind="reported_disk_curves"):
    """[K] what logs of a shard will take in each log directory, as in ``disk_curves``."""

    broker: Int32 = column("broker id")
    number: Int16 = column("number of the directory; unknown where the broker has one")
    point: Int16 = column("index of the time: seconds after counted_at_ms")
    counted_at_ms: Int64 = column("cycle from which on they count")
    least_bytes: Float64 = column("at the least", fill=0.0)
    most_bytes: Float64 = column("at the most", fill=0.0)
    away_bytes: Float64 = column("at the most, remote storage away", fill=0.0)
    judged_bytes: Float64 = column("bytes of the replicas in the sums", fill=0.0)
    lacking_bytes: Float64 = column("what replicas that are behind have to copy", fill=0.0)
    late_replicas: Int64 = column("replicas whose uploads are late", fill=0)
    unjudged_replicas: Int64 = column("replicas that add nothing", fill=0)


@rule
def reported_disk_curves(curves: DiskCurves) -> ReportedDiskCurves:
    """The table as it is."""
    broker, number, point, *others = curves.values()
    return ReportedDiskCurves(broker, number.astype(np.int16), point.astype(np.int16), *others)


class VolumeCurves:
    """The curves of volumes: ``rows`` [V] of the directories, the first one on each volume.

    ``seen_s`` and ``beside`` are [V]: how long it was seen what grows beside logs, and by how many
    bytes a second.
    """

    def __init__(
        self, dirs: ReportedLogDirs, rows: Rows, curves: ReportedDiskCurves, now_ms: int
    ) -> None:
        self._curves, self._count = curves, len(rows)
        self._at = of_volumes(dirs, rows, curves.broker, curves.number)
        self._counts = self._at != UNKNOWN
        self._usable = dirs.usable_bytes[rows].astype(np.float64)
        # By the oldest of the shards.
        oldest = np.full(len(rows), now_ms)
        np.minimum.at(oldest, self._at[self._counts], curves.counted_at_ms[self._counts])
        self._elapsed_s = np.maximum(now_ms - oldest, 0) / 1_000

    def unjudged_replicas(self) -> Int64:
        """[V] replicas that add nothing, since their size or rate is unknown."""
        return self._summed(self._curves.unjudged_replicas).sum(axis=1).astype(np.int64)

    def judged_bytes(self) -> Float64:
        """[V] bytes of the replicas that are in the sums, with what these may have taken since."""
        counted = self._summed(self._curves.judged_bytes).sum(axis=1)
        judged: Float64 = counted + np.maximum(self._now(self._summed(self._curves.away_bytes)), 0)
        return judged

    def lacking_bytes(self) -> Float64:
        """[V] what replicas that are behind have to copy: it is in no curve."""
        return self._summed(self._curves.lacking_bytes).sum(axis=1)

    def late_replicas(self) -> Int64:
        """[V] replicas whose uploads are late."""
        return self._summed(self._curves.late_replicas).sum(axis=1).astype(np.int64)

    def full_after_s(
        self, values: Float64, beside: Float64, seen_s: Float64, soon: Float64
    ) -> Float64:
        """[V] seconds from now until nothing is free; inf if that is not in sight.

        Args:
            values: a column of the reported curves.
            beside: [V] bytes a second that grow beside logs.
            seen_s: [V] how long that was seen.
            soon: [V] bytes that are copied before anything else happens.
        """
        after_s, taken = self.taken(values, beside, seen_s)
        return first_full_s(after_s, taken + soon[:, None] * (after_s > 0), self._usable)

    def taken(self, values: Float64, beside: Float64, seen_s: Float64) -> tuple[Float64, Float64]:
        """[V, H], [V, H] seconds from now, and what is taken more than now by then.

        Args:
            values: a column of the reported curves.
            beside: [V] bytes a second that grow beside logs.
            seen_s: [V] how long that was seen.
        """
        curve, elapsed_s = self._summed(values), self._elapsed_s[:, None]
        after_s = np.maximum(POINTS_S - elapsed_s, 0)
        taken = np.where(elapsed_s <= POINTS_S, curve - self._now(curve)[:, None], 0)
        taken += beside[:, None] * np.minimum(after_s, AHEAD * seen_s[:, None])
        return after_s, taken

    def taken_bytes(self, values: Float64, after_s: float) -> Float64:
        """[V] what logs take more than now, so many seconds from now."""
        curve = self._summed(values)
        return _at(curve, self._elapsed_s + after_s) - self._now(curve)

    def next_hour(self, values: Float64) -> Float64:
        """[V] bytes a second; what retention deletes at once is left out."""
        curve, begin_s = self._summed(values), np.maximum(self._elapsed_s, POINTS_S[1])
        return (_at(curve, begin_s + 3_600) - _at(curve, begin_s)) / 3_600

    def _now(self, curve: Float64) -> Float64:
        return _at(curve, self._elapsed_s)

    def _summed(self, values: Array) -> Float64:
        """[V, H]"""
        cell = self._at * len(POINTS_S) + self._curves.point
        sums = np.zeros(self._count * len(POINTS_S))
        np.add.at(sums, cell[self._counts], values[self._counts])
        return sums.reshape(self._count, len(POINTS_S))


def first_full_s(after_s: Float64, taken: Float64, usable: Float64) -> Float64:
    """[V] seconds from now until nothing is free; inf if that is not in sight.

    Args:
        after_s: [V, H] seconds from now, ascending.
        taken: [V, H] what is taken more than now by then; straight between two times.
        usable: [V] what is free now.
    """
    over = taken - usable[:, None]
    is_full = over >= 0
    first = is_full.argmax(axis=1)
    row, last = np.arange(len(over)), np.maximum(first - 1, 0)
    short, beyond = over[row, last], over[row, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(first > 0, -short / (beyond - short), 0)
    between = after_s[row, last] + share * (after_s[row, first] - after_s[row, last])
    return np.where(is_full.any(axis=1), between, NOT_IN_SIGHT)


def of_volumes(dirs: ReportedLogDirs, rows: Rows, broker: Int32, number: Array) -> Rows:
    """[N] the place among ``rows`` of the volume of each of those directories; or UNKNOWN."""
    directory = places(dirs, broker, number, dirs.error_code == 0)
    volume = keys.pack(dirs.broker, dirs.volume)
    of_directory = keys.find(keys.pack(dirs.broker[rows], dirs.number[rows]), volume)
    return np.append(of_directory, UNKNOWN)[directory]


def _at(curve: Float64, at_s: Float64) -> Float64:
    """[V] the value of each curve at that time."""
    after = np.clip(np.searchsorted(POINTS_S, at_s, side="right"), 1, len(POINTS_S) - 1)
    row = np.arange(len(curve))
    share = (at_s - POINTS_S[after - 1]) / (POINTS_S[after] - POINTS_S[after - 1])
    low, high = curve[row, after - 1], curve[row, after]
    value: Float64 = low + share * (high - low)
    return value
