"""Offsets at which a follower cannot serve a consumer (KIP-392's four cases).

Source: KIP-392, "high watermark propagation" and the cases of its section on out of range errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Final

import numpy as np

from twin.declare import Alert, gauge, risk, rule
from twin.rules.high_watermark import HighWatermarks
from twin.rules.leaders import Leaders, Roles
from twin.table import UNKNOWN, Bool, Int64, ReplicaTable, UInt8, column
from twin.tables.state import Replicas


class OutOfRange(IntFlag):
    """Windows of offsets in which a follower cannot serve a consumer."""

    UNCOMMITTED = 1  # it has the records, and they are not committed yet
    UNAVAILABLE = 2  # committed, and it does not have them yet
    TOO_SMALL = 4  # below its log start, and the leader still has them
    TOO_LARGE = 8  # beyond its log end, and not committed


_REFUSING: Final = np.uint8(OutOfRange.UNAVAILABLE | OutOfRange.TOO_SMALL)
"""A consumer in these windows asks for what is committed. In the others it waits for a moment."""


class OutOfRangeWindows(ReplicaTable, kind="out_of_range", api="out_of_range"):
    """[P, R] the cases in which each follower cannot serve a consumer."""

    out_of_range: UInt8 = column(
        "cases of KIP-392 whose window of offsets is not empty", fill=0, flags=OutOfRange
    )


@rule
def out_of_range(
    replicas: Replicas, roles: Roles, leaders: Leaders, watermarks: HighWatermarks
) -> OutOfRangeWindows:
    """The windows that are not empty, as bits."""
    bits = np.zeros(replicas.log_end_offset.shape, np.uint8)
    for case, (lower, upper) in windows(replicas, roles, leaders, watermarks).items():
        bits |= (upper > lower) * np.uint8(case)
    return OutOfRangeWindows(bits)


def windows(
    replicas: Replicas, roles: Roles, leaders: Leaders, watermarks: HighWatermarks
) -> dict[OutOfRange, tuple[Int64, Int64]]:
    """[P, R] first offset and end of the window of each case, empty (0, 0) where there is none.

    Followers on live brokers only.
    """
    end, start = replicas.log_end_offset, replicas.log_start_offset
    committed = watermarks.high_watermark_estimate[:, None]
    leader_end, leader_start = leaders.log_end_offset[:, None], leaders.log_start_offset[:, None]
    follows = roles.is_assigned & ~roles.is_leader & ~roles.is_offline
    follows &= (end != UNKNOWN) & (committed != UNKNOWN)
    bounds = {
        OutOfRange.UNCOMMITTED: (committed, end),
        OutOfRange.UNAVAILABLE: (end, committed),
        OutOfRange.TOO_SMALL: (leader_start, start),
        OutOfRange.TOO_LARGE: (np.maximum(end, committed), leader_end),
    }
    by_case = {}
    for case, (lower, upper) in bounds.items():
        # An unknown upper end is below everything; an unknown lower one is not.
        holds = follows & (upper > lower) & (lower != UNKNOWN)
        by_case[case] = np.where(holds, lower, 0), np.where(holds, upper, 0)
    return by_case


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
def refuses_consumers(cases: OutOfRangeWindows) -> Bool:
    """A follower lacks committed records that the leader has."""
    refuses: Bool = ((cases.out_of_range & _REFUSING) != 0).any(axis=1)
    return refuses


@gauge(
    "replicas_out_of_range_window",
    "Followers that cannot serve a window of offsets, by the cases of KIP-392.",
    labels=("case",),
)
def replicas_out_of_range_window(cases: OutOfRangeWindows) -> Mapping[tuple[str], int]:
    """One follower may be in several cases."""
    return {
        (str(case.name).lower(),): int(((cases.out_of_range & case) != 0).sum())
        for case in OutOfRange
    }
