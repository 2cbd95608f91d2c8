"""Whether the collector gets on: what it could say of itself while the bus takes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streaming.runtime.quantities import utc_text

UNHEALTHY_AFTER_CYCLES: Final = 3


@dataclass(slots=True)
class CycleHealth:
    """When a broker answered last, and when the bus took an observation.

    One thread writes, and the thread of ``/healthz`` reads.
    """

    interval_ms: int
    answered_at_ms: int  # at first, the start of the collector
    sent_at_ms: int
    send_error: str = ""

    def answered(self, now_ms: int) -> None:
        """A broker of the watched cluster has answered."""
        self.answered_at_ms = now_ms

    def sent(self, now_ms: int) -> None:
        """An observation is completely on the bus."""
        self.sent_at_ms, self.send_error = now_ms, ""

    def unsent(self, error: str) -> None:
        """The bus has not taken an observation."""
        self.send_error = error

    def why_unhealthy(self, now_ms: int) -> str:
        """One sentence; empty while brokers answer and the bus takes observations."""
        after_ms = UNHEALTHY_AFTER_CYCLES * self.interval_ms
        reasons = []
        if now_ms - self.answered_at_ms > after_ms:
            reasons.append(f"no broker has answered since {utc_text(self.answered_at_ms)}")
        if now_ms - self.sent_at_ms > after_ms:
            why = f": {self.send_error}" if self.send_error else ""
            reasons.append(
                f"the bus has taken no observation since {utc_text(self.sent_at_ms)}{why}"
            )
        return "; ".join(reasons)
