"""Whether what is read from the bus is fresh, and if not, which program or broker it waits for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from streaming.runtime.quantities import utc_text
from twin.declarations.table import UNKNOWN

STALE_AFTER_CYCLES: Final = 3

FAILOVER_MS: Final = 15_000
"""A state is never stale before, however short the cycles are.

A bus that loses one broker takes no writes for its partitions until the controller has fenced that
broker (``broker.session.timeout.ms``, 9 s by default) and other leaders are known. That is when the
state is needed most, and it is soon complete again."""

MOST_LAG_MS: Final = 45_000
"""Time from an observation to its snapshot, and between two clocks, that is not called stale."""

LONGEST_CYCLE_MS: Final = 60_000
"""A longer time between two observations is a gap, and no measure of the cycles."""

_OLD: Final = {
    None: "the newest observation is {s} s old: are the collector and the query running?",
    False: "the newest observation is {s} s old: is the collector running, and does the bus take "
    "its writes?",
    True: "the newest snapshot is {s} s old, and newer observations wait for the query: it is "
    "slow, or not running",
}
_NONE_READ: Final = {
    None: "",
    False: ", and nothing was observed: is the collector running, and does the bus take its "
    "writes?",
    True: ", and observations wait for the query: it is slow, or not running",
}
"""By whether observations arrive."""


@dataclass(frozen=True, slots=True)
class BusState:
    """What the reader of the bus sees of it, beside the records."""

    # Observations that are no older than three cycles are on the bus; None while unknown.
    observations_arrive: bool | None = None
    silent_since_ms: int = UNKNOWN  # when it answered last; UNKNOWN while it answers
    holds_cluster: bool = False  # the bus is on the watched cluster
    leaderless: str = ""  # a bus partition that nobody leads

    @property
    def answers(self) -> bool:
        """It did when the reader looked last."""
        return self.silent_since_ms == UNKNOWN

    def why_empty(self) -> str:
        """Why nothing was read yet."""
        stands = self._silence() or self._without_leaders()
        none_read = _NONE_READ[self.observations_arrive]
        return f"no snapshot has been read yet{f': {stands}' if stands else none_read}"

    def why_old(self, age_ms: int) -> str:
        """Why the newest observation is as old as that."""
        if stands := self._silence() or self._without_leaders():
            return f"{stands}; the newest observation is {age_ms // 1000} s old"
        return _OLD[self.observations_arrive].format(s=age_ms // 1000)

    def _without_leaders(self) -> str:
        if not self.leaderless:
            return ""
        return (
            f"nobody leads the bus partition {self.leaderless}: is its broker away? With "
            "bus.replication_factor = 3 another one would lead"
        )

    def _silence(self) -> str:
        if self.answers:
            return ""
        since = utc_text(self.silent_since_ms)
        if self.holds_cluster:
            return f"the bus, which is on the watched cluster, has not answered since {since}"
        return f"the bus has not answered since {since}"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often newer observations arrive at a reader, and how late.

    A reader whose clock differs from the collector's sees that as a lag, so only the time without
    anything newer counts.
    """

    interval_ms: int
    lag_ms: int = MOST_LAG_MS
    gap_ms: int = 0  # between the two newest observations that arrived
    prev_gap_ms: int = 0

    def arrived(self, observed_at_ms: int, before_ms: int, now_ms: int) -> Self:
        """The rhythm after an observation that is newer than the one before (UNKNOWN: none)."""
        lag_ms = min(max(now_ms - observed_at_ms, -MOST_LAG_MS), MOST_LAG_MS)
        if before_ms == UNKNOWN:
            return replace(self, lag_ms=lag_ms)
        return replace(
            self, lag_ms=lag_ms, gap_ms=observed_at_ms - before_ms, prev_gap_ms=self.gap_ms
        )

    @property
    def cycle_ms(self) -> int:
        """The usual time between two observations; one gap, after an outage, is not usual."""
        usual_ms = min(self.gap_ms, self.prev_gap_ms, LONGEST_CYCLE_MS)
        return max(self.interval_ms, usual_ms)

    @property
    def stale_after_ms(self) -> int:
        """The age, by the reader's clock, from which an observation is stale."""
        return max(STALE_AFTER_CYCLES * self.cycle_ms, FAILOVER_MS) + self.lag_ms

    def is_late(self, age_ms: int) -> bool:
        """Whether the next observation should have arrived a cycle ago."""
        return age_ms > (STALE_AFTER_CYCLES - 1) * self.cycle_ms + self.lag_ms
