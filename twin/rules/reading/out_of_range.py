"""Offsets at which a follower cannot serve a consumer (KIP-392's four cases).

Kafka 4.3.1 (measured) differs from KIP-392, which has OFFSET_NOT_AVAILABLE in both of these cases.
For records that are not committed a follower returns no records and no error. For committed records
that it lacks it returns OFFSET_OUT_OF_RANGE: its high watermark is never above its own log end, so
these look to it like offsets that do not exist. The answer has neither log start nor high
watermark. At exactly its log end a follower returns no records and no error.

Source: KIP-392, "high watermark propagation" and the cases of its section on out of range errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Final

import numpy as np

from twin.arrays.slots import any_slot, in_slots
from twin.declarations.declare import Alert, api_field, gauge, risk, rule
from twin.declarations.signature import Cycle, TableGroup
from twin.declarations.table import UNKNOWN, Bool, Int64, ReplicaTable, UInt8, column
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.reading.selection import LeaderSelectors
from twin.rules.replication.high_watermark import HighWatermarks, IsrEnds
from twin.tables.enums import ReplicaSelector
from twin.tables.state import Assignment, Replicas


class OutOfRange(IntFlag):
    """Windows of offsets in which a follower cannot serve a consumer."""

    UNCOMMITTED = 1  # it has the records, and they are not committed yet
    UNAVAILABLE = 2  # beyond its log end, and committed
    TOO_SMALL = 4  # below its log start, and the leader still has them
    TOO_LARGE = 8  # beyond its log end, and not committed

    @property
    def error(self) -> str | None:
        """The error that a consumer gets there from Kafka 4.3.1; None: no records, no error."""
        return None if self is OutOfRange.UNCOMMITTED else "OFFSET_OUT_OF_RANGE"


_REFUSING: Final = np.uint8(OutOfRange.UNAVAILABLE | OutOfRange.TOO_SMALL)
"""A consumer in these windows asks for what is committed. In the others it waits for a moment."""


@dataclass(frozen=True, slots=True)
class LogOffsets(TableGroup):
    """The offsets of leaders and followers in a cycle."""

    replicas: Replicas
    roles: Roles
    leaders: Leaders
    watermarks: HighWatermarks
    ends: IsrEnds
    cycle: Cycle


class OutOfRangeWindows(ReplicaTable, kind="out_of_range", api="out_of_range"):
    """[P, R] the cases in which each follower cannot serve a consumer."""

    out_of_range: UInt8 = column(
        "cases of KIP-392 whose window of offsets is not empty", fill=0, flags=OutOfRange
    )


@rule
def out_of_range(it: LogOffsets) -> OutOfRangeWindows:
    """The windows that are not empty, as bits."""
    bits = np.zeros(it.replicas.log_end_offset.shape, np.uint8)
    for case, _, _, holds in windows(it):
        bits |= holds * np.uint8(case)
    return OutOfRangeWindows(bits)


def windows(it: LogOffsets) -> Iterator[tuple[OutOfRange, Int64, Int64, Bool]]:
    """The windows of each case: [P, R] first offset and end, and whether it is one.

    Only followers on live brokers that answered in this cycle count, and only where the leader did:
    without one no replica has the records they lack, and an unclean election may cut these off. A
    consumer may also ask for the offset after the leader's last record, where it waits for the next
    one. The leader's high watermark is of a moment after their log ends, so it may be above the end
    of a follower in sync.
    """
    end, start = it.replicas.log_end_offset, it.replicas.log_start_offset
    leaders, lowest_end = it.leaders, it.ends.lowest_end_offset
    committed = it.watermarks.high_watermark
    committed = np.where(lowest_end == UNKNOWN, committed, np.minimum(committed, lowest_end))
    committed, leader_end, leader_start = (
        in_slots(values, end.shape[1])
        for values in (committed, leaders.log_end_offset, leaders.log_start_offset)
    )
    follows = it.roles.is_assigned & ~it.roles.is_leader & ~it.roles.is_offline
    follows &= in_slots(leaders.sampled_at_ms == it.cycle.observed_at_ms, end.shape[1])
    follows &= it.replicas.sampled_at_ms == it.cycle.observed_at_ms
    follows &= (end != UNKNOWN) & (committed != UNKNOWN)
    for case, lower, upper in (
        (OutOfRange.UNCOMMITTED, committed, end),
        (OutOfRange.UNAVAILABLE, end + 1, committed + 1),
        (OutOfRange.TOO_SMALL, leader_start, start),
        (OutOfRange.TOO_LARGE, np.maximum(end, committed) + 1, leader_end + 1),
    ):
        # An unknown upper end is not above any offset; an unknown lower one is below them.
        yield case, lower, upper, follows & (upper > lower) & (lower != UNKNOWN)


@risk(
    "out_of_range_window",
    rank=130,
    severity="info",
    open_after_ms=1,
    close_after_ms=10_000,
    sentence="a consumer that reads from a follower would be refused: its offset is out of range",
    source="KIP-392",
    alert=Alert(
        summary="have followers that would refuse consumers",
        description="A consumer that reads {n} partitions of {cluster} from a follower may be "
        "refused because its offset is out of range; kafka_twin_replicas_out_of_range_window names "
        "the cases.",
        # Windows open for a moment whenever a follower lags.
        wait="5m",
        keep_firing_for="5m",
    ),
)
def refuses_consumers(cases: OutOfRangeWindows, selectors: LeaderSelectors) -> Bool:
    """A follower lacks committed records that the leader has, and consumers may be sent to it.

    With Kafka's default selector no consumer is: all read from the leader.
    """
    refuses: Bool = any_slot((cases.out_of_range & _REFUSING) != 0)
    refuses &= selectors.replica_selector != ReplicaSelector.LEADER
    return refuses


@api_field(
    "out_of_range_windows",
    "offsets (`start_offset` to before `end_offset`) at which the follower on `broker` cannot "
    "serve a consumer, by `case` of KIP-392, and the `error` that Kafka 4.3.1 answers: null is no "
    "error and no records",
)
def out_of_range_windows(assignment: Assignment, it: LogOffsets) -> list[list[dict[str, Any]]]:
    """A list of windows for each partition, in the order of the cases."""
    listed: list[list[dict[str, Any]]] = [[] for _ in assignment.broker]
    for case, *bounds, holds in windows(it):
        lower, upper = (np.broadcast_to(bound, holds.shape) for bound in bounds)
        for row, slot in np.argwhere(holds).tolist():
            window = {
                "broker": int(assignment.broker[row, slot]),
                "case": str(case.name).lower(),
                "start_offset": int(lower[row, slot]),
                "end_offset": int(upper[row, slot]),
                "error": case.error,
            }
            listed[row].append(window)
    return listed


@gauge(
    "replicas_out_of_range_window",
    "Followers that cannot serve a window of offsets, by the cases of KIP-392.",
    labels=("case",),
)
def replicas_out_of_range_window(cases: OutOfRangeWindows) -> Mapping[tuple[str], int]:
    """The followers by case; one may be in several."""
    return {
        (str(case.name).lower(),): int(((cases.out_of_range & case) != 0).sum())
        for case in OutOfRange
    }
