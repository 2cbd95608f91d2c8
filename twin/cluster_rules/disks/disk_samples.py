"""What was used on each volume within the last hour: a model is held against that straight line.

A sample a minute is enough: what is foretold is hours away, and retention deletes in steps.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.cluster_rules.disks.dir_contents import ReportedLogDirs, in_logs, is_volume
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import ClusterTable, Float64, Int16, Int32, Int64, column

EVERY_MS: Final = 60_000
KEPT_MS: Final = 3_600_000

LEAST_MS: Final = 120_000
"""What changes within less time says nothing of a rate."""


class DiskSamples(ClusterTable, kind="disk_samples"):
    """[K] samples of volumes, sorted by broker, number, and time."""

    broker: Int32 = column("broker id")
    number: Int16 = column("number of the first directory on the volume")
    at_ms: Int64 = column("when its broker listed it")
    total_bytes: Int64 = column("size of the volume")
    used_bytes: Int64 = column("what was used of it")
    other_bytes: Int64 = column("of that, what was in no log")


@rule
def disk_samples(before: Before[DiskSamples], dirs: ReportedLogDirs, cycle: Cycle) -> DiskSamples:
    """One more of each volume whose newest sample is old, without those that are too old.

    A volume that has another size starts anew.
    """
    rows = np.flatnonzero(is_volume(dirs))
    key = keys.pack(dirs.broker[rows], dirs.number[rows])
    known = keys.pack(before.broker, before.number)
    place = keys.find(key, known)
    stays = place >= 0
    same_size = np.append(dirs.total_bytes[rows], -1)[place] == before.total_bytes
    stays &= same_size & (cycle.observed_at_ms - before.at_ms <= KEPT_MS)
    newest = np.full(len(rows), -EVERY_MS)
    np.maximum.at(newest, place[stays], before.at_ms[stays])
    due = rows[dirs.observed_at_ms[rows] - newest >= EVERY_MS]
    if stays.all() and not len(due):
        return before
    used = dirs.total_bytes[due] - dirs.usable_bytes[due]
    new = DiskSamples(
        dirs.broker[due], dirs.number[due], dirs.observed_at_ms[due], dirs.total_bytes[due], used,
        used - in_logs(dirs)[due],
    )  # fmt: skip
    both = zip(before.pick(stays).values(), new.values(), strict=True)
    table = DiskSamples.from_values([np.concatenate(pair) for pair in both])
    return table.pick(np.lexsort((table.at_ms, table.number, table.broker)))


class StraightLine:
    """[V] the straight line through the samples of each volume; NaN where there are too few."""

    def __init__(self, samples: DiskSamples, broker: Int32, number: Int16) -> None:
        key = keys.pack(broker, number)
        place = keys.find(key, keys.pack(samples.broker, samples.number))
        mine = place >= 0
        self._at, count = place[mine], len(key)
        oldest, newest = np.full((2, count), -1, np.int64)
        listed = np.flatnonzero(mine)
        # Sorted by time: the last one written wins.
        newest[self._at] = listed
        oldest[self._at[::-1]] = listed[::-1]
        self._oldest, self._newest = oldest, newest
        at_ms = np.append(samples.at_ms, 0)
        self.seen_s: Float64 = (at_ms[newest] - at_ms[oldest]) / 1_000
        self._is_known = self.seen_s * 1_000 >= LEAST_MS

    def bytes_per_s(self, values: Int64) -> Float64:
        """[V] by how much that column of the samples has grown a second."""
        padded = np.append(values, 0)
        change = padded[self._newest] - padded[self._oldest]
        return np.where(self._is_known, change / np.where(self._is_known, self.seen_s, 1), np.nan)
