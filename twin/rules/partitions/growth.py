"""How fast a log grows, and how large its records are.

Samples of two cycles give a rate; a moving average evens out bursts, so a rate that is quoted as
"now" is that of the last few cycles.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import gauge, rule
from twin.declarations.signature import Before
from twin.declarations.table import UNKNOWN, Array, Float64, PartitionTable, column
from twin.rules.partitions.leaders import LeaderEnds, Leaders

WEIGHT: Final = 0.3
"""Weight of the newest interval: the last five make up 5/6 of the average."""

IDLE_RECORDS_PER_S: Final = 1 / 3_600
"""A lower average is 0. It halves in two intervals without a record and would never get to 0; below
a record an hour it says only how long ago the last record was, not how fast records come."""


class Growth(PartitionTable, kind="growth", api=""):
    """[P] how fast each partition is written."""

    appended_records_per_s: Float64 = column("records appended a second, a moving average")


class RecordSizes(
    PartitionTable, kind="record_sizes", on_demand="a quotient of the leader's stored sizes"
):
    """[P] the size of a record on the leader's disk."""

    bytes_per_record: Float64 = column("mean size; NaN if unknown", fill=float("nan"))


@rule
def growth(end: LeaderEnds, previous: Before[LeaderEnds], average: Before[Growth]) -> Growth:
    """The average changes when two samples of the same log give a rate."""
    measured = (end.offset != UNKNOWN) & (previous.offset != UNKNOWN)
    measured &= (end.sampled_at_ms > previous.sampled_at_ms) & (end.offset >= previous.offset)
    elapsed_s = np.where(measured, end.sampled_at_ms - previous.sampled_at_ms, 1) / 1000
    rate = np.where(measured, end.offset - previous.offset, 0) / elapsed_s
    old = average.appended_records_per_s
    return Growth(np.where(measured, moving_average(old, rate), old))


def moving_average(average: Float64, rate: Float64) -> Float64:
    """[N] the average in records per second with the newest interval; 0 if it is negligible.

    ``average``: [N] of the intervals before, UNKNOWN if there are none. ``rate``: [N] records a
    second of the newest interval.
    """
    moved = np.where(average == UNKNOWN, rate, average + WEIGHT * (rate - average))
    return np.where(moved < IDLE_RECORDS_PER_S, 0.0, moved)


@rule
def record_sizes(leaders: Leaders) -> RecordSizes:
    """The mean size of records in the leader's local log; NaN if that is empty or unknown."""
    records = leaders.log_end_offset - leaders.local_log_start_offset
    size = leaders.local_log_bytes
    has_records = (size > 0) & (records > 0) & (leaders.local_log_start_offset != UNKNOWN)
    return RecordSizes(np.where(has_records, size / np.where(has_records, records, 1), np.nan))


@gauge(
    "appended_records_per_second",
    "Records appended to the partition a second, a moving average.",
    level="partition",
)
def appended_records_per_second(growth: Growth) -> Array:
    """The rate of each partition, unknown before two samples."""
    rate = growth.appended_records_per_s
    return np.where(rate == UNKNOWN, np.nan, rate)
