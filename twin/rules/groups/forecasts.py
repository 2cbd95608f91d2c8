"""When a group of consumers falls off the local log, and when retention overtakes it.

The age of a record is estimated: records are assumed to be evenly dense between the first one on
the leader's disk, whose timestamp is known, and the log end. The group moves on meanwhile, at the
rate of its committed offsets. Kafka deletes whole segments, in rounds, so the time is the earliest
at which it may happen. A record that is not uploaded stays on disk, however old: as long as records
like it have stayed so far.

Source: UnifiedLog.deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments and
isSegmentEligibleForDeletion, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from twin.declarations.declare import group_gauge, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Array, Float64, SparseTable, column
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog
from twin.rules.tiering.warm_up import NEVER
from twin.tables.enums import NOT_SET

SAME_RATE_S: Final = 60
"""How long a group is taken to go on as it did, while its offsets are not read again."""


class GroupForecasts(
    SparseTable,
    kind="group_forecasts",
    on_demand="a function of stored offsets, rates and settings",
):
    """[N] how long each group has, in the order of ``group_offsets``; infinite for never."""

    until_remote_s: Float64 = column(
        "seconds until its next records are no longer on disk, 0 if they are not; never for one "
        "that keeps up",
        fill=float("nan"),
    )
    until_loss_s: Float64 = column(
        "seconds until retention deletes records that it has not read, 0 if it has",
        fill=float("nan"),
    )


@rule
def group_forecasts(
    moves: GroupMoves,
    lags: GroupLags,
    reads: GroupReads,
    leaders: Leaders,
    local: LocalLog,
    configs: TopicConfigs,
    growth: Growth,
    sizes: RecordSizes,
    now_ms: NowMs,
) -> GroupForecasts:
    """A forecast is unknown if it needs an unknown number, and NEVER if nothing is left to read."""
    if not len(moves):
        return GroupForecasts.empty()
    run = _Run.from_tables(moves, leaders, local, growth, sizes, now_ms)
    row = moves.row.astype(np.intp)
    tiered = configs.remote_storage[row]
    kept_ms, kept_bytes = configs.retention_ms[row], configs.retention_bytes[row]
    is_unset = (kept_ms == NOT_SET) | (kept_bytes == NOT_SET)
    local_ms, local_bytes = configs.local_retention_ms[row], configs.local_retention_bytes[row]
    uploaded = moves.committed_offset <= leaders.last_tiered_offset[row]
    waits = (tiered == 1) & (configs.copies_disabled[row] != 1) & ~uploaded
    remote = run.until(
        np.where((local_ms >= 0) & waits, np.maximum(local_ms, run.oldest_ms), local_ms),
        np.where((local_bytes >= 0) & waits, np.maximum(local_bytes, run.held_bytes), local_bytes),
    )
    # A log that has outlived retention waits for its uploads: when these go on nobody knows.
    outlives = (run.oldest_ms > kept_ms) & (kept_ms >= 0)
    outlives |= (run.held_bytes > kept_bytes) & (kept_bytes >= 0)
    loss = np.where(waits & outlives, np.nan, run.until(kept_ms, kept_bytes))
    loss, remote = (np.where(is_unset, np.nan, each) for each in (loss, remote))
    remote = np.where(tiered == 0, NEVER, np.where(tiered == 1, remote, np.nan))
    at_end = lags.lag_records == 0
    remote, loss = (np.where(at_end, NEVER, each) for each in (remote, loss))
    source = reads.reads_from
    is_unknown = np.isin(source, (UNKNOWN, ReadsFrom.NOBODY, ReadsFrom.AHEAD))
    off_disk = (source == ReadsFrom.REMOTE) | (source == ReadsFrom.NOWHERE)
    return GroupForecasts(
        row=moves.row,
        until_remote_s=np.where(is_unknown, np.nan, np.where(off_disk, 0.0, remote)),
        until_loss_s=np.where(is_unknown, np.nan, np.where(source == ReadsFrom.NOWHERE, 0.0, loss)),
    )


@dataclass(frozen=True)
class _Run:
    """[N] a group that moves towards the log end, and retention that follows it."""

    behind: Float64  # records from the group to the log end, now
    rate: Float64  # records a second that the group reads
    growth: Float64  # records a second that are appended
    ms_per_record: Float64  # how much older a record is than the next one
    oldest_ms: Float64  # age of the first record on disk
    record_bytes: Float64
    held_bytes: Float64  # size of the local log

    @staticmethod
    def from_tables(
        moves: GroupMoves, leaders: Leaders, log: LocalLog, growth: Growth,
        sizes: RecordSizes, now_ms: int,
    ) -> _Run:  # fmt: skip
        row = moves.row.astype(np.intp)  # numpy indexes more slowly by another type
        end, local = leaders.log_end_offset[row], leaders.local_log_start_offset[row]
        place = row * log.local_log_span_ms.shape[1] + np.maximum(leaders.slot[row], 0)
        span_ms = log.local_log_span_ms.ravel()[place]
        oldest_ms = np.where(span_ms == UNKNOWN, np.nan, span_ms)
        has_local_log = (end != UNKNOWN) & (local != UNKNOWN) & (end > local)
        appended = growth.appended_records_per_s[row]
        # The last record of an idle log is of unknown age: perhaps as old as the first.
        ms_per_record = np.where(
            has_local_log & (appended > 0),
            oldest_ms / np.where(has_local_log, end - local, 1),
            np.nan,
        )
        rate = np.maximum(moves.records_per_s, 0)
        since_read_s = np.clip((now_ms - moves.read_at_ms) / 1000, 0, SAME_RATE_S)
        behind = end - (moves.committed_offset + rate * since_read_s)
        held_bytes = leaders.local_log_bytes[row]
        return _Run(
            behind=np.where(end == UNKNOWN, np.nan, np.maximum(behind, 0)),
            rate=np.where(moves.records_per_s == UNKNOWN, np.nan, rate),
            growth=np.where(appended == UNKNOWN, np.nan, appended),
            ms_per_record=ms_per_record,
            oldest_ms=oldest_ms,
            record_bytes=sizes.bytes_per_record[row],
            held_bytes=np.where(held_bytes == UNKNOWN, np.nan, held_bytes),
        )

    def until(self, kept_ms: Array, kept_bytes: Array) -> Float64:
        """[N] seconds until records that the group has not read exceed these limits.

        Negative limits delete nothing.
        """
        soonest = np.full(len(kept_ms), NEVER)
        if (kept_ms >= 0).any():
            soonest = np.where(kept_ms < 0, NEVER, self._by_age(kept_ms))
        if (kept_bytes >= 0).any():  # few topics have such a limit
            by_ms, by_bytes = soonest, np.where(kept_bytes < 0, NEVER, self._by_size(kept_bytes))
            soonest = np.fmin(by_ms, by_bytes)
            # If one limit is never reached and the other is unknown, the result is unknown.
            unsure = (np.isnan(by_ms) | np.isnan(by_bytes)) & (soonest == NEVER)
            soonest = np.where(unsure, np.nan, soonest)
        is_there_before = (self.rate > self.growth) & (self.catches_up_s <= soonest)
        return np.where(is_there_before, NEVER, soonest)

    @cached_property
    def catches_up_s(self) -> Float64:
        """[N] seconds until the group is at the log end, if it is faster than producers."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.behind / (self.rate - self.growth)

    @cached_property
    def age_ms(self) -> Float64:
        """[N] age of the next record that the group reads."""
        return np.where(self.growth == 0, self.oldest_ms, self.behind * self.ms_per_record)

    @cached_property
    def younger(self) -> Float64:
        """[N] seconds per second by which that record becomes younger as the group reads."""
        return np.where(self.growth == 0, 0.0, self.rate * self.ms_per_record / 1000)

    def _by_age(self, kept_ms: Array) -> Float64:
        left_s = np.maximum(kept_ms - self.age_ms, 0) / 1000
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.younger >= 1, NEVER, left_s / (1 - self.younger))

    def _by_size(self, kept_bytes: Array) -> Float64:
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.maximum(kept_bytes / self.record_bytes - self.behind, 0)
            grows = self.growth - self.rate
            seconds = np.where(grows <= 0, NEVER, left / grows)
        return np.where(np.isnan(left) | np.isnan(grows), np.nan, seconds)


# ---------------------------------------------------------------- exported


@group_gauge(
    "until_remote_seconds",
    "Seconds until {group} reads from remote storage, at the earliest; 0 if it does, +Inf for "
    "never.",
    combine="min",
)
def until_remote_seconds(forecasts: GroupForecasts) -> Array:
    """The shortest time over the partitions of a group."""
    return forecasts.until_remote_s


@group_gauge(
    "until_loss_seconds",
    "Seconds until retention deletes what {group} has not read, at the earliest; 0 if it has, +Inf "
    "for never.",
    combine="min",
)
def until_loss_seconds(forecasts: GroupForecasts) -> Array:
    """The shortest time over the partitions of a group."""
    return forecasts.until_loss_s
