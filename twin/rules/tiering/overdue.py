"""Local logs that are larger or older than their retention leaves them.

Kafka deletes a segment once its largest timestamp is older than retention.ms, or while the others
are larger than retention.bytes; of a tiered topic by local retention, and only what is uploaded. A
log that keeps more has a reason that no API tells: a timestamp in the future, a failed move between
disks, a dead cleaner thread.

Three things tell that a log is too old: the timestamp of its first record, if it can be true; the
time for which the twin has seen that record in the log; and a timestamp in the future, since Kafka
keeps the segment until then. A first record may outlive retention by as long as its segment lasts:
segment.ms at most, and less where segments fill before. Where the log was written evenly, at the
rate of now, its timestamp says when its first segment was full. Whatever the timestamps, records
that were there before retention began (``older_ends``) fill at most one segment. A replica that
does not answer is judged at its last sample, since nothing is known of its log after that.

Compaction joins old segments with newer ones, which retention then keeps as a whole: a compacted
log that is bounded is judged by its size alone.

Source: UnifiedLog.deleteOldSegments and isSegmentEligibleForDeletion, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, over_slots
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import OfRows
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Bool, Float64, Int64, ReplicaTable, Rows, column
from twin.rules.partitions.growth import Growth
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog
from twin.rules.tiering.older_ends import OlderEnds, deleted_after_ms, deletes_after_ms
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.timestamps import (
    RETENTION_SLACK,
    FirstSeenEnds,
    FirstTimestamps,
    cannot_be,
    contradicted,
    kept_at_most_ms,
)
from twin.rules.tiering.upload import UploadLag
from twin.tables.state import Replicas

_EVEN: Final = 2
"""The rate now and that of the whole log may differ by so much, and the log counts as even."""


class Overdue(
    ReplicaTable, kind="overdue", api="", on_demand="stored sizes, held against settings"
):
    """[P, R] what each replica keeps on disk that its retention does not leave it."""

    overdue_bytes: Float64 = column(
        "bytes on disk beyond retention, where a limit in bytes is set", fill=0.0
    )
    is_overdue: Bool = column(
        "its local log is larger or older than retention leaves it", fill=False
    )


@rule
def overdue(
    replicas: Replicas,
    roles: Roles,
    local: LocalLog,
    configs: TopicConfigs,
    states: TierStates,
    lag: UploadLag,
    growth: Growth,
    times: FirstTimestamps,
    first: FirstSeenEnds,
    older: OlderEnds,
    now_ms: NowMs,
) -> Overdue:
    """Segments that are not uploaded do not count, nor does the one that is written.

    A compacted log is judged by its size alone. Not judged: logs that are compacted and tiered, and
    tiered ones of which it is unknown what is uploaded.
    """
    beyond = np.zeros(replicas.log_end_offset.shape)
    too_old = np.zeros(replicas.log_end_offset.shape, bool)
    row = _may_be_overdue(replicas, times, local, configs, first, older, now_ms)
    if not len(row):
        return Overdue(beyond, too_old)
    logs = _Logs(
        replicas.take(row), first.take(row), older.take(row), _limits(configs.take(row)),
        local.held_bytes[row], growth.appended_records_per_s[row],
        (configs.remote_storage == 1)[row] & (states.tier_state[row] != TierState.COPIES_DISABLED),
    )  # fmt: skip
    judged = roles.is_assigned[row] & ~local.is_empty[row]
    beyond[row] = np.where(judged, logs.bytes_beyond(lag.upload_lag_bytes[row]), 0.0)
    too_old[row] = judged & logs.are_too_old()
    return Overdue(beyond, too_old | (beyond > 0))


def _may_be_overdue(
    replicas: Replicas,
    times: FirstTimestamps,
    local: LocalLog,
    configs: TopicConfigs,
    first: FirstSeenEnds,
    older: OlderEnds,
    now_ms: int,
) -> Rows:
    """Partitions with a replica that is old or large; most have none."""
    limits = _limits(configs)
    is_large = over_slots(np.maximum, local.held_bytes) > limits.segment_bytes
    may_be = over_slots(np.maximum, local.held_bytes) > limits.allowed_bytes
    may_be |= now_ms - times.oldest_ms > np.where(is_large, limits.least_ms, limits.allowed_ms)
    may_be |= times.newest_ms - now_ms > limits.allowed_ms - limits.kept_ms
    seen_ms = np.where(first.offset != UNKNOWN, now_ms - first.at_ms, 0)
    start = replicas.local_log_start_offset
    for was_there, ends in (
        (np.flatnonzero(seen_ms > limits.allowed_ms), first),
        (np.flatnonzero(is_large & (older.offset != UNKNOWN)), older),
    ):
        may_be[was_there] |= any_slot(start[was_there] < ends.offset[was_there, None])
    is_judged = (configs.compacted != UNKNOWN) & (configs.tiered_compacted != 1)
    return np.flatnonzero(may_be & is_judged)


@dataclass(frozen=True, slots=True)
class _Limits:
    """[P] what retention leaves of each log; infinite where that is unlimited or unknown."""

    kept_ms: Int64  # the retention that deletes from disk: of a tiered topic local retention
    least_ms: Float64  # age of a record in a segment of its own
    allowed_ms: Float64  # age of the first record of a segment that lasts for segment.ms
    allowed_bytes: Float64
    segment_bytes: Float64


def _limits(configs: TopicConfigs) -> _Limits:
    is_tiered, kept_ms = configs.remote_storage == 1, deletes_after_ms(configs)
    kept_bytes = np.where(is_tiered, configs.local_retention_bytes, configs.retention_bytes)
    has_size = (kept_bytes >= 0) & (configs.segment_bytes >= 0)
    segment_bytes = configs.segment_bytes
    return _Limits(
        kept_ms,
        deleted_after_ms(configs),
        kept_at_most_ms(kept_ms, configs),
        np.where(has_size, RETENTION_SLACK * (kept_bytes + segment_bytes), np.inf),
        np.where(segment_bytes >= 0, RETENTION_SLACK * segment_bytes, np.inf),
    )


@dataclass(frozen=True, slots=True)
class _Logs:
    """Local logs of few partitions, held against their limits."""

    replicas: Replicas
    first: FirstSeenEnds
    older: OlderEnds
    limits: _Limits
    held_bytes: Int64  # [N, R]
    records_per_s: Float64  # [N] UNKNOWN before two samples
    waits: Bool  # [N] what is not uploaded stays on disk

    def bytes_beyond(self, waiting_bytes: Float64) -> Float64:
        """[N, R] bytes beyond retention; what waits for its upload does not count, ``[N]``."""
        waiting = np.where(self.waits, waiting_bytes, 0.0)
        allowed = waiting + self.limits.allowed_bytes
        return np.nan_to_num(np.maximum(self.held_bytes - allowed[:, None], 0.0))

    def are_too_old(self) -> Bool:
        """[N, R] its first segment should have been deleted, and is uploaded if it is to be."""
        few, limits = self.replicas, self.limits
        start, at_ms = few.local_log_start_offset, few.sampled_at_ms
        allowed_ms = limits.allowed_ms[:, None]
        was_there = start < self.first.offset[:, None]
        seen_ms = np.where(was_there, at_ms - self.first.at_ms[:, None], 0)
        old = self._are_old_by_timestamp(allowed_ms)
        old |= seen_ms > allowed_ms
        is_older = at_ms - self.older.at_ms[:, None] > limits.least_ms[:, None]
        old |= is_older & self._fill_a_segment(self.older.offset)
        future_ms = (limits.allowed_ms - limits.kept_ms)[:, None]
        old |= few.local_start_timestamp_ms - at_ms > future_ms
        old &= start != UNKNOWN
        return old & (~self.waits[:, None] | (start <= few.last_tiered_offset))

    def _are_old_by_timestamp(self, allowed_ms: Float64) -> Bool:
        """[N, R] older than a first segment can be, by segment.ms, or by segment.bytes and rate."""
        few = self.replicas
        start, started = few.local_log_start_offset, few.local_start_timestamp_ms
        is_true = (started != UNKNOWN) & ~cannot_be(few, self.first)
        is_true &= ~contradicted(start, started, few.sampled_at_ms, is_true)
        age_ms = few.sampled_at_ms - started
        by_rate_ms = self.limits.least_ms[:, None] + RETENTION_SLACK * self._segment_lasts_ms(
            age_ms
        )
        return is_true & (age_ms > np.minimum(allowed_ms, by_rate_ms))

    def _segment_lasts_ms(self, age_ms: Int64) -> Float64:
        """[N, R] time in which a segment fills; infinite unless the rate explains the whole log.

        A log that was written at another rate than now, as by an import, says nothing of when its
        first segment was full.
        """
        records = self.replicas.log_end_offset - self.replicas.local_log_start_offset
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, now = records / age_ms, self.records_per_s[:, None] / 1_000
            slower, faster = np.minimum(mean, now), np.maximum(mean, now)
            of_segment = self.limits.segment_bytes[:, None] * records / self.held_bytes
            lasts_ms = of_segment / slower
        is_even = (slower > 0) & (faster <= _EVEN * slower) & (self.held_bytes > 0)
        return np.where(is_even, lasts_ms, np.inf)

    def _fill_a_segment(self, offset: Int64) -> Bool:
        """[N, R] the records on disk below those offsets [N] are more than one segment.

        Those of a segment that goes on above the offset may be kept for its newer records.
        """
        few = self.replicas
        start, end = few.local_log_start_offset, few.log_end_offset
        uploaded = np.where(self.waits[:, None], few.last_tiered_offset + 1, end)
        below = np.minimum(offset[:, None], uploaded) - start
        size = np.maximum(below, 0) * (self.held_bytes / np.maximum(end - start, 1))
        fills: Bool = size > self.limits.segment_bytes[:, None]
        return fills


@risk(
    "kept_beyond_retention",
    rank=118,
    severity="warn",
    open_after_ms=900_000,
    close_after_ms=60_000,
    sentence="a replica keeps more on disk than retention leaves it, and grows: a timestamp in the "
    "future, a failed move between disks or a dead cleaner thread keeps its segments",
    source="UnifiedLog.deleteOldSegments, Kafka 4.3",
    alert=Alert(
        summary="keep more on disk than retention leaves them",
        description="Replicas of {n} partitions of {cluster} have local logs that are larger or "
        "older than retention leaves them, although what they hold is uploaded where the topic is "
        "tiered: their disks fill.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def keeps_too_much(overdue: Overdue) -> Bool:
    """At least one replica keeps more than its retention leaves it."""
    return any_slot(overdue.is_overdue)


@gauge(
    "overdue_bytes",
    "Bytes on disk of the partition's replicas beyond their retention in bytes and a segment; no "
    "series where there are none.",
    level="partition",
)
def overdue_bytes(overdue: Overdue) -> OfRows:
    """The bytes of all replicas, where retention does not leave them all."""
    beyond = over_slots(np.add, overdue.overdue_bytes)
    row = np.flatnonzero(beyond > 0)
    return OfRows(row.astype(np.int32), beyond[row])
