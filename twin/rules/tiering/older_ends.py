"""Where a log ended before its retention began.

Records below that offset are older than retention, whatever their timestamps say. Two log ends are
kept, the younger of which takes the place of the other once it is old enough: so the one that is
used is older than retention, and not more than twice as old.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before
from twin.declarations.table import UNKNOWN, Float64, Int64, PartitionTable, column
from twin.rules.partitions.leaders import LeaderEnds
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.timestamps import RETENTION_LATE_MS, RETENTION_SLACK


class OlderEnds(PartitionTable, kind="older_ends"):
    """[P] a log end of each partition that is older than its retention, and the next such one."""

    offset: Int64 = column("log end offset; unknown until the twin has watched for so long")
    at_ms: Int64 = column("when it was sampled")
    next_offset: Int64 = column("a later log end, which takes its place")
    next_at_ms: Int64 = column("when that was sampled")


@rule
def older_ends(end: LeaderEnds, configs: TopicConfigs, before: Before[OlderEnds]) -> OlderEnds:
    """Of a log that became shorter nothing older is known: its offsets are of other records."""
    now_ms = end.sampled_at_ms
    is_known = end.offset != UNKNOWN
    is_shorter = is_known & (end.offset < before.next_offset)
    is_due = is_known & (before.next_at_ms != UNKNOWN)
    is_due &= now_ms - before.next_at_ms > deleted_after_ms(configs)
    begins = is_known & ((before.next_at_ms == UNKNOWN) | is_due | is_shorter)
    if not begins.any():
        return before
    offset = np.where(is_due, before.next_offset, before.offset)
    at_ms = np.where(is_due, before.next_at_ms, before.at_ms)
    return OlderEnds(
        np.where(is_shorter, UNKNOWN, offset),
        np.where(is_shorter, UNKNOWN, at_ms),
        np.where(begins, end.offset, before.next_offset),
        np.where(begins, now_ms, before.next_at_ms),
    )


def deletes_after_ms(configs: TopicConfigs) -> Int64:
    """[P] the retention that deletes from disk: of a tiered topic local retention."""
    is_tiered = configs.remote_storage == 1
    return np.where(is_tiered, configs.local_retention_ms, configs.retention_ms)


def deleted_after_ms(configs: TopicConfigs) -> Float64:
    """[P] age at which a segment of old records is deleted at the latest.

    Infinite without retention in time, where it is unknown, and for compacted logs, which keep
    records in segments that compaction has joined with newer ones.
    """
    kept_ms = deletes_after_ms(configs)
    has_age = (kept_ms >= 0) & (configs.compacted == 0)
    return np.where(has_age, RETENTION_SLACK * kept_ms + RETENTION_LATE_MS, np.inf)
