"""Brokers whose eviction was just allowed, and whose loss the twin may not have observed yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SEEN_AFTER_S: Final = 30.0
"""From the end of a broker's process until the twin has certainly observed that it is away: the
controller fences it after 9 s by default, and two cycles of the collector follow."""


@dataclass(slots=True)
class GoingBrokers:
    """Those whose pods may still be stopping. The next one is judged together with them."""

    _until_s: dict[int, float] = field(default_factory=dict)

    def add(self, broker: int, grace_s: float, now_s: float) -> None:
        """The eviction of a broker was allowed.

        Args:
            broker: its id.
            grace_s: how long its pod may take to stop.
            now_s: the time, of a clock that is never set back.
        """
        self._until_s[broker] = now_s + grace_s + SEEN_AFTER_S

    def others(self, broker: int, now_s: float) -> list[int]:
        """The ids of the others that are going, in order."""
        self._until_s = {each: until for each, until in self._until_s.items() if until > now_s}
        return sorted(self._until_s.keys() - {broker})
