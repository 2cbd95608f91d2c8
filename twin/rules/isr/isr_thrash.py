"""Replicas that leave the ISR and rejoin it, again and again, while their broker is up (KIP-501).

A replica whose broker is stopped leaves the ISR as well, and so does a leader that hands over. A
rolling restart does that to every replica of a partition, so those shrinks do not count here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Alert, api_field, gauge, risk
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import LEADERS_FAULT, Evidence, Verdict
from twin.tables.state import Partitions

THRASH_SHRINKS: Final = 3
"""A replica that is late once may be late again when it has just caught up."""


@risk(
    "isr_thrash",
    rank=100,
    severity="warn",
    close_after_ms=60_000,
    sentence="a replica leaves the ISR and rejoins it, again and again, though its broker is up",
    source="KIP-501",
    alert=Alert(
        summary="have a replica that leaves the ISR again and again",
        description="In {n} partitions of {cluster} the same replica left the ISR three times or "
        "more in ten minutes, though its broker was up: the leader or the replica is slow.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def is_thrashing(shrinks: IsrShrinks, partitions: Partitions) -> Bool:
    """One replica left the ISR THRASH_SHRINKS times or more in the window, each time alive."""
    slow = shrinks.pick(was_alive(shrinks))
    _, replica, left = np.unique(
        keys.pack(slow.row, slow.broker), return_inverse=True, return_counts=True
    )
    return slow.pick(left[replica] >= THRASH_SHRINKS).row_mask(len(partitions.leader))


def was_alive(shrinks: IsrShrinks) -> Bool:
    """[N] the replica left the ISR though its broker was up, and it did not hand over."""
    handed_over = (shrinks.evidence & np.int32(Evidence.WAS_LEADER)) != 0
    return (shrinks.verdict != Verdict.DEAD_FOLLOWER) & ~handed_over


# ---------------------------------------------------------------- exported


@gauge("isr_flaps", "Replicas that left an ISR in the last 10 minutes and rejoined it.")
def isr_flaps(shrinks: IsrShrinks) -> int:
    """The shrinks after which the replica rejoined; each counts."""
    return int((shrinks.rejoined_at_ms != UNKNOWN).sum())


@api_field(
    "isr_thrash",
    "the replica that left the ISR most often while its broker was up, and rejoined it: `replica`, "
    "how often it came back (`flaps`), the mean time between its shrinks (`period_seconds`), and "
    "the broker that most of them are attributed to (`attributed_broker`); null where none "
    "rejoined",
)
def isr_thrash_field(shrinks: IsrShrinks, partitions: Partitions) -> list[dict[str, Any] | None]:
    """The thrash of each ISR over the last ten minutes."""
    objects: list[dict[str, Any] | None] = [None] * len(partitions.leader)
    slow = shrinks.pick(was_alive(shrinks))
    for row in np.unique(slow.row[slow.rejoined_at_ms != UNKNOWN]).tolist():
        here = slow.pick(slow.row == row)
        brokers, count = np.unique(here.broker, return_counts=True)
        replica = brokers[count.argmax()]
        mine = here.pick(here.broker == replica)
        objects[row] = {
            "replica": int(replica),
            "flaps": int((mine.rejoined_at_ms != UNKNOWN).sum()),
            "period_seconds": plain.finite(period_ms(mine) / 1000),
            "attributed_broker": attributed_broker(mine),
        }
    return objects


def period_ms(shrinks: IsrShrinks) -> float:
    """Mean time between the shrinks of one replica, NaN with fewer than two."""
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
