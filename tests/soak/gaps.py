"""Gaps of the archive, made on purpose: its program stands still until snapshots are compacted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.soak.background import Background
from tests.soak.judge import Span

STILL_S: Final = 480.0
"""Kafka compacts a snapshot once its segment is two minutes old, five minutes later at the latest.
"""


@dataclass(kw_only=True)
class Gaps(Background):
    """Stops the processes of the archive's program now and then; ``spans`` are when it did."""

    pids: Callable[[], Mapping[str, int]]
    minutes: float
    say: Callable[[str], None]
    spans: list[Span] = field(default_factory=list)

    def run(self) -> None:
        """Stop it once in half an hour, as long before as after; never in a shorter soak."""
        count = int(self.minutes / 28)
        pause_s = (self.minutes * 60 - count * STILL_S) / (count + 1)
        for _ in range(count):
            if self.over.wait(pause_s):
                return
            self._stop()

    def _stop(self) -> None:
        group = self.pids()["archive"]  # it begins a session of its own
        from_ms = time.time_ns() // 1_000_000
        self.say(f"the archive's program is stopped for {STILL_S:.0f} s")
        os.killpg(group, signal.SIGSTOP)
        try:
            self.over.wait(STILL_S)
        finally:
            os.killpg(group, signal.SIGCONT)
            self.spans.append(Span(from_ms, time.time_ns() // 1_000_000))
            self.say("the archive's program goes on")
