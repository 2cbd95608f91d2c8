"""What the logs in each log directory will take, as sums at fixed times from now.

Two bounds, since nobody knows where segments end. At the least, retention deletes each record as
soon as it may, and compaction all that is written. At the most, it deletes a segment once its last
record may go and the next check has come, and compaction deletes nothing. Where a setting is
unknown, the bounds take both ends of it. What a replica that is behind lacks is in no sum: it is
soon copied, and counts apart.

The upper bound is kept for remote storage that is away from now on as well: then nothing more is
uploaded, and nothing is deleted that is not.

Source: UnifiedLog.deletableSegments and LogManager.cleanupLogs, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle, Lazy, TableGroup
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Float64,
    Int8,
    Int32,
    Int64,
    KeyedTable,
    column,
)
from twin.rules.brokers.log_dirs import ReplicaDirs
from twin.rules.disks.log_model import Logs, deleted_bytes, size_changes
from twin.rules.disks.points import POINTS_S, summed_at_points
from twin.rules.disks.segment_times import segment_time_s
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog
from twin.rules.tiering.last_uploads import LastUploads
from twin.rules.tiering.upload import UploadLag, UploadWaits, records_in_time
from twin.tables.enums import NOT_SET
from twin.tables.state import Assignment, Brokers, Replicas

EVERY_MS: Final = 60_000
"""Hours are foretold, so sums of a minute ago will do; they cost as much as many rules."""

CHECK_MS: Final = 300_000
"""Kafka's log.retention.check.interval.ms, where a broker's own is unknown."""

_SIMILAR: Final = 0.1
"""Replicas whose sizes differ by less are taken for equal."""

_SMALL: Final = 1 << 20
"""Bytes by which they may differ in any case."""


class DiskCurves(KeyedTable, kind="disk_curves"):
    """[K] changes of what logs take, sorted by broker, number of the directory, and time."""

    broker: Int32 = column("broker id")
    number: Int8 = column("number of the directory; unknown where the broker has one")
    point: Int8 = column("index of the time: seconds after counted_at_ms")
    counted_at_ms: Int64 = column("cycle from which on they count")
    least_bytes: Float64 = column("at the least", fill=0.0)
    most_bytes: Float64 = column("at the most", fill=0.0)
    away_bytes: Float64 = column("at the most, remote storage away from now on", fill=0.0)
    judged_bytes: Float64 = column(
        "bytes of the replicas that are in the sums; counted at the first time", fill=0.0
    )
    lacking_bytes: Float64 = column(
        "what replicas that are behind have to copy, in no sum; counted at the first time", fill=0.0
    )
    late_replicas: Int64 = column(
        "replicas whose uploads are late; counted at the first time", fill=0
    )
    unjudged_replicas: Int64 = column(
        "replicas whose size or rate is unknown: they add nothing; counted at the first time",
        fill=0,
    )


@dataclass(frozen=True, slots=True)
class LogTables(TableGroup):
    """What says how large logs are, how fast they grow, and what may be deleted."""

    assignment: Assignment
    roles: Roles
    replicas: Replicas
    leaders: Leaders
    configs: TopicConfigs
    growth: Growth
    uploads: LastUploads
    brokers: Brokers
    sizes: Lazy[RecordSizes]
    local: Lazy[LocalLog]
    lag: Lazy[UploadLag]
    waits: Lazy[UploadWaits]


@rule
def disk_curves(
    before: Before[DiskCurves], dirs: ReplicaDirs, tables: LogTables, cycle: Cycle
) -> DiskCurves:
    """The sums of up to a minute ago, or new ones."""
    counted_at_ms = int(before.counted_at_ms.max(initial=UNKNOWN))
    if counted_at_ms != UNKNOWN and cycle.observed_at_ms - counted_at_ms < EVERY_MS:
        return before
    return sums_by_directory(tables, dirs, cycle.observed_at_ms)


def sums_by_directory(tables: LogTables, dirs: ReplicaDirs, now_ms: int) -> DiskCurves:
    """The sums of those logs from now on."""
    number = dirs.number
    each, at = keys.distinct(keys.pack(tables.assignment.broker, number + 1).ravel())
    cell = at.reshape(number.shape)
    logs = _Logs(tables)
    sums = [
        logs.summed(cell, len(each), most=most, away=away)
        for most, away in ((False, False), (True, False), (True, True))
    ]
    unjudged = np.bincount(cell[logs.is_unjudged], minlength=len(each))
    judged, late = logs.judged_bytes(cell, len(each)), logs.late_replicas(cell, len(each))
    lacking = logs.lacking_bytes(cell, len(each))
    stays = np.bincount(cell[tables.roles.is_assigned], minlength=len(each)) > 0
    broker, directory = keys.unpack(each[stays])
    points = len(POINTS_S)
    first = np.arange(points * len(broker)) % points == 0
    return DiskCurves.from_values(
        [
            np.repeat(broker, points).astype(np.int32),
            np.repeat(directory - 1, points).astype(np.int8),
            np.tile(np.arange(points, dtype=np.int8), len(broker)),
            np.full(points * len(broker), now_ms),
            *(of_directory[stays].ravel() for of_directory in sums),
            np.where(first, np.repeat(judged[stays], points), 0),
            np.where(first, np.repeat(lacking[stays], points), 0),
            np.where(first, np.repeat(late[stays], points), 0),
            np.where(first, np.repeat(unjudged[stays], points), 0),
        ]
    )


GROWTH_S: Final = 3_600.0
"""The time over which the growth of a single log is taken."""


def growth_bytes_per_s(tables: LogTables) -> tuple[Float64, Float64]:
    """[P], [P] bytes a second that are written to each log, and by which it grows, at the least.

    Of the growth over the next hour, what retention deletes at once is left out: a log that is as
    old as retention allows does not grow however much is written. Of compacted logs nobody knows
    more than that they may not grow. Both are NaN where size or rate is unknown.
    """
    return _Logs(tables).growth()


class _Logs:
    """The logs of a shard: one for all replicas that are like their leader, and others apart.

    ``is_unjudged``: [P, R] replicas of unknown size or rate, or without a leader to copy from.
    """

    def __init__(self, tables: LogTables) -> None:
        self._tables = tables
        leaders, size = tables.leaders, tables.replicas.local_log_bytes
        takes = tables.roles.is_assigned & ~tables.roles.is_offline
        written = tables.growth.appended_records_per_s * tables.sizes().bytes_per_record
        written[tables.growth.appended_records_per_s == 0] = 0
        is_judged = ~np.isnan(written) & (written >= 0) & (leaders.local_log_bytes != UNKNOWN)
        self._written = np.where(is_judged, written, 0)
        is_known = takes & is_judged[:, None] & (size != UNKNOWN)
        self.is_unjudged = takes & ~is_known
        of_leader = leaders.local_log_bytes[:, None]
        like = np.abs(size - of_leader) <= np.maximum(_SIMILAR * of_leader, _SMALL)
        row, slot = np.nonzero(is_known & like)
        own_row, own_slot = np.nonzero(is_known & ~like)
        # Of each partition one log for all replicas that are like their leader, and the others.
        led = self._led = np.flatnonzero(np.bincount(row, minlength=len(written)))
        place = np.full(len(written), UNKNOWN)
        place[led] = np.arange(len(led))
        self._row = np.concatenate([led, own_row])
        self._log = np.concatenate([place[row], len(led) + np.arange(len(own_row))])
        self._replica = np.concatenate([row, own_row]), np.concatenate([slot, own_slot])
        own = own_row, own_slot
        self._size = np.concatenate([leaders.local_log_bytes[led], size[own]]).astype(np.float64)
        spans_ms = tables.local().local_log_span_ms
        self._span_ms = np.concatenate([leaders.values_of(spans_ms)[led], spans_ms[own]])
        # A replica that is behind gets what it lacks.
        behind = ~tables.roles.in_isr[own]
        lacks = np.maximum(leaders.local_log_bytes[own_row] - size[own], 0)
        self._own, self._lacks = own, np.where(behind, lacks, 0)
        configs, row = tables.configs, self._row
        self._is_tiered = (configs.remote_storage == 1)[row] & (configs.copies_disabled != 1)[row]
        waiting = np.nan_to_num(tables.lag().upload_lag_bytes)[row]
        uploaded = np.maximum(self._size - waiting, 0)
        self._uploads = self._late_uploads(uploaded)
        self._away = np.where(self._is_tiered, uploaded, np.inf), np.zeros(len(row))

    def summed(self, cell: Array, cells: int, *, most: bool, away: bool) -> Float64:
        """[C, H] the sums by cell: at the most or the least, remote storage away or as it is."""
        changes = size_changes(self._logs(most=most, away=away))
        return summed_at_points(changes, self._log, cell[self._replica], cells)

    def judged_bytes(self, cell: Array, cells: int) -> Float64:
        """[C] bytes of the replicas in each cell that are in the sums."""
        size = self._tables.replicas.local_log_bytes[self._replica]
        return np.bincount(cell[self._replica], size, cells).astype(np.float64)

    def lacking_bytes(self, cell: Array, cells: int) -> Float64:
        """[C] bytes that replicas which are behind have to copy to each cell."""
        return np.bincount(cell[self._own], self._lacks, cells).astype(np.float64)

    def late_replicas(self, cell: Array, cells: int) -> Int64:
        """[C] replicas in each cell whose uploads are late."""
        is_late = np.isfinite(self._uploads[0])[self._log]
        return np.bincount(cell[self._replica][is_late], minlength=cells)

    def growth(self) -> tuple[Float64, Float64]:
        """[P], [P] as of growth_bytes_per_s."""
        logs = self._logs(most=False, away=False).take(np.arange(len(self._led)))
        at_s = np.array([[0.0], [GROWTH_S]])
        uploaded = logs.uploaded_bytes + logs.uploaded_bytes_per_s * at_s
        deleted = np.minimum(deleted_bytes(logs, at_s), uploaded)
        written, grows = np.full((2, len(self._written)), np.nan)
        written[self._led] = self._written[self._led]
        grows[self._led] = logs.written_bytes_per_s - (deleted[1] - deleted[0]) / GROWTH_S
        return written, grows

    def _logs(self, *, most: bool, away: bool) -> Logs:
        tables, configs, row = self._tables, self._tables.configs, self._row
        span_ms, written, is_tiered = self._span_ms, self._written[row], self._is_tiered
        keeps_s = _limit(
            np.where(is_tiered, configs.local_retention_ms[row], configs.retention_ms[row]),
            if_unknown=np.inf if most else 0.0,
        ) / 1_000  # fmt: skip
        keeps_bytes = _limit(
            np.where(is_tiered, configs.local_retention_bytes[row], configs.retention_bytes[row]),
            if_unknown=np.inf,
        )
        # A suspect timestamp says nothing of the log's age: it is new, or as old as it may be.
        oldest_s = 0.0 if most else np.where(np.isinf(keeps_s), 0.0, keeps_s)
        span_s = np.where(span_ms == UNKNOWN, oldest_s, span_ms / 1_000)
        if most:
            segment_s = segment_time_s(row, configs, tables.growth, tables.sizes())
            late_s = segment_s + _check_s(tables.brokers)
            more = np.multiply(written, late_s, out=np.zeros_like(written), where=written > 0)
            keeps_s, keeps_bytes = keeps_s + late_s, keeps_bytes + more
        else:
            # Compaction keeps no more than is there now.
            is_compacted = (configs.compacted[row] != 0) & ~is_tiered
            written = np.where(is_compacted, 0, written)
        uploads = self._away if away else self._uploads
        return Logs(self._size, written, span_s, keeps_s, keeps_bytes, *uploads)

    def _late_uploads(self, uploaded: Float64) -> tuple[Float64, Float64]:
        """[N] what is uploaded of logs whose uploads are late, and bytes a second; else inf, 0."""
        tables, row = self._tables, self._row
        records = tables.lag().upload_lag_records
        in_time = records_in_time(tables.waits(), tables.growth, tables.sizes(), tables.configs)
        with np.errstate(invalid="ignore"):
            is_late = self._is_tiered & (records > in_time)[row]
        per_s = tables.uploads.records_per_s_now(tables.leaders, row)
        per_s *= np.nan_to_num(tables.sizes().bytes_per_record)[row]
        return np.where(is_late, uploaded, np.inf), np.where(is_late, per_s, 0)


def _limit(values: Int64, *, if_unknown: float) -> Float64:
    """A retention as a number: inf without a limit."""
    limit = np.where(values < 0, np.inf, values)
    return np.where(values == NOT_SET, if_unknown, limit)


def _check_s(brokers: Brokers) -> float:
    """The longest time between two checks of retention."""
    known = brokers.retention_check_ms[brokers.retention_check_ms != UNKNOWN]
    return float(known.max(initial=0) or CHECK_MS) / 1_000
