"""Local logs that are larger or older than their retention leaves them.

Kafka deletes a segment once its largest timestamp is older than retention.ms, or while the others
are larger than retention.bytes; of a tiered topic by local retention, and only what is uploaded. A
log that keeps more has a reason that no API tells: a timestamp in the future, a failed move between
disks, a dead cleaner thread.

Source: UnifiedLog.deleteOldSegments and isSegmentEligibleForDeletion, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.arrays.slots import any_slot, over_slots
from twin.declarations.declare import Alert, OfRows, gauge, risk, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Bool, Float64, ReplicaTable, column
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import (
    RETENTION_SLACK,
    FirstSeenEnds,
    LocalLog,
    cannot_be,
    kept_at_most_ms,
)
from twin.rules.tiering.tier_states import TierState, TierStates
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
    waits = is_tiered & (states.tier_state != TierState.COPIES_DISABLED)
    waiting = np.where(waits, lag.upload_lag_bytes, 0.0)[:, None]
    judged = roles.is_assigned & (configs.compacted == 0)[:, None]

    limit = np.where(
        (kept_bytes >= 0) & (configs.segment_bytes >= 0),
        RETENTION_SLACK * (kept_bytes + configs.segment_bytes), np.inf,
    )[:, None]  # fmt: skip
    held = np.where(local.held_bytes == UNKNOWN, np.nan, local.held_bytes)
    with np.errstate(invalid="ignore"):
        beyond = np.where(judged, np.nan_to_num(np.maximum(held - waiting - limit, 0.0)), 0.0)

    started, start = replicas.local_start_timestamp_ms, replicas.local_log_start_offset
    is_uploaded = ~waits[:, None] | ((start != UNKNOWN) & (start <= replicas.last_tiered_offset))
    too_old = now_ms - started > kept_at_most_ms(kept_ms, configs)[:, None]
    too_old &= (started != UNKNOWN) & is_uploaded & ~local.is_empty
    too_old &= ~cannot_be(replicas, first, now_ms)
    return Overdue(beyond, (beyond > 0) | (judged & too_old))


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
