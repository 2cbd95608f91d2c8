"""A group of consumers that moves towards the log end, and retention that follows it.

The age of a record is estimated: records are assumed to be evenly dense between the first one on
the leader's disk, whose timestamp is known, and the log end. Producers and groups go on at the
rates of now.

Kafka deletes whole segments, each once its last record is older than retention, or once the others
are larger than retention. Where a segment ends is not known, but it takes in no more than
segment.ms and segment.bytes. So a record goes between the time when it reaches the limit itself and
the time when all of a segment that it begins has. The segment that is written stays until it is
closed, which an append does after segment.ms and at segment.bytes, or until all of it is older than
retention.

Source: UnifiedLog.deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments and
deletableSegments, LogSegment.shouldRoll, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Array, Bool, Float64, Int64, Rows
from twin.rules.groups.moves import GroupMoves
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LastAppends, LocalLog
from twin.rules.tiering.tier_states import uploads_at_once
from twin.rules.tiering.warm_up import NEVER

SAME_RATE_S: Final = 60
"""How long a group is taken to go on as it did, while its offsets are not read again."""


@dataclass(frozen=True)
class Run:
    """[N] groups, each in a partition. Times and sizes that are not known are NaN."""

    behind: Float64  # records from the group to the log end, now
    rate: Float64  # records a second that the group reads
    growth: Float64  # records a second that are appended
    ms_per_record: Float64  # how much older a record is than the next one
    oldest_ms: Float64  # age of the first record on disk
    idle_ms: Float64  # time since the last append
    record_bytes: Float64
    held_bytes: Float64  # size of the local log
    tail: Tail

    @staticmethod
    def from_tables(
        moves: GroupMoves, leaders: Leaders, log: LocalLog, configs: TopicConfigs,
        growth: Growth, sizes: RecordSizes, last: LastAppends, now_ms: int,
    ) -> Run:  # fmt: skip
        row = moves.row.astype(np.intp)  # numpy indexes more slowly by another type
        end, local = leaders.log_end_offset[row], leaders.local_log_start_offset[row]
        place = row * log.local_log_span_ms.shape[1] + np.maximum(leaders.slot[row], 0)
        oldest_ms = _or_nan(log.local_log_span_ms.ravel()[place])
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
        record_bytes, appended_at_ms = sizes.bytes_per_record[row], last.at_ms[row]
        begins = _tail_start(row, leaders, configs)
        records = np.where(has_local_log, end - begins, 0)
        return Run(
            behind=np.where(end == UNKNOWN, np.nan, np.maximum(behind, 0)),
            rate=np.where(moves.records_per_s == UNKNOWN, np.nan, rate),
            growth=_or_nan(appended),
            ms_per_record=ms_per_record,
            oldest_ms=oldest_ms,
            idle_ms=np.where(appended_at_ms == UNKNOWN, np.nan, now_ms - appended_at_ms),
            record_bytes=record_bytes,
            held_bytes=_or_nan(leaders.local_log_bytes[row]),
            tail=Tail(
                age_ms=np.where(begins == local, oldest_ms, records * ms_per_record),
                size_bytes=records * record_bytes,
                segment_ms=_or_nan(configs.segment_ms[row]),
                segment_bytes=_or_nan(configs.segment_bytes[row]),
                holds_group=has_local_log & (moves.committed_offset >= begins),
            ),
        )

    def until(self, kept_ms: Array, kept_bytes: Array) -> Float64:
        """[N] seconds until records that the group has not read exceed these limits: the earliest
        time at which they may be deleted.

        Negative limits delete nothing.
        """
        soonest = np.full(len(kept_ms), NEVER)
        if not (kept_ms < 0).all():
            soonest = np.where(kept_ms < 0, NEVER, self._by_age(kept_ms))
        if not (kept_bytes < 0).all():  # few topics have such a limit
            by_ms, by_bytes = soonest, np.where(kept_bytes < 0, NEVER, self._by_size(kept_bytes))
            soonest = np.fmin(by_ms, by_bytes)
            # If one limit is never reached and the other is unknown, the result is unknown.
            unsure = (np.isnan(by_ms) | np.isnan(by_bytes)) & (soonest == NEVER)
            soonest = np.where(unsure, np.nan, soonest)
        is_there_before = (self.rate > self.growth) & (self.catches_up_s <= soonest)
        return np.where(is_there_before, NEVER, soonest)

    def until_at_most(self, kept_ms: Int64, kept_bytes: Int64) -> Float64:
        """[N] seconds until these limits have deleted them for certain; NaN if unknown.

        A record is at most as far from the end of its segment as a segment is long. The records of
        an idle log are as old as the last append at least. But an append would keep them in the
        segment that is written, unless it closes that.
        """
        tail, is_idle = self.tail, self.growth == 0
        closes = (tail.age_ms >= tail.segment_ms) | (self._behind_bytes >= tail.segment_bytes)
        more_ms = np.where(is_idle, np.where(closes, 0.0, np.nan), self.segment_span_ms)
        latest = replace(
            self,
            oldest_ms=np.where(is_idle, self.idle_ms, self.oldest_ms),
            tail=replace(tail, holds_group=np.zeros(len(kept_ms), bool)),
        )
        return latest.until(
            np.where(kept_ms < 0, kept_ms, kept_ms + more_ms),
            np.where(kept_bytes < 0, kept_bytes, kept_bytes + tail.segment_bytes),
        )

    @cached_property
    def segment_span_ms(self) -> Float64:
        """[N] time in which a segment is filled, at most segment.ms."""
        filled_ms = self.tail.segment_bytes / self.record_bytes * self.ms_per_record
        return np.fmin(self.tail.segment_ms, filled_ms)

    @cached_property
    def catches_up_s(self) -> Float64:
        """[N] seconds until the group is at the log end, if it is faster than producers."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.behind / (self.rate - self.growth)

    @cached_property
    def age_ms(self) -> Float64:
        """[N] age of the next record that the group reads, or what is as good for its deletion."""
        is_known = self.tail.is_open & ~np.isnan(self.idle_ms)
        if_idle = np.where(is_known, self.idle_ms, self.oldest_ms)
        return np.where(self.growth == 0, if_idle, self.behind * self.ms_per_record)

    @cached_property
    def younger(self) -> Float64:
        """[N] seconds per second by which that record becomes younger as the group reads."""
        return np.where(self.growth == 0, 0.0, self.rate * self.ms_per_record / 1000)

    @cached_property
    def _closes_s(self) -> Float64:
        """[N] seconds until the segment that holds the group is closed; 0 if it may be now."""
        by_age = self.tail.segment_ms - self.tail.age_ms
        with np.errstate(divide="ignore", invalid="ignore"):
            left = (self.tail.segment_bytes - self.tail.size_bytes) / self.record_bytes
            closes_s = np.fmin(by_age / 1000, left / self.growth)
        return np.where(self.tail.is_open & (self.growth > 0), closes_s, 0.0)

    @cached_property
    def _behind_bytes(self) -> Float64:
        return self.behind * self.record_bytes

    def _by_age(self, kept_ms: Array) -> Float64:
        left_s = np.maximum(kept_ms - self.age_ms, 0) / 1000
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = np.where(self.younger >= 1, NEVER, left_s / (1 - self.younger))
        if not self.tail.is_open.any():
            return seconds
        # The segment that is written ends with a record of now.
        closed_s = np.where(self._closes_s > 0, self._closes_s + kept_ms / 1000, 0.0)
        return np.maximum(seconds, closed_s)

    def _by_size(self, kept_bytes: Array) -> Float64:
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.maximum(kept_bytes / self.record_bytes - self.behind, 0)
            grows = self.growth - self.rate
            seconds = np.where(grows <= 0, NEVER, left / grows)
            fills_s = kept_bytes / self.record_bytes / self.growth
        closed_s = np.where(self._closes_s > 0, self._closes_s + fills_s, 0.0)
        return np.where(np.isnan(left) | np.isnan(grows), np.nan, np.maximum(seconds, closed_s))


@dataclass(frozen=True)
class Tail:
    """[N] the end of each log, which may all be in the segment that is written.

    It is the whole local log where no segment of that is uploaded. Where uploads do not wait, a
    segment is uploaded as soon as it is closed, so it begins after the last uploaded offset.
    """

    age_ms: Float64  # of its first record
    size_bytes: Float64
    segment_ms: Float64
    segment_bytes: Float64
    holds_group: Bool  # the next records of the group are in it

    @cached_property
    def is_open(self) -> Bool:
        """[N] nothing has closed a segment in it, so no segment that holds the group can go."""
        is_young: Bool = (self.age_ms < self.segment_ms) & (self.size_bytes < self.segment_bytes)
        return is_young & self.holds_group


def _tail_start(row: Rows, leaders: Leaders, configs: TopicConfigs) -> Int64:
    """[N] the first offset that may be in the segment that is written; the log end if unknown."""
    local, tiered = leaders.local_log_start_offset[row], leaders.last_tiered_offset[row]
    has_uploads = (configs.remote_storage[row] != 0) & (tiered >= local)
    if not has_uploads.any():
        return local
    is_prompt = ((configs.copies_disabled != 1) & uploads_at_once(configs))[row]
    after_uploads = np.where(is_prompt, tiered + 1, leaders.log_end_offset[row])
    return np.where(has_uploads, after_uploads, local)


def _or_nan(values: Array) -> Float64:
    """[N] the values as numbers, NaN where they are unknown."""
    return np.where(values == UNKNOWN, np.nan, values)
