"""Timestamps of first local records, and whether they can be true.

A producer may write any timestamp (CreateTime), so one of them is not the age of a log. Suspect is
what is in the future; older than the log can be, by what the twin has seen of it; older than what
retention leaves, of a tiered topic local retention; of a clock that nobody has set; or dated before
an earlier offset on another replica.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, over_slots
from twin.declarations.declare import gauge, rule
from twin.declarations.signature import Before, Earlier, NowMs
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int64,
    PartitionTable,
    ReplicaTable,
    column,
)
from twin.rules.partitions.leaders import LeaderEnds, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Replicas

PRODUCER_CLOCK_SKEW_MS: Final = 60_000
"""Clocks of producers and brokers may differ by so much before a timestamp is suspected."""

CLOCKS_SET_MS: Final = 978_307_200_000
"""2001: clocks that nobody has set begin in 1970, 1980 or 2000."""

_NEVER: Final = np.uint64(1) << np.uint64(62)

RETENTION_SLACK: Final = 1.1
"""Clocks of producers differ, and segment.jitter.ms adds to segment.ms."""

RETENTION_LATE_MS: Final = 900_000
"""Kafka looks for segments to delete every five minutes, and deletes files a minute later."""


class FirstSeenEnds(PartitionTable, kind="first_seen_ends"):
    """[P] the leader's log end when the twin first saw it."""

    offset: Int64 = column("log end offset")
    at_ms: Int64 = column("when it was sampled")


class FirstTimestamps(
    PartitionTable, kind="first_timestamps", on_demand="of the replicas' stored timestamps"
):
    """[P] the oldest and the newest timestamp with which a local log begins."""

    oldest_ms: Int64 = column("of all replicas; beyond all times where none is known")
    newest_ms: Int64 = column("of all replicas")


class SuspectTimestamps(
    ReplicaTable, kind="suspect_timestamps", api="", on_demand="a comparison of stored columns"
):
    """[P, R] whether the first local timestamp cannot be when its record was written."""

    timestamp_suspect: Bool = column(
        "the first local record is dated in the future, before the log can have existed, by a "
        "clock that nobody has set, so long ago that retention (of what is uploaded local "
        "retention) would have deleted it, or before an earlier record on another replica: "
        "producers wrote the timestamps, or retention does not work; no age is derived from it",
        fill=False,
    )


@rule
def first_seen_ends(previous: Before[LeaderEnds], first: Earlier[FirstSeenEnds]) -> FirstSeenEnds:
    """The log ends of the first cycle that brought them."""
    is_set = first.offset != UNKNOWN
    return FirstSeenEnds(
        offset=np.where(is_set, first.offset, previous.offset),
        at_ms=np.where(is_set, first.at_ms, previous.sampled_at_ms),
    )


@rule
def first_timestamps(replicas: Replicas) -> FirstTimestamps:
    """The bounds by which most partitions are judged as a whole."""
    started = replicas.local_start_timestamp_ms
    # As an unsigned number, UNKNOWN is the highest.
    oldest = over_slots(np.minimum, started.view(np.uint64))
    return FirstTimestamps(
        np.minimum(oldest, _NEVER).astype(np.int64), over_slots(np.maximum, started)
    )


@rule
def suspect_timestamps(
    replicas: Replicas,
    times: FirstTimestamps,
    configs: TopicConfigs,
    first: FirstSeenEnds,
    now_ms: NowMs,
) -> SuspectTimestamps:
    """A timestamp is suspect if it is in the future, or the log cannot have existed for so long.

    A log that begins at or beyond the log end that the twin saw first was written since then. A
    span that reaches back further comes from producers' clocks (CreateTime), e.g. a back-fill; so
    does one of a clock that was never set, and one that retention would have ended. Of two
    replicas whose timestamps contradict each other nobody knows which is right: both are suspect.
    """
    suspect = np.zeros(replicas.local_start_timestamp_ms.shape, bool)
    oldest_ms, newest_ms = times.oldest_ms, times.newest_ms
    is_tiered = configs.remote_storage == 1
    kept_ms = kept_at_most_ms(configs.retention_ms, configs)
    # Of a tiered topic local retention deletes, or retention where copies are disabled.
    local_ms = kept_at_most_ms(configs.local_retention_ms, configs)
    kept_ms = np.where(is_tiered, np.minimum(kept_ms, local_ms), kept_ms)
    # Most partitions have none that is out of these bounds.
    was_written = over_slots(np.maximum, replicas.local_log_start_offset) >= first.offset
    is_open = (oldest_ms < CLOCKS_SET_MS) | (oldest_ms < now_ms - kept_ms)
    is_open |= was_written & (oldest_ms < first.at_ms)
    sampled_ms = over_slots(np.minimum, replicas.sampled_at_ms.view(np.uint64))
    sampled_ms = np.minimum(sampled_ms, _NEVER).astype(np.int64)
    is_open |= newest_ms > sampled_ms + PRODUCER_CLOCK_SKEW_MS
    apart = np.flatnonzero(newest_ms - oldest_ms > tolerated_ms(now_ms - newest_ms))
    started, starts, sampled_ms = (
        values[apart]
        for values in (
            replicas.local_start_timestamp_ms,
            replicas.local_log_start_offset,
            replicas.sampled_at_ms,
        )
    )
    is_open[apart] |= any_slot(contradicted(starts, started, sampled_ms, started != UNKNOWN))
    row = np.flatnonzero(is_open)
    if len(row):
        few, kept_ms = replicas.take(row), kept_ms[row][:, None]
        started, start = few.local_start_timestamp_ms, few.local_log_start_offset
        # What is not uploaded outlives retention.
        waits = (is_tiered & (configs.copies_disabled != 1))[row, None]
        deletes = ~waits | (start <= few.last_tiered_offset)
        odd = cannot_be(few, first.take(row))
        odd |= (few.sampled_at_ms - started > kept_ms) & deletes
        is_empty = (start == few.log_end_offset) & (start != UNKNOWN)
        is_known = (started != UNKNOWN) & ~is_empty
        odd |= contradicted(start, started, few.sampled_at_ms, is_known & ~odd)
        suspect[row] = odd & is_known
    return SuspectTimestamps(suspect)


def cannot_be(replicas: Replicas, first: FirstSeenEnds) -> Bool:
    """[P, R] the first local record was not written at its timestamp, whatever retention does."""
    started, longest_ms = replicas.local_start_timestamp_ms, watched_ms(replicas, first)
    span_ms = replicas.sampled_at_ms - started
    wrong: Bool = (longest_ms != UNKNOWN) & (span_ms > longest_ms)
    wrong |= (span_ms < -PRODUCER_CLOCK_SKEW_MS) | (started < CLOCKS_SET_MS)
    return wrong


def contradicted(start: Int64, started: Int64, sampled_at_ms: Int64, judged: Bool) -> Bool:
    """[N, R] another replica begins at an earlier offset and a later time, or the other way round.

    Args:
        start: [N, R] first offsets on disk.
        started: [N, R] timestamps of their records.
        sampled_at_ms: [N, R] when both were sampled.
        judged: [N, R] timestamps that are compared.
    """
    is_compared = judged & (start != UNKNOWN)
    slack_ms = tolerated_ms(sampled_at_ms - started)
    doubted = np.zeros(start.shape, bool)
    for slot in range(start.shape[1]):
        each = np.s_[:, slot, None]
        wrong = is_compared[each] & is_compared & (start[each] < start)
        wrong &= started[each] - started > slack_ms[each]
        doubted |= wrong
        doubted[:, slot] |= any_slot(wrong)
    return doubted


def tolerated_ms(age_ms: Int64) -> Float64:
    """How much older a later record may be dated: producers are not in step. Any shape."""
    return PRODUCER_CLOCK_SKEW_MS + (RETENTION_SLACK - 1) * np.maximum(age_ms, 0)


def watched_ms(replicas: Replicas, first: FirstSeenEnds) -> Int64:
    """[P, R] the longest time that a local log can span which was written since the twin looks.

    UNKNOWN where its first record may be older.
    """
    start = replicas.local_log_start_offset
    younger = (first.offset != UNKNOWN)[:, None] & (start >= first.offset[:, None])
    longest_ms = replicas.sampled_at_ms - first.at_ms[:, None] + PRODUCER_CLOCK_SKEW_MS
    return np.where(younger, longest_ms, UNKNOWN)


def kept_at_most_ms(retention_ms: Int64, configs: TopicConfigs) -> Float64:
    """[P] age of the oldest record that such a retention leaves in a log; infinite if unknown.

    A segment goes once its largest timestamp is older than retention. All of its records are from
    within segment.ms. Source: UnifiedLog.deleteRetentionMsBreachedSegments and LogSegment
    .shouldRoll, Kafka 4.3.
    """
    is_known = (retention_ms >= 0) & (configs.segment_ms >= 0) & (configs.compacted == 0)
    kept_ms = RETENTION_SLACK * (retention_ms + configs.segment_ms) + RETENTION_LATE_MS
    return np.where(is_known, kept_ms, np.inf)


# ---------------------------------------------------------------- exported


@gauge("timestamp_suspect", "1 if the replica's first local record is dated before it can have "
       "been written, or in the future.", level="replica")  # fmt: skip
def replica_timestamp_suspect(suspect: SuspectTimestamps) -> Array:
    """A 1 for each suspect timestamp; no series for others."""
    return np.where(suspect.timestamp_suspect, 1, UNKNOWN)


@gauge(
    "replicas_timestamp_suspect",
    "Replicas whose first local record is dated before it can have been written, or in the future.",
)
def replicas_timestamp_suspect(suspect: SuspectTimestamps, roles: Roles) -> int:
    """The replicas whose span proves nothing."""
    return int((roles.is_assigned & suspect.timestamp_suspect).sum())
