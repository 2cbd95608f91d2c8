"""How fast uploads of a partition have advanced lately, where they are late.

Uploads go segment by segment, so their rate is taken over at least the time in which one is
written, and over a minute.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle, Lazy
from twin.declarations.table import UNKNOWN, Float64, Int64, PartitionTable, column
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.tier_states import remote_ends

LEAST_MS: Final = 60_000
"""A sample replaces the one before it no earlier."""


class UploadSamples(PartitionTable, kind="upload_samples"):
    """[P] two earlier samples of where remote storage ends; unknown where nothing is tiered."""

    older_offset: Int64 = column("end of remote storage at the older sample")
    older_at_ms: Int64 = column("when that was")
    newer_offset: Int64 = column("end of remote storage at the newer sample")
    newer_at_ms: Int64 = column("when that was")

    def records_per_s(self, leaders: Leaders) -> Float64:
        """[P] records uploaded a second since the older sample; NaN before there are two."""
        count = len(self.older_offset)
        end, rate = remote_ends(leaders, np.arange(count)), np.full(count, np.nan)
        is_known = (self.older_offset != UNKNOWN) & (end != UNKNOWN)
        is_known &= leaders.sampled_at_ms > self.older_at_ms
        elapsed_ms = leaders.sampled_at_ms[is_known] - self.older_at_ms[is_known]
        uploaded = np.maximum(end[is_known] - self.older_offset[is_known], 0)
        rate[is_known] = uploaded * 1_000 / elapsed_ms
        return rate


@rule
def upload_samples(
    before: Before[UploadSamples],
    leaders: Leaders,
    configs: TopicConfigs,
    growth: Growth,
    sizes: Lazy[RecordSizes],
    cycle: Cycle,
) -> UploadSamples:
    """The newer sample becomes the older one when a segment's time has passed since it."""
    tiered = np.flatnonzero(configs.remote_storage == 1)
    now_ms, newer_at_ms = cycle.observed_at_ms, before.newer_at_ms[tiered]
    since_ms = np.where(newer_at_ms == UNKNOWN, LEAST_MS, now_ms - newer_at_ms)
    row = tiered[since_ms >= LEAST_MS]
    if not len(row):
        return before
    takes_s = segment_time_s(row, configs, growth, sizes())
    is_due = since_ms[since_ms >= LEAST_MS] >= np.nan_to_num(takes_s, posinf=0) * 1_000
    is_due |= before.newer_at_ms[row] == UNKNOWN
    row = row[is_due]
    if not len(row):
        return before
    older, older_at_ms = before.older_offset.copy(), before.older_at_ms.copy()
    newer, newer_at_ms = before.newer_offset.copy(), before.newer_at_ms.copy()
    older[row], older_at_ms[row] = newer[row], newer_at_ms[row]
    newer[row], newer_at_ms[row] = remote_ends(leaders, row), now_ms
    return UploadSamples(older, older_at_ms, newer, newer_at_ms)


def segment_time_s(
    row: Int64 | slice, configs: TopicConfigs, growth: Growth, sizes: RecordSizes
) -> Float64:
    """[N] how long a segment of those partitions is written; inf without a limit that is known."""
    age_ms, size = configs.segment_ms[row], configs.segment_bytes[row]
    written = growth.appended_records_per_s[row] * sizes.bytes_per_record[row]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_size = np.where((size > 0) & (written > 0), size / written, np.inf)
    by_age = np.where(age_ms > 0, age_ms / 1_000, np.inf)
    return np.minimum(by_age, by_size)
