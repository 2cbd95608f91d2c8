"""Local logs that are larger or older than their retention leaves them.

Kafka deletes a segment once its largest timestamp is older than retention.ms, or while the others
are larger than retention.bytes; of a tiered topic by local retention, and only what is uploaded. A
log that keeps more has a reason that no API tells: a timestamp in the future, a failed move between
disks, a dead cleaner thread.

Three things tell that a log is too old: the timestamp of its first record, if it can be true; the
time for which the twin has seen that record in the log; and a timestamp in the future, since Kafka
keeps the segment until then. A replica that does not answer is judged at its last sample, since
nothing is known of its log after that.

Source: UnifiedLog.deleteOldSegments and isSegmentEligibleForDeletion, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.arrays.slots import any_slot, over_slots
from twin.declarations.declare import Alert, OfRows, gauge, risk, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Bool, Float64, Int64, ReplicaTable, column
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.timestamps import (
    RETENTION_SLACK,
    FirstSeenEnds,
    cannot_be,
    first_timestamps,
    kept_at_most_ms,
)
from twin.rules.tiering.upload import UploadLag
from twin.tables.state import Replicas


class Overdue(
    ReplicaTable, kind="overdue", api="", on_demand="stored sizes, held against settings"
):
    """[P, R] what each replica keeps on disk that its retention does not leave it."""

    overdue_bytes: Float64 = column(
        "bytes on disk beyond retention, where a limit in bytes is set", fill=0.0
    )
    is_overdue: Bool = column("its local log is larger or older than retention leaves it",
                              fill=False)  # fmt: skip


@rule
def overdue(
    replicas: Replicas,
    roles: Roles,
    local: LocalLog,
    configs: TopicConfigs,
    states: TierStates,
    lag: UploadLag,
    first: FirstSeenEnds,
    now_ms: NowMs,
) -> Overdue:
    """Segments that are not uploaded do not count, nor does the one that is written.

    Not judged: compacted topics, and tiered ones of which it is unknown what is uploaded.
    """
    is_tiered = configs.remote_storage == 1
    kept_ms = np.where(is_tiered, configs.local_retention_ms, configs.retention_ms)
    kept_bytes = np.where(is_tiered, configs.local_retention_bytes, configs.retention_bytes)
    oldest_ms, newest_ms = first_timestamps(replicas)
    most_bytes = over_slots(np.maximum, local.held_bytes)
    allowed_ms, allowed_bytes = kept_at_most_ms(kept_ms, configs), _kept_bytes(kept_bytes, configs)
    beyond = np.zeros(replicas.log_end_offset.shape)
    too_old = np.zeros(replicas.log_end_offset.shape, bool)
    # Most partitions have no replica that is older or larger than that.
    may_be = (now_ms - oldest_ms > allowed_ms) | (most_bytes > allowed_bytes)
    may_be |= newest_ms - now_ms > allowed_ms - kept_ms
    seen_ms = np.where(first.offset != UNKNOWN, now_ms - first.at_ms, 0)
    was_there = np.flatnonzero(seen_ms > allowed_ms)
    may_be[was_there] |= any_slot(
        replicas.local_log_start_offset[was_there] < first.offset[was_there, None]
    )
    row = np.flatnonzero(may_be & (configs.compacted == 0))
    if not len(row):
        return Overdue(beyond, too_old)
    few, first = replicas.take(row), first.take(row)
    waits = (is_tiered & (states.tier_state != TierState.COPIES_DISABLED))[row, None]
    assigned, held = roles.is_assigned[row], local.held_bytes[row].astype(np.float64)
    # What waits for its upload is on disk however old or large that is.
    waiting = np.where(waits, lag.upload_lag_bytes[row, None], 0.0)
    more = np.nan_to_num(np.maximum(held - waiting - allowed_bytes[row, None], 0.0))
    beyond[row] = np.where(assigned, more, 0.0)
    started, start = few.local_start_timestamp_ms, few.local_log_start_offset
    at_ms, most_ms = few.sampled_at_ms, allowed_ms[row, None]
    old = (at_ms - started > most_ms) & ~cannot_be(few, first)
    old |= (at_ms - first.at_ms[:, None] > most_ms) & (start < first.offset[:, None])
    old |= started - at_ms > (allowed_ms - kept_ms)[row, None]
    old &= assigned & ~local.is_empty[row] & (start != UNKNOWN)
    old &= ~waits | (start <= few.last_tiered_offset)
    too_old[row] = old
    return Overdue(beyond, too_old | (beyond > 0))


def _kept_bytes(kept_bytes: Int64, configs: TopicConfigs) -> Float64:
    """[P] size of a log that such a retention leaves; infinite if unknown."""
    is_known = (kept_bytes >= 0) & (configs.segment_bytes >= 0)
    return np.where(is_known, RETENTION_SLACK * (kept_bytes + configs.segment_bytes), np.inf)


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
