"""How much of its log a replica holds on its own disk, and whether that is enough to lead.

A replica is *cold* if it holds too little local log, *warm* if it holds enough. Where no threshold
is set, it is neither: *not judged*. Source: KIP-1303, with its open points decided so: a replica is
eligible unless every enabled condition is known and fails; a threshold is enabled when positive;
equality is enough; a topic's value overrides the broker's; unknown is eligible and said to be
assumed; an empty local log is known to hold nothing; a timestamp in the future spans nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypedDict

import numpy as np

from twin.declare import (
    Alert,
    ByBroker,
    Occurrence,
    api_field,
    event,
    gauge,
    hidden,
    risk,
    rule,
)
from twin.rules.alignment import assigned_brokers, in_present_slots
from twin.rules.leaders import LeaderEnds, Leaders, Roles
from twin.rules.topic_configs import TopicConfigs
from twin.signature import Before, Earlier, Latest, NowMs
from twin.slots import any_slot, over_slots
from twin.table import (
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
from twin.tables.state import Assignment, Partitions, Replicas

PRODUCER_CLOCK_SKEW_MS: Final = 60_000
"""Clocks of producers and brokers may differ by so much before a timestamp is suspected."""


class Coverage(IntEnum):
    """Whether a replica holds enough local log to lead (KIP-1303)."""

    COLD = 0  # every enabled threshold is known and missed
    WARM = 1
    ASSUMED = 2  # a number it depends on is unknown: eligible by the KIP's rule
    NOT_JUDGED = 3  # no threshold is set: the KIP treats all replicas alike


class LocalLog(
    ReplicaTable, kind="local_log", api="", on_demand="a difference of stored times and the clock"
):
    """[P, R] what each replica holds on its own disk."""

    local_log_span_ms: Int64 = column("time from its first local record until now")
    held_bytes: Int64 = column("size of its local log, 0 if it is empty")
    is_empty: Bool = column("it is known to hold no record", fill=False, in_api=False)


class ReplicaCoverage(ReplicaTable, kind="coverage", api=""):
    """[P, R] whether each replica holds enough local log to lead (KIP-1303)."""

    coverage: Int8 = column(
        "warm: enough local log to lead; cold: too little; assumed: a number is unknown, which "
        "the KIP treats as eligible; not_judged: no threshold is set for the topic",
        fill=Coverage.ASSUMED,
        enum=Coverage,
    )


class FirstSeenEnds(PartitionTable, kind="first_seen_ends"):
    """[P] the leader's log end when the twin first saw it."""

    offset: Int64 = column("log end offset")
    at_ms: Int64 = column("when it was sampled")


class SuspectTimestamps(
    ReplicaTable, kind="suspect_timestamps", api="", on_demand="a comparison of stored columns"
):
    """[P, R] whether the first local timestamp is older than the local log can be."""

    timestamp_suspect: Bool = column(
        "the span is longer than the log can have existed: producers wrote the timestamps",
        fill=False,
    )


@rule
def local_log(replicas: Replicas, now_ms: NowMs) -> LocalLog:
    """The span and size of each local log, unknown where the first timestamp or the size is."""
    is_empty = (replicas.log_end_offset != UNKNOWN) & (
        replicas.local_log_start_offset == replicas.log_end_offset
    )
    started = replicas.local_start_timestamp_ms
    span = np.where(started == UNKNOWN, UNKNOWN, np.maximum(now_ms - started, 0))
    return LocalLog(
        local_log_span_ms=np.where(is_empty, 0, span),
        held_bytes=np.where(is_empty, 0, replicas.local_log_bytes),
        is_empty=is_empty,
    )


@rule
def coverage(local: LocalLog, configs: TopicConfigs) -> ReplicaCoverage:
    """WARM or COLD, ASSUMED if a needed number is unknown, NOT_JUDGED without a threshold."""
    least_ms = configs.eligible_local_log_ms[:, None]
    least_bytes = configs.eligible_local_log_bytes[:, None]
    shape = local.held_bytes.shape
    if not ((least_ms > 0) | (least_bytes > 0)).any():
        return ReplicaCoverage(np.full(shape, Coverage.NOT_JUDGED, np.int8))
    passes, fails = np.zeros(shape, bool), np.ones(shape, bool)
    for least, value in ((least_ms, local.local_log_span_ms), (least_bytes, local.held_bytes)):
        is_known = value != UNKNOWN
        passes |= (least > 0) & is_known & (value >= least)
        fails &= (least <= 0) | (is_known & (value < least))
    is_on = (least_ms > 0) | (least_bytes > 0)
    decided = np.where(fails, Coverage.COLD, np.where(passes, Coverage.WARM, Coverage.ASSUMED))
    return ReplicaCoverage(np.where(is_on, decided, Coverage.NOT_JUDGED).astype(np.int8))


@rule
def first_seen_ends(previous: Before[LeaderEnds], first: Latest[FirstSeenEnds]) -> FirstSeenEnds:
    """The log ends of the first cycle that brought them."""
    is_set = first.offset != UNKNOWN
    return FirstSeenEnds(
        offset=np.where(is_set, first.offset, previous.offset),
        at_ms=np.where(is_set, first.at_ms, previous.sampled_at_ms),
    )


@rule
def suspect_timestamps(
    local: LocalLog, replicas: Replicas, first: FirstSeenEnds, now_ms: NowMs
) -> SuspectTimestamps:
    """A timestamp is suspect if the log cannot have existed for so long.

    A log that begins at or beyond the log end that the twin saw first was written since then. A
    span that reaches back further comes from producers' clocks (CreateTime), e.g. a back-fill.
    """
    younger = (first.offset != UNKNOWN)[:, None] & (
        replicas.local_log_start_offset >= first.offset[:, None]
    )
    longest_ms = (now_ms - first.at_ms + PRODUCER_CLOCK_SKEW_MS)[:, None]
    return SuspectTimestamps(younger & ~local.is_empty & (local.local_log_span_ms > longest_ms))


def is_cold(coverage: ReplicaCoverage, roles: Roles) -> Bool:
    """[P, R] assigned replicas with too little local log."""
    cold: Bool = (coverage.coverage == Coverage.COLD) & roles.is_assigned
    return cold


# ---------------------------------------------------------------- risks and events


@risk(
    "leader_cold",
    rank=70,
    severity="warn",
    close_after_ms=10_000,
    sentence="the leader holds too little local log",
    source="KIP-1303",
    alert=Alert(
        summary="are led by a cold replica",
        description="The leaders of {n} partitions of {cluster} hold less local log than the "
        "threshold of KIP-1303: their consumers read older records from remote storage.",
        wait="30s",
        keep_firing_for="5m",
    ),
)
def leads_cold(partitions: Partitions, coverage: ReplicaCoverage, leaders: Leaders) -> Bool:
    """The partition's leader is cold."""
    of_leader = leaders.values_of(coverage.coverage)
    cold: Bool = (partitions.leader != NO_BROKER) & (of_leader == Coverage.COLD)
    return cold


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
    """Replicas that became cold, or are no longer."""
    now_cold = is_cold(now, roles)
    was_cold = is_cold(was, was_roles)
    if not now_cold.any() and not was_cold.any():
        return
    both = (was_described.described_at_ms != UNKNOWN) & (described.described_at_ms != UNKNOWN)
    brokers = assigned_brokers(assigned, roles)
    before = in_present_slots(
        assigned_brokers(was_assigned, was_roles), brokers, was_cold, fill=False
    )
    changed = (before != now_cold) & roles.is_assigned & both[:, None]
    for row, slot in np.argwhere(changed).tolist():
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
    "local_log_span_seconds", "Seconds from the replica's first local record until now.",
    level="replica",
)  # fmt: skip
def local_log_span_seconds(local: LocalLog) -> Array:
    """The span of each local log, unknown where the first timestamp is."""
    span_ms = local.local_log_span_ms
    return np.where(span_ms == UNKNOWN, np.nan, span_ms / 1000)


@gauge("local_log_bytes", "Size of the replica's local log.", level="replica")
def replica_local_log_bytes(local: LocalLog) -> Array:
    """The size of each local log, unknown where the broker did not report it."""
    return local.held_bytes


@gauge("timestamp_suspect", "1 if the replica's first local record is dated before it can have "
       "been written.", level="replica")  # fmt: skip
def replica_timestamp_suspect(suspect: SuspectTimestamps) -> Array:
    """A 1 for each suspect timestamp; no series for others."""
    return np.where(suspect.timestamp_suspect, 1, UNKNOWN)


@gauge(
    "election_eligible",
    "1 unless the replica is known to hold too little local log to lead (KIP-1303); no series "
    "where no threshold is set.",
    level="replica",
)
def election_eligible(coverage: ReplicaCoverage) -> Array:
    """A replica of assumed coverage is eligible."""
    eligible = np.where(coverage.coverage != Coverage.COLD, 1, 0)
    return hidden(eligible, coverage.coverage == Coverage.NOT_JUDGED)


@gauge("partitions_leader_cold", "Partitions whose leader holds too little local log (KIP-1303).")
def partitions_leader_cold(coverage: ReplicaCoverage, roles: Roles, partitions: Partitions) -> int:
    """Partitions that no listing described are left out."""
    cold = any_slot(is_cold(coverage, roles) & roles.is_leader)
    return int((cold & (partitions.described_at_ms != UNKNOWN)).sum())


@gauge("replicas_coverage_assumed", "Replicas taken as eligible because a number is unknown.")
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
    "replicas_timestamp_suspect",
    "Replicas whose first local record is dated before it can have been written.",
)
def replicas_timestamp_suspect(suspect: SuspectTimestamps, roles: Roles) -> int:
    """The replicas whose span proves nothing."""
    return int((roles.is_assigned & suspect.timestamp_suspect).sum())


@gauge(
    "cold_replicas",
    "Replicas of the broker with too little local log to lead (KIP-1303).",
    level="broker",
)
def cold_replicas(coverage: ReplicaCoverage, roles: Roles, assignment: Assignment) -> ByBroker:
    """The cold assigned replicas by broker."""
    return ByBroker(assignment.broker[is_cold(coverage, roles)])


@gauge(
    "local_log_bytes", "Size of the local log of the broker's replicas, where it is known.",
    level="broker",
)  # fmt: skip
def broker_local_log_bytes(local: LocalLog, roles: Roles, assignment: Assignment) -> ByBroker:
    """The bytes by broker, without replicas of unknown size."""
    sized = roles.is_assigned & (local.held_bytes != UNKNOWN)
    return ByBroker(assignment.broker[sized], local.held_bytes[sized])


@gauge(
    "local_log_bytes", "Size of the local log of the topic's replicas, where it is known.",
    level="topic",
)  # fmt: skip
def topic_local_log_bytes(local: LocalLog, roles: Roles) -> Array:
    """The bytes of each partition, without replicas of unknown size."""
    sized = roles.is_assigned & (local.held_bytes != UNKNOWN)
    summed = over_slots(np.add, np.where(sized, local.held_bytes, 0))
    return summed
