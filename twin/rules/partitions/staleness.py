"""Partitions whose replicas have not answered for a while."""

from __future__ import annotations

from typing import Final

from twin.declarations.declare import Alert, risk
from twin.declarations.signature import NowMs
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool
from twin.rules.partitions.leaders import Leaders
from twin.tables.state import Partitions

STALE_MS: Final = 60_000
"""Twelve cycles of the default interval, and as long as a session of a broker may last."""


@risk(
    "state_stale",
    rank=190,
    severity="info",
    sentence="the newest observation of the leader is older than a minute",
    source="the age of observations",
    alert=Alert(
        summary="have not been observed for a minute",
        description="The leaders of {n} partitions of {cluster} have not answered the twin for "
        "more than a minute.",
        wait="2m",
        keep_firing_for="2m",
    ),
)
def is_stale(partitions: Partitions, leaders: Leaders, now_ms: NowMs) -> Bool:
    """No listing named the partition for STALE_MS, or its leader did not answer."""
    sampled = leaders.sampled_at_ms
    silent = (partitions.leader != NO_BROKER) & (sampled != UNKNOWN)
    silent &= now_ms - sampled > STALE_MS
    return silent | (now_ms - partitions.described_at_ms > STALE_MS)
