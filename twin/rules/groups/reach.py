"""How far retention gets in each partition, and which groups of consumers it may overtake soon.

Estimated as in ``twin.rules.groups.runs``, for each partition and not for each group, and never
later: a group that these numbers leave out is not at risk by its own forecast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Bool, Float64, Int64
from twin.rules.groups.moves import GroupMoves
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog

FALLS_OFF_SOON_S: Final = 900
LOSES_SOON_S: Final = 3_600
"""Time for a person to help the consumer, or to raise retention.ms."""


@dataclass(frozen=True)
class Retention:
    """How far retention gets in each partition, by the estimates of ``group_forecasts``."""

    leaders: Leaders
    local: LocalLog
    growth: Growth
    sizes: RecordSizes

    def reach(self, kept_ms: Int64, kept_bytes: Int64, after_s: int) -> Float64:
        """[P] the offset below which records may be deleted by then; NaN if unknown.

        Negative limits delete nothing.
        """
        spare_ms = after_s * 1_000 - kept_ms
        with np.errstate(invalid="ignore"):
            reach = self.end + spare_ms * self.records_per_ms
        if self.is_idle.any():
            # All records of an idle log may be as old as the first.
            if_idle = np.where(spare_ms + self.oldest_ms >= 0, np.inf, -np.inf)
            reach = np.where(self.is_idle, if_idle, reach)
        reach[kept_ms < 0] = -np.inf
        if (kept_bytes >= 0).any():  # few topics have such a limit
            with np.errstate(divide="ignore", invalid="ignore"):
                kept = kept_bytes / self.sizes.bytes_per_record
            by_size = self.end + np.maximum(self.appended, 0) * after_s - kept
            reach = np.fmax(reach, np.where(kept_bytes < 0, -np.inf, by_size))
        return reach

    @cached_property
    def end(self) -> Float64:
        """[P] the log end plus one record, since forecasts are rounded differently."""
        return self.leaders.log_end_offset + np.float64(1)

    @cached_property
    def appended(self) -> Float64:
        """[P] records appended a second."""
        return self.growth.appended_records_per_s

    @cached_property
    def is_idle(self) -> Bool:
        """[P] nothing is written, or next to nothing."""
        return self.appended == 0

    @cached_property
    def oldest_ms(self) -> Float64:
        """[P] age of the first record on the leader's disk."""
        span_ms = self.leaders.values_of(self.local.local_log_span_ms)
        return np.where(span_ms == UNKNOWN, np.nan, np.maximum(span_ms, 1))

    @cached_property
    def records_per_ms(self) -> Float64:
        """[P] records per millisecond on the leader's disk."""
        local_records = self.leaders.log_end_offset - self.leaders.local_log_start_offset
        return local_records / self.oldest_ms


def may_be_overtaken(moves: GroupMoves, retention: Retention, configs: TopicConfigs) -> Bool:
    """[N] a group that goes on at its rate will be where retention may have deleted records."""
    row, offset = moves.row.astype(np.intp), moves.committed_offset
    local_ms = np.where(configs.remote_storage == 1, configs.local_retention_ms, UNKNOWN)
    overtaken = np.zeros(len(row), bool)
    for kept_ms, kept_bytes, soon_s in (
        (local_ms, configs.local_retention_bytes, FALLS_OFF_SOON_S),
        (configs.retention_ms, configs.retention_bytes, LOSES_SOON_S),
    ):
        reach = retention.reach(kept_ms, kept_bytes, soon_s)
        overtaken |= offset + moves.records_per_s * soon_s <= reach[row]
    is_at_end: Bool = (moves.end_offset != UNKNOWN) & (moves.end_offset <= offset)
    return overtaken & ~is_at_end
