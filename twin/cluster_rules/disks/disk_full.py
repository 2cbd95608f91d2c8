"""When each volume is full: by a model of its logs, and by the straight line of the last hour.

Both bounds of the model are kept, since between them lie segments that nobody sees: the volume is
full *at the earliest* if logs take the most that they may, and *at the latest* if they take the
least. What fills a volume beside logs counts at the earliest, for so many times as long as it was
seen to.

A broker is named once the earliest is near and the straight line agrees: a bound alone would name a
volume that has been nearly full for years, and rates alone one that is loaded for some minutes.
Nobody waits for the line where even the latest is very near, or where uploads are late: then it
tells of the time when they were not.

Source: twin.rules.disks. A broker whose directory has no room fails it, and cannot start with it
(LogManager.handleLogDirFailure, Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from twin.cluster_rules.disks.dir_contents import (
    LogDirBytes,
    ReportedLogDirs,
    in_replicas,
    is_volume,
)
from twin.cluster_rules.disks.disk_samples import DiskSamples, StraightLine
from twin.cluster_rules.disks.volume_curves import ReportedDiskCurves, VolumeCurves, of_volumes
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker, ByLogDir
from twin.declarations.signature import Cycle
from twin.declarations.table import (
    UNKNOWN,
    Bool,
    ClusterTable,
    Float64,
    Int16,
    Int32,
    Int64,
    Rows,
    Text,
    column,
)
from twin.rules.partitions.staleness import STALE_MS

MUCH: Final = 0.3
"""The model and the straight line differ by much where one is so much of the other away."""

BESIDE_S: Final = 1_800
"""What is in no log counts once it was seen to grow for so long: until then it may be a build."""

VERY_SOON: Final = 0.25
"""Of the time before which somebody is told: an hour of four. If it is full then at the latest, an
hour of a straight line would come too late."""

JUDGED: Final = 0.5
"""Of the bytes of replicas on a volume: if fewer are in the sums, that it is full nowhere in sight
says nothing. So it is in the first cycles, before rates are known."""

_LEAST_SHARE: Final = 0.01
"""Of a volume, an hour: rates below it are not compared."""


class DiskForecasts(ClusterTable, kind="disk_forecasts"):
    """[V] when each volume is full, sorted by broker and number.

    Times are those of the clock, in ms: inf where it is not in sight, NaN where nobody knows.
    """

    broker: Int32 = column("broker id")
    log_dir: Text = column("path of the first directory on the volume", fill="")
    number: Int16 = column("number of that directory")
    total_bytes: Int64 = column("size of the volume")
    usable_bytes: Int64 = column("free space of the volume")
    full_at_earliest_ms: Float64 = column("if logs take the most that they may", fill=np.nan)
    full_at_latest_ms: Float64 = column("if logs take the least that they may", fill=np.nan)
    full_by_line_ms: Float64 = column("if it goes on as in the last hour", fill=np.nan)
    full_if_away_ms: Float64 = column(
        "at the earliest, if remote storage is away from now on; NaN where nothing is tiered",
        fill=np.nan,
    )
    logs_least_bytes_per_s: Float64 = column("by the model, over the next hour", fill=np.nan)
    logs_most_bytes_per_s: Float64 = column("by the model, over the next hour", fill=np.nan)
    used_bytes_per_s: Float64 = column("measured over the last hour", fill=np.nan)
    other_bytes_per_s: Float64 = column("of that, what is in no log", fill=np.nan)
    seen_s: Float64 = column("how long that was measured", fill=0.0)
    late_replicas: Int64 = column("replicas whose uploads are late", fill=0)
    unjudged_replicas: Int64 = column("replicas whose size or rate is unknown", fill=0)
    warn_before_ms: Int64 = column("how long before it is full somebody is warned", fill=0)
    page_before_ms: Int64 = column("how long before it is full somebody is paged", fill=0)
    observed_at_ms: Int64 = column("when its broker last listed it")
    is_current: Bool = column("that was within a minute", fill=False)

    def is_near(self, before_ms: Int64, now_ms: int) -> Bool:
        """[V] it is full within that time at the earliest and by the line; or at the latest, if
        uploads are late or it is very soon."""
        until_ms = now_ms + before_ms.astype(np.float64)
        with np.errstate(invalid="ignore"):
            agreed = (self.full_at_earliest_ms <= until_ms) & (self.full_by_line_ms <= until_ms)
            away = (self.full_at_latest_ms <= until_ms) & (self.late_replicas > 0)
            very_soon = self.full_at_latest_ms <= now_ms + VERY_SOON * before_ms
        near: Bool = (before_ms > 0) & (agreed | away | very_soon)
        return near

    def differs(self) -> Bool:
        """[V] the last hour is not what the model says: something is not understood."""
        line, other = self.used_bytes_per_s, np.nan_to_num(self.other_bytes_per_s)
        low, high = self.logs_least_bytes_per_s + other, self.logs_most_bytes_per_s + other
        slack = np.maximum(MUCH * np.abs(line), _LEAST_SHARE * self.total_bytes / 3_600)
        with np.errstate(invalid="ignore"):
            apart: Bool = (line < low - slack) | (line > high + slack)
        return apart


@rule
def disk_forecasts(
    dirs: ReportedLogDirs, curves: ReportedDiskCurves, held: LogDirBytes, samples: DiskSamples,
    cycle: Cycle,
) -> DiskForecasts:  # fmt: skip
    """One row a volume of known size."""
    rows = np.flatnonzero(is_volume(dirs))
    broker, number, now_ms = dirs.broker[rows], dirs.number[rows], cycle.observed_at_ms
    volumes = VolumeCurves(dirs, rows, curves, now_ms)
    line = StraightLine(samples, broker, number)
    used_per_s, other_per_s = (
        line.bytes_per_s(values) for values in (samples.used_bytes, samples.other_bytes)
    )
    has_tiered = _with_tiered(dirs, rows, held)
    none = np.zeros(len(rows))
    beside = np.where(line.seen_s >= BESIDE_S, np.nan_to_num(np.maximum(other_per_s, 0)), none)
    on_volume, unjudged = in_replicas(dirs)[rows], volumes.unjudged_replicas()
    is_blind = volumes.judged_bytes() <= JUDGED * on_volume
    is_blind &= (on_volume > 0) | (unjudged > 0)

    def full_at(values: Float64, other: Float64, soon: Float64) -> Float64:
        after_s = volumes.full_after_s(values, other, line.seen_s, soon)
        return now_ms + 1_000 * np.where(is_blind & np.isinf(after_s), np.nan, after_s)

    lacking = volumes.lacking_bytes()
    earliest = full_at(curves.most_bytes, beside, lacking)
    latest = full_at(curves.least_bytes, none, none)
    away = np.where(has_tiered, full_at(curves.away_bytes, beside, lacking), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        left_s = dirs.usable_bytes[rows] / used_per_s
    by_line = np.where(np.isnan(used_per_s), np.nan, np.where(used_per_s > 0, left_s, np.inf))
    return DiskForecasts.from_values([
        broker, dirs.log_dir[rows], number, dirs.total_bytes[rows], dirs.usable_bytes[rows],
        earliest, latest, now_ms + 1_000 * by_line, away,
        volumes.next_hour(curves.least_bytes), volumes.next_hour(curves.most_bytes),
        used_per_s, other_per_s, line.seen_s, volumes.late_replicas(), unjudged,
        dirs.warn_before_ms[rows], dirs.page_before_ms[rows], dirs.observed_at_ms[rows],
        now_ms - dirs.observed_at_ms[rows] <= STALE_MS,
    ])  # fmt: skip


def _with_tiered(dirs: ReportedLogDirs, rows: Rows, held: LogDirBytes) -> Bool:
    """[V] something on the volume is in remote storage, or waits for its upload."""
    at = of_volumes(dirs, rows, held.broker, held.number)
    counts = (at != UNKNOWN) & (held.tiered_bytes + held.waiting_bytes > 0)
    has_tiered = np.zeros(len(rows), bool)
    has_tiered[at[counts]] = True
    return has_tiered


# ---------------------------------------------------------------- declared


def _by_broker(forecasts: DiskForecasts, is_near: Bool) -> ByBroker:
    """A broker with a volume for which that holds; unknown where one has not been listed lately."""
    broker, at = np.unique(forecasts.broker, return_inverse=True)
    near = np.bincount(at, is_near & forecasts.is_current, minlength=len(broker)) > 0
    late = np.bincount(at, ~forecasts.is_current, minlength=len(broker)) > 0
    return ByBroker(broker, np.where(near, 1, np.where(late, UNKNOWN, 0)).astype(np.int64))


@risk(
    "disk_full_soon",
    rank=42,
    severity="page",
    per="broker",
    open_after_ms=30_000,
    close_after_ms=120_000,
    sentence="a disk of it will soon be full, and the broker stops then",
    source="DescribeLogDirs v4; retention, uploads and rates of each log",
    alert=Alert(
        summary="will soon have a full disk",
        description="A disk of {n} brokers of {cluster} will be full within [disk] page_before_ms. "
        "A broker fails a log directory that has no room, stops with the last one, and cannot "
        "start again before there is room.",
        wait="1m",
        keep_firing_for="5m",
    ),
)
def is_full_soon(forecasts: DiskForecasts, cycle: Cycle) -> ByBroker:
    """Within the time at which somebody is paged."""
    near = forecasts.is_near(forecasts.page_before_ms, cycle.observed_at_ms)
    return _by_broker(forecasts, near)


@risk(
    "disk_fills",
    rank=117,
    severity="warn",
    per="broker",
    open_after_ms=300_000,
    close_after_ms=300_000,
    sentence="a disk of it will be full within a day or so",
    source="DescribeLogDirs v4; retention, uploads and rates of each log",
    alert=Alert(
        summary="have a disk that fills",
        description="A disk of {n} brokers of {cluster} will be full within [disk] warn_before_ms.",
        wait="5m",
        keep_firing_for="10m",
    ),
)
def fills(forecasts: DiskForecasts, cycle: Cycle) -> ByBroker:
    """Within the time at which somebody is warned, and nobody is paged yet."""
    near = forecasts.is_near(forecasts.warn_before_ms, cycle.observed_at_ms)
    near &= ~forecasts.is_near(forecasts.page_before_ms, cycle.observed_at_ms)
    return _by_broker(forecasts, near)


@gauge(
    "full_seconds",
    "Time until the volume of the log directory is full, by its bound: earliest (logs take the "
    "most that they may), latest (the least), or line (as in the last hour). +Inf: not in sight. "
    "At the first directory of a volume.",
    level="log_dir",
    labels=("bound",),
)
def full_seconds(forecasts: DiskForecasts, cycle: Cycle) -> Mapping[tuple[str], ByLogDir]:
    """The bounds that are known."""
    return {
        (name,): _seconds(forecasts, getattr(forecasts, f"full_{how}_ms"), cycle.observed_at_ms)
        for name, how in (("earliest", "at_earliest"), ("latest", "at_latest"), ("line", "by_line"))
    }


@gauge(
    "tier_outage_survived_seconds",
    "How long remote storage can be away from now on until the first disk of the broker is full, "
    "at the earliest. +Inf: not in sight.",
    labels=("broker",),
)
def tier_outage_survived_seconds(
    forecasts: DiskForecasts, cycle: Cycle
) -> Mapping[tuple[str], float]:
    """The brokers with tiered logs."""
    known = forecasts.is_current & ~np.isnan(forecasts.full_if_away_ms)
    broker, at = np.unique(forecasts.broker[known], return_inverse=True)
    least = np.full(len(broker), np.inf)
    np.minimum.at(least, at, forecasts.full_if_away_ms[known] - cycle.observed_at_ms)
    seconds = (np.maximum(least, 0) / 1_000).tolist()
    return {(str(each),): value for each, value in zip(broker.tolist(), seconds, strict=True)}


def _seconds(forecasts: DiskForecasts, at_ms: Float64, now_ms: int) -> ByLogDir:
    known = forecasts.is_current & ~np.isnan(at_ms)
    left_s = np.maximum(at_ms[known] - now_ms, 0) / 1_000
    return ByLogDir(forecasts.broker[known], forecasts.log_dir[known], left_s)
