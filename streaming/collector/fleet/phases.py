"""When the cycles of a cluster begin, among those of others.

A batch of the query takes all that came since the one before, and has a fixed cost: so small
clusters are polled shortly after each other, and a batch or two serves them all. Not at the same
moment: the threads of a process share one core, and a cycle among twenty others would take as long
as all of them. A cluster of several shards is work enough for a batch of its own: those are spread
over the whole interval.

Cycles are counted from the clock's zero, so collectors on several machines agree without a word.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from streaming.runtime.config import Config

_SHARE_OF_SMALL: Final = 0.1
"""Of the interval: half a second of 5 s. Twenty small clusters take as much CPU time together."""

_BYTES: Final = 4


def begun_s_ago(config: Config, now_s: float) -> float:
    """Since when a cycle has its place that is polled now, less than an interval ago.

    Args:
        config: has the interval, the number of shards, and the name, which decides on the place
            among other clusters.
        now_s: since the epoch.
    """
    interval_s = config.collector.interval_ms / 1_000
    share = _SHARE_OF_SMALL if config.bus.shards == 1 else 1.0
    # Not a CRC: those of names that differ in a digit are close together.
    digest = blake2b(config.cluster.name.encode(), digest_size=_BYTES).digest()
    phase_s = interval_s * share * int.from_bytes(digest, "big") / (1 << 8 * _BYTES)
    return (now_s - phase_s) % interval_s
