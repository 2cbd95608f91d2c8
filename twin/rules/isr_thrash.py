"""Replicas that leave the ISR and rejoin it, again and again (KIP-501)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twin import plain
from twin.declare import Alert, api_field, gauge, risk
from twin.rules.isr_shrinks import IsrShrinks
from twin.rules.isr_verdicts import LEADERS_FAULT
from twin.table import NO_BROKER, UNKNOWN, Bool
from twin.tables.state import Partitions

THRASH_SHRINKS: Final = 3
"""A rolling restart takes a replica out once, and perhaps once more when it is repeated."""


@risk(
    "isr_thrash",
    rank=100,
    severity="warn",
    close_after_ms=60_000,
    sentence="replicas leave the ISR and rejoin it, again and again",
    source="KIP-501",
    alert=Alert(
        summary="have an ISR that shrinks and expands again and again",
        description="Replicas of {n} partitions of {cluster} left the ISR three times or more in "
        "ten minutes.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def is_thrashing(shrinks: IsrShrinks, partitions: Partitions) -> Bool:
    """The ISR shrank THRASH_SHRINKS times or more in the window, and some replica rejoined it.

    Replicas that left in one cycle are one shrink.
    """
    row, _ = np.unique(np.stack([shrinks.row, shrinks.at_ms]), axis=1)
    left = np.bincount(row, minlength=len(partitions.leader))
    rejoined = shrinks.pick(shrinks.rejoined_at_ms != UNKNOWN).row_mask(len(left))
    thrashing: Bool = (left >= THRASH_SHRINKS) & rejoined
    return thrashing


# ---------------------------------------------------------------- exported


@gauge("isr_flaps", "Replicas that left an ISR in the last 10 minutes and rejoined it.")
def isr_flaps(shrinks: IsrShrinks) -> int:
    """The shrinks after which the replica rejoined; each counts."""
    return int((shrinks.rejoined_at_ms != UNKNOWN).sum())


@api_field(
    "isr_thrash",
    "where replicas leave the ISR and rejoin it: how often (`flaps`), the mean time between "
    "shrinks (`period_seconds`), and the broker that most shrinks are attributed to "
    "(`attributed_broker`); null where none rejoined",
)
def isr_thrash_field(shrinks: IsrShrinks, partitions: Partitions) -> list[dict[str, Any] | None]:
    """The thrash of each ISR over the last ten minutes."""
    objects: list[dict[str, Any] | None] = [None] * len(partitions.leader)
    for row in np.unique(shrinks.row[shrinks.rejoined_at_ms != UNKNOWN]).tolist():
        mine = shrinks.pick(shrinks.row == row)
        objects[row] = {
            "flaps": int((mine.rejoined_at_ms != UNKNOWN).sum()),
            "period_seconds": plain.finite(period_ms(mine) / 1000),
            "attributed_broker": attributed_broker(mine),
        }
    return objects


def period_ms(shrinks: IsrShrinks) -> float:
    """Mean time between the shrinks of one partition, NaN with fewer than two.

    Replicas that left in one cycle are one shrink.
    """
    at_ms = np.unique(shrinks.at_ms)
    if len(at_ms) < 2:
        return float("nan")
    return float(at_ms[-1] - at_ms[0]) / (len(at_ms) - 1)


def attributed_broker(shrinks: IsrShrinks) -> int:
    """The broker that most of those shrinks are attributed to: a leader at fault, else who left."""
    if not len(shrinks):
        return NO_BROKER
    at_fault = np.isin(shrinks.verdict, LEADERS_FAULT)
    who = np.where(at_fault, shrinks.leader, shrinks.broker)
    brokers, count = np.unique(who, return_counts=True)
    return int(brokers[count.argmax()])
