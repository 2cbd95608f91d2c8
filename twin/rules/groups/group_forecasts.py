"""When a group of consumers falls off the local log, and when retention overtakes it.

The time is the earliest at which it may happen, beside the one at which it has happened for certain
(``twin.rules.groups.runs``). A record that is not uploaded stays on disk, however old. As soon as
such records are older than local retention, uploads do not keep up, and when they will nobody
knows.

Source: UnifiedLog.deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments and
isSegmentEligibleForDeletion, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import group_gauge, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Array, Bool, Float64, Rows, SparseTable, column
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.groups.runs import Run
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LastAppends, LocalLog
from twin.rules.tiering.warm_up import NEVER
from twin.tables.enums import NOT_SET


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
        "seconds until retention deletes records that it has not read, at the earliest; 0 if it "
        "has",
        fill=float("nan"),
    )
    lost_by_s: Float64 = column(
        "the same at the latest, as long as producers and the group go on as now; later by a "
        "segment at most",
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
    last: LastAppends,
    now_ms: NowMs,
) -> GroupForecasts:
    """A forecast is unknown if it needs an unknown number, and NEVER if nothing is left to read."""
    if not len(moves):
        return GroupForecasts.empty()
    run = Run.from_tables(moves, leaders, local, configs, growth, sizes, last, now_ms)
    return forecasts_of(run, moves, lags, reads, leaders, configs)


def forecasts_of(
    run: Run,
    moves: GroupMoves,
    lags: GroupLags,
    reads: GroupReads,
    leaders: Leaders,
    configs: TopicConfigs,
    within_s: float = NEVER,
) -> GroupForecasts:
    """The forecasts of those groups; ``lost_by_s`` is unknown if no loss may be that soon."""
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
    is_unset |= waits & _uploads_are_late(run, row, leaders, configs)
    loss = run.until(kept_ms, kept_bytes)
    is_near = bool((loss <= within_s).any())
    lost_by = run.until_at_most(kept_ms, kept_bytes) if is_near else np.full(len(loss), np.nan)
    remote, loss, lost_by = (np.where(is_unset, np.nan, each) for each in (remote, loss, lost_by))
    remote = np.where((local_ms == NOT_SET) | (local_bytes == NOT_SET), np.nan, remote)
    remote = np.where(tiered == 0, NEVER, np.where(tiered == 1, remote, np.nan))
    at_end = lags.lag_records == 0
    source = reads.reads_from
    is_unknown = np.isin(source, (UNKNOWN, ReadsFrom.NOBODY, ReadsFrom.AHEAD))
    off_disk = (source == ReadsFrom.REMOTE) | (source == ReadsFrom.NOWHERE)

    def for_readers(seconds: Float64, is_past: Bool) -> Float64:
        seconds = np.where(is_past, 0.0, np.where(at_end, NEVER, seconds))
        return np.where(is_unknown, np.nan, seconds)

    return GroupForecasts(
        row=moves.row,
        until_remote_s=for_readers(remote, off_disk),
        until_loss_s=for_readers(loss, source == ReadsFrom.NOWHERE),
        lost_by_s=for_readers(lost_by, source == ReadsFrom.NOWHERE),
    )


def _uploads_are_late(run: Run, row: Rows, leaders: Leaders, configs: TopicConfigs) -> Bool:
    """[N] what is not uploaded is older or larger than local retention, or than retention.

    Not if all of it may be in the segment that is written, which is not uploaded before it is
    closed.
    """
    end, local = leaders.log_end_offset[row], leaders.local_log_start_offset[row]
    first = np.maximum(local, leaders.last_tiered_offset[row] + 1)
    records = np.where((end != UNKNOWN) & (local != UNKNOWN), np.maximum(end - first, 0), 0)
    age_ms = np.where(first == local, run.oldest_ms, records * run.ms_per_record)
    size = records * run.record_bytes
    late = np.zeros(len(row), bool)
    for limit_ms, limit_bytes in (
        (configs.local_retention_ms, configs.local_retention_bytes),
        (configs.retention_ms, configs.retention_bytes),
    ):
        late |= (limit_ms[row] >= 0) & (age_ms > limit_ms[row])
        late |= (limit_bytes[row] >= 0) & (size > limit_bytes[row])
    return late & ~run.tail.is_open


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
