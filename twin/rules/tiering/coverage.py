"""How much of its log a replica holds on its own disk, and whether that is enough to lead.

A replica is *cold* if it would have to read from remote storage what it lacks, and misses every
threshold; else it is *warm*. A replica with its whole log on disk is warm whatever the age of that
log, so partitions that are empty or not tiered have no cold replica. Without a threshold a replica
is neither: *not judged*. Source: KIP-1303, with its open points decided as follows: a threshold
is enabled when positive; equality is enough; a topic's value overrides the broker's; a replica is
assumed warm where a number is unknown. KIP-1303's own rule looks only at the thresholds
(``twin.proposals.kip1303``).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypedDict

import numpy as np

from twin.arrays.alignment import in_present_slots
from twin.arrays.slots import any_slot, in_slots, over_slots, set_slots
from twin.declarations.declare import Alert, Occurrence, api_field, event, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Before, Earlier
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int64,
    PartitionTable,
    ReplicaTable,
    column,
)
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles, assigned_brokers
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.timestamps import FirstSeenEnds, SuspectTimestamps, watched_ms
from twin.tables.state import Assignment, Partitions, Replicas


class Coverage(IntEnum):
    """Whether a replica holds enough local log to lead (KIP-1303)."""

    COLD = 0  # every enabled threshold is known and missed
    WARM = 1
    ASSUMED = 2  # a number it depends on is unknown: eligible by the KIP's rule
    NOT_JUDGED = 3  # no threshold is set: the KIP treats all replicas alike


COVERAGE_WORDS: Final = {
    "cold": "cold",
    "warm": "warm",
    "assumed": "taken as warm",
    "not_judged": "not judged",
}
"""The same for a person: by the command line, the console and Grafana alike."""


class LocalLog(
    ReplicaTable, kind="local_log", api="", on_demand="a difference of stored times and the clock"
):
    """[P, R] what each replica holds on its own disk."""

    local_log_span_ms: Int64 = column(
        "time from its first local record until its last answer; unknown if the timestamp is "
        "suspect"
    )
    held_bytes: Int64 = column("size of its local log, 0 if it is empty")
    is_empty: Bool = column("it is known to hold no record", fill=False, in_api=False)
    covered_ms: Int64 = column(
        "time back to which no record is missing on its disk: as `local_log_span_ms`, for an empty "
        "local log the time since the last append",
        in_api=False,
    )
    is_complete: Int8 = column("it has every record of its log on disk", tri_state=True)


class ReplicaCoverage(ReplicaTable, kind="coverage", api=""):
    """[P, R] whether each replica holds enough local log to lead (KIP-1303)."""

    coverage: Int8 = column(
        "warm: enough local log to lead; cold: too little, so that it would read from remote "
        "storage; assumed: a number is unknown; not_judged: no threshold is set for the topic",
        fill=Coverage.ASSUMED,
        enum=Coverage,
    )


class LastAppends(PartitionTable, kind="last_appends"):
    """[P] when each partition was last seen to grow."""

    at_ms: Int64 = column("first sample with the newest records; unknown if it has not grown yet")


@rule
def local_log(
    replicas: Replicas, configs: TopicConfigs, suspect: SuspectTimestamps, first: FirstSeenEnds,
    last: LastAppends,
) -> LocalLog:  # fmt: skip
    """The span and size of each local log, unknown where the first timestamp or the size is.

    Both are those of its last answer: a replica that is away holds nothing of what is written
    since, and nobody knows what it deletes.

    A suspect timestamp is unknown, too: one odd record says nothing of the others. What was written
    since the twin looks covers no more than that time, which may be less than a threshold.

    An empty local log covers only the time since the last append. That time is unknown for a
    partition that has not grown since the twin first saw it.
    """
    start, end = replicas.local_log_start_offset, replicas.log_end_offset
    started = replicas.local_start_timestamp_ms
    is_unknown = (started == UNKNOWN) | suspect.timestamp_suspect
    age_ms = replicas.sampled_at_ms - started
    span = covered = np.where(is_unknown, UNKNOWN, np.maximum(age_ms, 0))
    is_empty, held_bytes = (end != UNKNOWN) & (start == end), replicas.local_log_bytes
    if suspect.timestamp_suspect.any():
        at_most = watched_ms(replicas, first)
        too_short = (at_most != UNKNOWN) & (at_most < configs.eligible_local_log_ms[:, None])
        covered = np.where(suspect.timestamp_suspect & too_short, at_most, covered)
    if is_empty.any():
        idle = _idle_ms(replicas, configs, first, last)
        covered = np.where(is_empty, idle, covered)
        span, held_bytes = np.where(is_empty, 0, span), np.where(is_empty, 0, held_bytes)
    is_known = (start != UNKNOWN) & (replicas.log_start_offset != UNKNOWN)
    starts_with_log = (start <= replicas.log_start_offset).astype(np.int8)
    is_complete = np.where(is_known, starts_with_log, np.int8(UNKNOWN))
    # Only what is tiered can be missing on disk; before KIP-1272 compacted topics are not.
    is_compacted = (configs.compacted == 1) & (configs.tiered_compacted != 1)
    never_remote = (configs.remote_storage == 0) | is_compacted
    return LocalLog(
        local_log_span_ms=span,
        held_bytes=held_bytes,
        is_empty=is_empty,
        covered_ms=covered,
        is_complete=np.where(in_slots(never_remote, end.shape[1]), np.int8(1), is_complete),
    )


def _idle_ms(
    replicas: Replicas, configs: TopicConfigs, first: FirstSeenEnds, last: LastAppends
) -> Int64:
    """[P, R] time from the last append to each last answer, unknown if the twin has not seen one.

    It is at least as long ago as the twin has watched, which proves a threshold that is reached.
    """
    at_ms, appended_at_ms, seen_at_ms = replicas.sampled_at_ms, last.at_ms, first.at_ms
    since_append = np.maximum(at_ms - appended_at_ms[:, None], 0)
    since_append = np.where((appended_at_ms == UNKNOWN)[:, None], UNKNOWN, since_append)
    watched = at_ms - seen_at_ms[:, None]
    least_ms = configs.eligible_local_log_ms
    is_watched = ((appended_at_ms == UNKNOWN) & (seen_at_ms != UNKNOWN) & (least_ms > 0))[:, None]
    is_watched = is_watched & (watched >= least_ms[:, None])
    return np.where(is_watched, watched, since_append)


@rule
def coverage(local: LocalLog, configs: TopicConfigs) -> ReplicaCoverage:
    """WARM or COLD, ASSUMED if a needed number is unknown, NOT_JUDGED without a threshold.

    Nor is a topic judged that is tiered and compacted (KIP-1272), or diskless (KIP-1150).
    """
    is_on = has_threshold(configs) & (configs.tiered_compacted != 1) & (configs.diskless != 1)
    shape = local.held_bytes.shape
    if not is_on.any():
        return ReplicaCoverage(np.full(shape, Coverage.NOT_JUDGED, np.int8))
    passes, fails = compared(local.covered_ms, local.held_bytes, configs)
    cold = fails & (local.is_complete == 0)
    warm = passes | (local.is_complete == 1)
    decided = np.where(warm, np.int8(Coverage.WARM), np.int8(Coverage.ASSUMED))
    decided[cold] = Coverage.COLD
    decided[~is_on] = Coverage.NOT_JUDGED
    return ReplicaCoverage(decided)


def has_threshold(configs: TopicConfigs) -> Bool:
    """[P] a threshold of KIP-1303 is enabled."""
    return (configs.eligible_local_log_ms > 0) | (configs.eligible_local_log_bytes > 0)


def compared(span_ms: Int64, held_bytes: Int64, configs: TopicConfigs) -> tuple[Bool, Bool]:
    """[P, R] an enabled threshold is known to be reached; every enabled one is known to be missed.

    Args:
        span_ms: [P, R] time that a local log spans.
        held_bytes: [P, R] size of a local log.
        configs: the thresholds.
    """
    passes, fails = np.zeros(span_ms.shape, bool), np.ones(span_ms.shape, bool)
    for each, value in (
        (configs.eligible_local_log_ms, span_ms),
        (configs.eligible_local_log_bytes, held_bytes),
    ):
        if not (each > 0).any():
            continue
        threshold = in_slots(each, value.shape[1])
        is_on = threshold > 0
        is_below = value < threshold
        fails &= ~is_on | (is_below & (value != UNKNOWN))
        passes |= is_on & ~is_below
    return passes, fails


@rule
def last_appends(
    end: LeaderEnds, previous: Before[LeaderEnds], before: Before[LastAppends]
) -> LastAppends:
    """The time of the newest sample that was above the one of the cycle before."""
    is_known = (end.offset != UNKNOWN) & (previous.offset != UNKNOWN)
    grew = is_known & (end.offset > previous.offset)
    return LastAppends(np.where(grew, end.sampled_at_ms, before.at_ms))


def is_cold(coverage: ReplicaCoverage, roles: Roles) -> Bool:
    """[P, R] assigned replicas with too little local log to lead without remote reads."""
    return (coverage.coverage == Coverage.COLD) & roles.is_assigned


# ---------------------------------------------------------------- risks and events


@risk(
    "leader_cold",
    rank=70,
    severity="warn",
    close_after_ms=10_000,
    sentence="the leader is cold: it holds too little local log, and reads older records from "
    "remote storage",
    source="KIP-1303",
    alert=Alert(
        summary="are led by a cold replica",
        description="The leaders of {n} tiered partitions of {cluster} hold less local log than "
        "the threshold: consumers that read older records get them from remote storage.",
        wait="30s",
        keep_firing_for="5m",
    ),
)
def leads_cold(partitions: Partitions, coverage: ReplicaCoverage, leaders: Leaders) -> Bool:
    """The partition's leader is cold."""
    of_leader = leaders.values_of(coverage.coverage)
    return (partitions.leader != NO_BROKER) & (of_leader == Coverage.COLD)


@event("replica_cold", "replica_warm")
def coverage_changed(
    was: Earlier[ReplicaCoverage],
    now: ReplicaCoverage,
    was_assigned: Earlier[Assignment],
    assigned: Assignment,
    was_roles: Earlier[Roles],
    roles: Roles,
    was_described: Earlier[Partitions],
    described: Partitions,
) -> Iterator[Occurrence]:
    """Replicas that became cold, or are no longer cold."""
    now_cold = is_cold(now, roles)
    was_cold = is_cold(was, was_roles)
    if not now_cold.any() and not was_cold.any():
        return
    both = (was_described.described_at_ms != UNKNOWN) & (described.described_at_ms != UNKNOWN)
    brokers = assigned_brokers(assigned, roles)
    before = in_present_slots(
        assigned_brokers(was_assigned, was_roles), brokers, was_cold, fill=False
    )
    rows, slots = set_slots((before != now_cold) & roles.is_assigned)
    is_change = both[rows]
    for row, slot in zip(rows[is_change].tolist(), slots[is_change].tolist(), strict=True):
        broker = int(assigned.broker[row, slot])
        if now_cold[row, slot]:
            text = f"{{p}}: replica {broker} holds too little local log to lead"
            yield Occurrence(text, row, "replica_cold", broker)
        else:
            text = f"{{p}}: replica {broker} holds enough local log to lead"
            yield Occurrence(text, row, "replica_warm", broker)


class LeastLocalLog(TypedDict):
    """The thresholds of KIP-1303 of a topic; null where one is off."""

    local_log_ms: int | None
    local_log_bytes: int | None


# ---------------------------------------------------------------- exported


@api_field(
    "thresholds",
    "thresholds of KIP-1303 that hold for its topic: `local_log_ms` and `local_log_bytes`, each "
    "null if it is off",
)
def thresholds(configs: TopicConfigs) -> list[LeastLocalLog]:
    """The topic's own thresholds, or the cluster-wide ones."""
    return [
        {"local_log_ms": least_ms if least_ms > 0 else None,
         "local_log_bytes": least_bytes if least_bytes > 0 else None}
        for least_ms, least_bytes in zip(
            configs.eligible_local_log_ms.tolist(), configs.eligible_local_log_bytes.tolist(),
            strict=True,
        )
    ]  # fmt: skip


@gauge(
    "local_log_span_seconds",
    "Seconds from the replica's first local record until its last answer.",
    level="replica",
)
def local_log_span_seconds(local: LocalLog) -> Array:
    """The span of each local log, unknown where the first timestamp is."""
    span_ms = local.local_log_span_ms
    return np.where(span_ms == UNKNOWN, np.nan, span_ms / 1000)


@gauge("local_log_bytes", "Size of the replica's local log.", level="replica")
def replica_local_log_bytes(local: LocalLog) -> Array:
    """The size of each local log, unknown where the broker did not report it."""
    return local.held_bytes


@gauge(
    "partitions_leader_cold",
    "Partitions whose leader is cold: it reads records from remote storage, and holds less local "
    "log than the threshold.",
)
def partitions_leader_cold(coverage: ReplicaCoverage, roles: Roles, partitions: Partitions) -> int:
    """Partitions that no listing described are left out."""
    cold = any_slot(is_cold(coverage, roles) & roles.is_leader)
    return int((cold & (partitions.described_at_ms != UNKNOWN)).sum())


@gauge("replicas_coverage_assumed", "Replicas taken as warm because a number is unknown.")
def replicas_coverage_assumed(coverage: ReplicaCoverage, roles: Roles) -> int:
    """The replicas with a threshold, whose span or size is unknown."""
    return int((roles.is_assigned & (coverage.coverage == Coverage.ASSUMED)).sum())


@gauge(
    "replicas_coverage_not_judged",
    "Replicas that are called neither warm nor cold, because no threshold of KIP-1303 is set for "
    "their topic.",
)
def replicas_coverage_not_judged(coverage: ReplicaCoverage, roles: Roles) -> int:
    """The assigned replicas without a threshold."""
    return int((roles.is_assigned & (coverage.coverage == Coverage.NOT_JUDGED)).sum())


@gauge(
    "replicas_local_log_unknown",
    "Replicas of unknown local log size, which all byte totals leave out.",
)
def replicas_local_log_unknown(local: LocalLog, roles: Roles) -> int:
    """The replicas whose brokers did not report a size."""
    return int((roles.is_assigned & (local.held_bytes == UNKNOWN)).sum())


@gauge(
    "cold_replicas",
    "Cold replicas of the broker: they would read records from remote storage, and hold less local "
    "log than the threshold.",
    level="broker",
)
def cold_replicas(coverage: ReplicaCoverage, roles: Roles, assignment: Assignment) -> ByBroker:
    """The cold assigned replicas by broker."""
    return ByBroker(assignment.broker[is_cold(coverage, roles)])


@gauge(
    "local_log_bytes",
    "Size of the local log of the broker's replicas, where it is known.",
    level="broker",
)
def broker_local_log_bytes(local: LocalLog, roles: Roles, assignment: Assignment) -> ByBroker:
    """The bytes by broker, without replicas of unknown size."""
    sized = roles.is_assigned & (local.held_bytes != UNKNOWN)
    return ByBroker(assignment.broker[sized], local.held_bytes[sized])


@gauge(
    "local_log_bytes",
    "Size of the local log of the topic's replicas, where it is known.",
    level="topic",
)
def topic_local_log_bytes(local: LocalLog, roles: Roles) -> Array:
    """The bytes of each partition, without replicas of unknown size."""
    sized = roles.is_assigned & (local.held_bytes != UNKNOWN)
    summed = over_slots(np.add, np.where(sized, local.held_bytes, 0))
    return summed
