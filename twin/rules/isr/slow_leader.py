"""Leaders that were too slow for their followers, and what is exported of shrinks of the ISR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from twin.arrays import plain
from twin.declarations.declare import Alert, api_field, gauge, risk
from twin.declarations.results import ByBroker, OfRows
from twin.declarations.signature import Cycle
from twin.declarations.table import NO_BROKER, Bool
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import LEADERS_FAULT, SENTENCE, Evidence, Verdict
from twin.tables.state import Partitions

SUSPECTED_MS: Final = 300_000
"""How long after a shrink its leader is called slow."""


@risk(
    "slow_leader",
    rank=90,
    severity="warn",
    open_after_ms=6_000,  # the next cycle shows whether the follower was being stopped
    close_after_ms=60_000,
    sentence="followers left the ISR because the leader was slow",
    source="KIP-501",
    alert=Alert(
        summary="have a leader that was too slow for its followers",
        description="Followers of {n} partitions of {cluster} left the ISR because the leader "
        "worked slowly or stood still (KIP-501).",
        # The twin remembers a shrink for five minutes; it is over before anybody looks.
        wait="0s",
        keep_firing_for="5m",
    ),
)
def has_slow_leader(shrinks: IsrShrinks, partitions: Partitions, cycle: Cycle) -> Bool:
    """Followers left the ISR recently, and the verdict blames their leader."""
    fault = np.isin(shrinks.verdict, LEADERS_FAULT)
    recent = cycle.observed_at_ms - shrinks.at_ms <= SUSPECTED_MS
    return shrinks.pick(fault & recent).row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge(
    "isr_shrinks_recent",
    "Replicas that left an ISR in the last 10 minutes, by verdict.",
    labels=("verdict",),
)
def isr_shrinks_recent(shrinks: IsrShrinks) -> Mapping[tuple[str], int]:
    """The shrinks by verdict, also for verdicts without shrinks."""
    return {(v.name.lower(),): int((shrinks.verdict == v).sum()) for v in Verdict}


@gauge(
    "isr_shrinks_recent",
    "Replicas that left the partition's ISR in the last 10 minutes.",
    level="partition",
)
def partition_isr_shrinks_recent(shrinks: IsrShrinks) -> OfRows:
    """The shrinks of each partition; no series without any."""
    row, count = np.unique(shrinks.row, return_counts=True)
    return OfRows(row, count)


@gauge(
    "isr_shrinks_recent",
    "Replicas that left the ISR of partitions that the broker leads, in the last 10 minutes, "
    "without those whose own broker was gone.",
    level="broker",
)
def broker_isr_shrinks_recent(shrinks: IsrShrinks) -> ByBroker:
    """The shrinks by the leader at that time; a dead follower says nothing about its leader."""
    may_be_slow = (shrinks.leader != NO_BROKER) & (shrinks.verdict != Verdict.DEAD_FOLLOWER)
    return ByBroker(shrinks.leader[may_be_slow])


@api_field(
    "isr_shrinks",
    "replicas that left the ISR in the last ten minutes: `broker`, `leader`, `at_ms` when that was "
    "observed, `logged_at_ms` by a broker's log, `rejoined_at_ms`, `verdict` and its `meaning`, "
    "`evidence` that supports it, `fetch_was_pending`: a fetch that asked for all records was "
    "pending when it was removed, which begins when a request handler takes it",
)
def isr_shrinks_field(shrinks: IsrShrinks, partitions: Partitions) -> list[list[dict[str, Any]]]:
    """A list of shrinks for each partition."""
    objects = (_plain(shrinks, i, Verdict(int(shrinks.verdict[i]))) for i in range(len(shrinks)))
    return plain.by_partition(shrinks.row, objects, len(partitions.leader))


def _plain(shrinks: IsrShrinks, i: int, verdict: Verdict) -> dict[str, Any]:
    evidence = int(shrinks.evidence[i])
    return {
        "broker": int(shrinks.broker[i]),
        "leader": plain.integer(shrinks.leader[i]),
        "at_ms": int(shrinks.at_ms[i]),
        "logged_at_ms": plain.integer(shrinks.logged_at_ms[i]),
        "rejoined_at_ms": plain.integer(shrinks.rejoined_at_ms[i]),
        "verdict": verdict.name.lower(),
        "meaning": SENTENCE[verdict],
        "evidence": [str(each.name).lower() for each in Evidence if evidence & each],
        "fetch_was_pending": plain.yes_or_no(shrinks.fetch_was_pending[i]),
    }
