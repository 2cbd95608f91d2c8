"""Progress of replicas that catch up: how far they are, and when they can lead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Alert, api_field, gauge, risk, rule
from twin.declarations.results import OfReplicas
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Bool, Float64, Int32, SparseTable, column
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.replication.catching_up import CatchingUp, StuckReason
from twin.rules.tiering.bootstrap import BootstrapPath
from twin.rules.tiering.coverage import Coverage, LastAppends, LocalLog, coverage, local_log
from twin.rules.tiering.timestamps import FirstSeenEnds, SuspectTimestamps
from twin.rules.tiering.warm_up import NEVER, warm_up
from twin.tables.state import Assignment, Partitions, PendingUploadLookups, Replicas

LATE_AFTER_MS: Final = 60_000
LATE_LEFT_S: Final = 3_600.0
"""A replica that still needs an hour after a minute of copying is worth a look at its throttle."""


class CatchUpEstimates(
    SparseTable, kind="catch_up_estimates", on_demand="a function of catching_up and growth"
):
    """[N] how far each replica that catches up is, in the order of catching_up."""

    slot: Int32 = column("replica slot")
    progress: Float64 = column("share of what it has to copy that it has; NaN if unknown")
    seconds_left: Float64 = column("until it has caught up; inf if it falls behind, NaN if unknown")


class LeadEstimates(
    SparseTable, kind="lead_estimates", on_demand="a function of catching_up and thresholds"
):
    """[N] when each replica that catches up can lead, in the order of catching_up."""

    seconds_to_lead: Float64 = column(
        "until it is in sync and holds enough local log; inf for never, NaN if unknown"
    )


@rule
def catch_up_estimates(
    rows: CatchingUp, assignment: Assignment, leaders: Leaders, growth: Growth
) -> CatchUpEstimates:
    """Estimates from the offset that the leader has reached, and from the rates of both."""
    goal = leaders.log_end_offset[rows.row]
    has_goal = (goal != UNKNOWN) & (rows.end_offset != UNKNOWN)
    has_progress = has_goal & (rows.start_offset != UNKNOWN)
    whole = np.maximum(goal - rows.start_offset, 1)
    progress = np.clip((rows.end_offset - rows.start_offset) / whole, 0, 1)
    missing = np.maximum(goal - rows.end_offset, 0)
    # Records that are written meanwhile have to be copied as well.
    gain = rows.records_per_s - np.maximum(growth.appended_records_per_s[rows.row], 0)
    seconds = np.where(gain > 0, missing / np.where(gain > 0, gain, 1), np.inf)
    left = np.where(missing == 0, 0.0, seconds)
    return CatchUpEstimates(
        row=rows.row,
        slot=(assignment.broker[rows.row] == rows.broker[:, None]).argmax(axis=1).astype(np.int32),
        progress=np.where(has_progress, progress, np.nan),
        seconds_left=np.where(has_goal & (rows.records_per_s != UNKNOWN), left, np.nan),
    )


@rule
def lead_estimates(
    rows: CatchingUp,
    estimates: CatchUpEstimates,
    local: LocalLog,
    replicas: Replicas,
    roles: Roles,
    leaders: Leaders,
    growth: Growth,
    sizes: RecordSizes,
    configs: TopicConfigs,
    suspect: SuspectTimestamps,
    first: FirstSeenEnds,
    last: LastAppends,
    now_ms: NowMs,
) -> LeadEstimates:
    """The time until each replica has caught up and holds enough local log to lead.

    The bytes still to copy count as local log, since the replica holds them once it has caught up.
    After that, its local log grows as its partition does.
    """
    if not len(rows):
        return LeadEstimates.empty()
    place = rows.row, estimates.slot
    end, log_bytes = replicas.log_end_offset.copy(), local.held_bytes.copy()
    end[place] = np.maximum(end[place], leaders.log_end_offset[rows.row])
    missing_bytes = (end[place] - rows.end_offset) * sizes.bytes_per_record[rows.row]
    missing_bytes = np.where(end[place] == rows.end_offset, 0.0, missing_bytes)
    has_bytes = (log_bytes[place] != UNKNOWN) & ~np.isnan(missing_bytes)
    log_bytes[place] = np.where(has_bytes, log_bytes[place] + missing_bytes, UNKNOWN)
    caught_up = replace(replicas, log_end_offset=end, local_log_bytes=log_bytes)
    then = local_log(caught_up, configs, suspect, first, last)
    covered = coverage(then, configs)
    soon = warm_up(covered, roles, then, configs, growth, sizes, caught_up, now_ms)
    warm = soon.warm_in_s[place]
    warm = np.where(covered.coverage[place] == Coverage.COLD, warm, 0.0)  # all others may lead
    left = np.where(warm == NEVER, NEVER, np.maximum(estimates.seconds_left, warm))
    return LeadEstimates(rows.row, left)


# ---------------------------------------------------------------- risks


@risk(
    "bootstrap_late",
    rank=140,
    severity="warn",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="a replica takes longer to catch up than it should",
    source="KIP-1023",
    alert=Alert(
        summary="wait long for a replica that catches up",
        description="A replica of {n} partitions of {cluster} needs more than an hour to catch up, "
        "or falls behind.",
        wait="5m",
        keep_firing_for="5m",
    ),
)
def is_late(
    rows: CatchingUp, estimates: CatchUpEstimates, partitions: Partitions, now_ms: NowMs
) -> Bool:
    """A replica moves, but needs longer than LATE_LEFT_S, or never catches up."""
    slow = (now_ms - rows.since_ms >= LATE_AFTER_MS) & (estimates.seconds_left > LATE_LEFT_S)
    return rows.pick(slow & (rows.stuck == UNKNOWN)).row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge(
    "catch_up_progress_ratio",
    "Share of the records to copy that a replica that catches up has copied.",
    level="replica",
)
def catch_up_progress_ratio(estimates: CatchUpEstimates) -> OfReplicas:
    """The progress of each replica, NaN where it is unknown."""
    return OfReplicas(estimates.row, estimates.slot, estimates.progress)


@gauge(
    "catch_up_time_left_seconds",
    "Seconds until the replica has caught up; +Inf if it falls behind.",
    level="replica",
)
def catch_up_time_left(estimates: CatchUpEstimates) -> OfReplicas:
    """The time left of each replica, NaN before it has a rate."""
    return OfReplicas(estimates.row, estimates.slot, estimates.seconds_left)


@gauge(
    "catch_up_time_to_lead_seconds",
    "Seconds until the replica is in sync and holds enough local log to lead; +Inf for never.",
    level="replica",
)
def catch_up_time_to_lead(estimates: CatchUpEstimates, lead: LeadEstimates) -> OfReplicas:
    """The time until each replica can lead, NaN where it is unknown."""
    return OfReplicas(estimates.row, estimates.slot, lead.seconds_to_lead)


@gauge(
    "catch_up_records_per_second",
    "Records a second that a replica that catches up copies, a moving average.",
    level="replica",
)
def catch_up_records_per_second(rows: CatchingUp, estimates: CatchUpEstimates) -> OfReplicas:
    """The rate of each replica, unknown before two samples."""
    rate = np.where(rows.records_per_s < 0, np.nan, rows.records_per_s)
    return OfReplicas(rows.row, estimates.slot, rate)


@gauge("catch_up_stuck", "1 for a replica that should catch up and does not move.", level="replica")
def catch_up_stuck(rows: CatchingUp, estimates: CatchUpEstimates) -> OfReplicas:
    """A 1 for each replica that is stuck; no series for those that move."""
    stuck = rows.stuck != UNKNOWN
    return OfReplicas(rows.row[stuck], estimates.slot[stuck], np.ones(int(stuck.sum()), np.int64))


@api_field(
    "catching_up",
    "replicas on their way into the ISR: `broker`, `since_ms`, `path` and `start_offset` where it "
    "started, `progress` (share), `records_per_s`, `seconds_left` until it has caught up, "
    "`seconds_to_lead` until it holds enough local log as well, `stuck` (a reason, null while it "
    "moves), `pending_upload_lookup` with the tap: its last question for the earliest pending "
    "upload offset (`at_ms`, `leader`, `pending_upload_offset`, `error_code`, `request_count`)",
)
def catching_up_field(
    rows: CatchingUp,
    estimates: CatchUpEstimates,
    lead: LeadEstimates,
    lookups: PendingUploadLookups,
    partitions: Partitions,
) -> list[list[dict[str, Any]]]:
    """A list of replicas that catch up for each partition."""
    place = keys.find(keys.pack(lookups.row, lookups.broker), keys.pack(rows.row, rows.broker))
    objects = (
        {
            "broker": int(rows.broker[i]),
            "since_ms": int(rows.since_ms[i]),
            "path": plain.name(BootstrapPath, rows.path[i]),
            "start_offset": plain.integer(rows.start_offset[i]),
            "progress": plain.finite(estimates.progress[i]),
            "records_per_s": plain.finite(rows.records_per_s[i]),
            "seconds_left": plain.finite(estimates.seconds_left[i]),
            "seconds_to_lead": plain.finite(lead.seconds_to_lead[i]),
            "stuck": plain.name(StuckReason, rows.stuck[i]),
            "pending_upload_lookup": _lookup(lookups, int(place[i])),
        }
        for i in range(len(rows))
    )
    return plain.by_partition(rows.row, objects, len(partitions.leader))


def _lookup(lookups: PendingUploadLookups, at: int) -> dict[str, Any] | None:
    if at == UNKNOWN:
        return None
    return {
        "at_ms": int(lookups.at_ms[at]),
        "leader": int(lookups.leader[at]),
        "pending_upload_offset": plain.integer(lookups.pending_upload_offset[at]),
        "error_code": int(lookups.error_code[at]),
        "request_count": int(lookups.request_count[at]),
    }
