"""The high watermark of each partition: the offset up to which its records are committed.

Each leader is asked for it in the round trip of the log ends. A leader that was just elected does
not know it for a moment (OFFSET_NOT_AVAILABLE). Until then the number that it sent to a follower
serves, where a tap sees it; else the lowest log end of the ISR, if all its members answered in this
cycle. Below min ISR there is no such estimate: the high watermark stands still then, whatever the
log ends are.

Source: Partition.maybeIncrementLeaderHW and fetchOffsetForTimestamp, Kafka 4.3.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, count_slots, over_slots
from twin.declarations.declare import gauge, rule
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Array, Bool, Int8, Int64, PartitionTable, column
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.tables.state import LoggedHighWatermarks, Partitions, Replicas

_NEVER: Final = np.int64(1) << 62


class HighWatermarkSource(IntEnum):
    """The source of the number of a high watermark."""

    ISR = 0  # the twin's estimate: the lowest sampled log end of the ISR
    LEADER = 1  # the leader's own


class IsrEnds(
    PartitionTable, kind="isr_ends", api="", on_demand="the lowest stored log end of the ISR"
):
    """[P] where the shortest log of each ISR ends, by the samples of this cycle alone.

    The high watermark is not above it. Followers are compared with it rather than with the leader's
    number, which is read a moment later than their log ends.
    """

    lowest_end_offset: Int64 = column("lowest log end of the members that answered", in_api=False)
    all_answered: Bool = column("every member answered", fill=False, in_api=False)


class HighWatermarks(
    PartitionTable, kind="high_watermark", api="", on_demand="a lookup in stored columns"
):
    """[P] up to where the records of each partition are committed, in this cycle."""

    high_watermark: Int64 = column(
        "first offset that is not committed: the leader's own number, or the lowest log end of the "
        "ISR while a new leader does not know it; unknown where the leader does not answer"
    )
    high_watermark_source: Int8 = column(
        "where the number comes from: isr (the twin's estimate) or leader", enum=HighWatermarkSource
    )


@rule
def isr_ends(replicas: Replicas, roles: Roles, cycle: Cycle) -> IsrEnds:
    """The lowest log end of each ISR; samples of earlier cycles do not count."""
    isr = roles.in_isr & roles.is_assigned
    answered = isr & (replicas.log_end_offset != UNKNOWN)
    answered &= replicas.sampled_at_ms == cycle.observed_at_ms
    ends = over_slots(np.minimum, np.where(answered, replicas.log_end_offset, _NEVER))
    return IsrEnds(np.where(ends == _NEVER, UNKNOWN, ends), ~any_slot(answered != isr))


@rule
def high_watermarks(
    leaders: Leaders,
    ends: IsrEnds,
    roles: Roles,
    min_isr: LeaderMinIsr,
    partitions: Partitions,
    logged: LoggedHighWatermarks,
    cycle: Cycle,
) -> HighWatermarks:
    """The leader's answer, else what it sent to a follower since the cycle before, else the ISR."""
    answered = leaders.sampled_at_ms == cycle.observed_at_ms
    asked = answered & (leaders.high_watermark != UNKNOWN)
    moves = answered & ends.all_answered
    moves &= count_slots(roles.in_isr & roles.is_assigned) >= min_isr.min_isr
    offset = np.where(moves, ends.lowest_end_offset, UNKNOWN)
    source = np.where(offset == UNKNOWN, UNKNOWN, HighWatermarkSource.ISR).astype(np.int8)
    row = logged.row
    holds = (logged.leader == partitions.leader[row]) & (logged.at_ms >= cycle.prev_observed_at_ms)
    holds &= logged.leader_epoch == partitions.leader_epoch[row]
    offset[row[holds]] = logged.offset[holds]
    source[row[holds]] = HighWatermarkSource.LEADER
    return HighWatermarks(
        np.where(asked, leaders.high_watermark, offset),
        np.where(asked, np.int8(HighWatermarkSource.LEADER), source),
    )


@gauge(
    "high_watermark_offset",
    "High watermark of the partition: the leader's own, or the lowest log end of the ISR while a "
    "new leader does not know it; no series where the leader does not answer.",
    level="partition",
)
def high_watermark_offset(watermarks: HighWatermarks) -> Array:
    """The high watermark; no series where it is unknown."""
    return watermarks.high_watermark
