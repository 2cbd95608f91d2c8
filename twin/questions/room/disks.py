"""The disks of brokers: as they are, emptied, of brokers that are out, and after some time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twin.arrays import keys
from twin.cluster_rules.disks.dir_contents import ReportedLogDirs, is_volume
from twin.cluster_rules.disks.disk_full import BESIDE_S, DiskForecasts
from twin.cluster_rules.disks.volume_curves import (
    ReportedDiskCurves,
    VolumeCurves,
    of_volumes,
)
from twin.declarations.table import Array, Bool, Float64, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.rules.disks.points import POINTS_S


@dataclass(frozen=True, slots=True, eq=False)
class Disks:
    """The log directories [K] of all brokers, and the volumes [V] of known size that they are on.

    ``taken``: [V, H] what is taken more than now at ``after_s``, at the least and at the most.
    """

    dirs: ReportedLogDirs
    rows: Rows  # [V] first directory of each volume
    usable: Float64  # [V]
    is_known: Bool  # [V] its broker has said so lately
    is_blind: Bool  # [V] too few rates are known
    after_s: Float64  # [V, H]
    least: Float64  # [V, H]
    most: Float64  # [V, H]
    now_ms: int
    is_empty: bool = False

    @property
    def broker(self) -> Int32:
        """[V]"""
        return self.dirs.broker[self.rows]


def disks_of(own: ShardState) -> Disks | None:
    """The disks as they are; None while a shard is late, so that nothing is foretold.

    ``own``: the cluster's own shard.
    """
    dirs, curves, forecasts = own[ReportedLogDirs], own[ReportedDiskCurves], own[DiskForecasts]
    rows, now_ms = np.flatnonzero(is_volume(dirs)), own.observed_at_ms
    if len(rows) != len(forecasts.broker):
        return None
    volumes = VolumeCurves(dirs, rows, curves, now_ms)
    other = np.nan_to_num(np.maximum(forecasts.other_bytes_per_s, 0))
    beside = np.where(forecasts.seen_s >= BESIDE_S, other, 0)
    after_s, most = volumes.taken(curves.most_bytes, beside, forecasts.seen_s)
    _, least = volumes.taken(curves.least_bytes, np.zeros(len(rows)), forecasts.seen_s)
    return Disks(
        dirs, rows, dirs.usable_bytes[rows].astype(np.float64), forecasts.is_current,
        np.isnan(forecasts.full_at_earliest_ms), after_s, least, most, now_ms,
    )  # fmt: skip


def emptied(disks: Disks) -> Disks:
    """The same disks with nothing on them, of a broker that gets the same logs as now."""
    return replace(
        disks,
        usable=disks.dirs.total_bytes[disks.rows].astype(np.float64),
        is_known=np.ones(len(disks.rows), bool),
        is_empty=True,
    )


def still(disks: Disks) -> Disks:
    """The disks as they stay while their brokers are out, when nothing is written to them."""
    none = np.zeros(disks.after_s.shape)
    return replace(
        disks,
        is_known=np.ones(len(none), bool),
        is_blind=np.zeros(len(none), bool),
        least=none,
        most=none,
    )


def later(disks: Disks, after_s: float) -> Disks:
    """The disks of brokers that write nothing for so long, and then go on as all others do."""

    def moved(curves: Float64) -> Float64:
        ahead = np.empty(curves.shape)
        for row, (at_s, curve) in enumerate(zip(disks.after_s, curves, strict=True)):
            then = np.interp(np.append(POINTS_S, 0.0) + after_s, at_s, curve)
            ahead[row] = then[:-1] - then[-1]
        return ahead

    return replace(
        disks,
        after_s=np.tile(POINTS_S, (len(disks.rows), 1)),
        least=moved(disks.least),
        most=moved(disks.most),
    )


def place_of(disks: Disks, volume: Rows, broker: Array, directory: Int64) -> Rows:
    """[N] the place among the broker's volumes of a replica whose directory is known; UNKNOWN."""
    at = of_volumes(disks.dirs, disks.rows, broker, directory.astype(np.int16))
    return keys.find(volume.astype(np.int64), at.astype(np.int64))
