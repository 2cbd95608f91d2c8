"""The high watermark of each partition: the offset up to which its records are committed.

No API returns it. The lowest log end of the ISR is an estimate from samples: the leader moves its
high watermark once the slowest member has fetched again, so its own is at most one fetch behind.
Where followers' fetches are known, the answers have the leader's own number.
Source: Partition.maybeIncrementLeaderHW, Kafka 4.3.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from twin.arrays.slots import over_slots
from twin.declarations.declare import gauge, rule
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Array, Int8, Int64, PartitionTable, column
from twin.rules.partitions.leaders import Roles
from twin.tables.state import LoggedHighWatermarks, Partitions, Replicas

_NEVER: Final = np.int64(1) << 62


class HighWatermarkSource(IntEnum):
    """The source of the number of a high watermark."""

    ISR = 0  # the twin's estimate: the lowest sampled log end of the ISR
    LEADER = 1  # the leader's own, as a tap saw it answer a follower since the previous cycle


class HighWatermarks(
    PartitionTable, kind="high_watermark", on_demand="the lowest stored log end of the ISR"
):
    """[P] an estimate of each partition's high watermark, from the samples of one cycle."""

    high_watermark_estimate: Int64 = column(
        "lowest sampled log end of the ISR; the leader's own is at most one fetch behind it"
    )


class ShownHighWatermarks(
    PartitionTable, kind="shown_high_watermark", api="", on_demand="a lookup in stored columns"
):
    """[P] the best that is known of each partition's high watermark, for people.

    Rules judge samples by samples and take the estimate: the leader's own number is of another
    time.
    """

    high_watermark: Int64 = column(
        "first offset that is not committed: the leader's own number where a tap sees its answers, "
        "else the lowest sampled log end of the ISR, at most one fetch ahead of it"
    )
    high_watermark_source: Int8 = column(
        "where the number comes from: isr (the twin's estimate) or leader", enum=HighWatermarkSource
    )


@rule
def high_watermarks(replicas: Replicas, roles: Roles) -> HighWatermarks:
    """The lowest log end of each ISR, unknown where one of them is."""
    isr = roles.in_isr & roles.is_assigned
    ends = over_slots(np.minimum, np.where(isr, replicas.log_end_offset, _NEVER))
    return HighWatermarks(np.where(ends == _NEVER, UNKNOWN, ends))


@rule
def shown_high_watermarks(
    estimate: HighWatermarks,
    partitions: Partitions,
    logged: LoggedHighWatermarks,
    cycle: Cycle,
) -> ShownHighWatermarks:
    """The leader's own number if it answered a follower since the previous cycle, in this epoch."""
    offset = estimate.high_watermark_estimate.copy()
    source = np.where(offset == UNKNOWN, UNKNOWN, HighWatermarkSource.ISR).astype(np.int8)
    row = logged.row
    holds = (logged.leader == partitions.leader[row]) & (logged.at_ms >= cycle.prev_observed_at_ms)
    holds &= logged.leader_epoch == partitions.leader_epoch[row]
    offset[row[holds]] = logged.offset[holds]
    source[row[holds]] = HighWatermarkSource.LEADER
    return ShownHighWatermarks(offset, source)


@gauge(
    "high_watermark_offset",
    "High watermark of the partition: the leader's own where a tap sees its answers, else the "
    "lowest sampled log end of the ISR, which is at most one fetch ahead of it.",
    level="partition",
)
def high_watermark_offset(watermarks: ShownHighWatermarks) -> Array:
    """The high watermark; no series where it is unknown."""
    return watermarks.high_watermark
