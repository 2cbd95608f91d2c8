"""Counts cycles for Prometheus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from streaming.collector import own_metrics as own
from streaming.collector.problem import Problem
from streaming.collector.sources import ABOUT
from streaming.runtime.program_metrics import ProgramMetrics


class CycleMetrics:
    """Fills in the metrics of the collector (``own_metrics``)."""

    def __init__(self, cluster: str) -> None:
        self._metrics = ProgramMetrics(cluster, own.OWN)
        self.registry = self._metrics.registry
        self._rounds: Counter[str] = Counter()  # as of the last cycle

    def cycle_ended(self, problems: Sequence[Problem], took_s: float) -> None:
        """Count a cycle; ``problems`` are those at its end."""
        self._metrics.add(own.CYCLES)
        self._metrics.observe(own.CYCLE_SECONDS, took_s)
        by_source = Counter(problem.source for problem in problems)
        for name in ABOUT:
            self._metrics.set(own.PROBLEMS, by_source[name], name)

    def sent(self) -> None:
        """Count an observation that has arrived on the bus."""
        self._metrics.set(own.SENT_AT, time.time())

    def unsent(self) -> None:
        """Count an observation that has not arrived completely."""
        self._metrics.add(own.UNSENT)

    def left_out(self, cycles: int) -> None:
        """Count cycles that did not begin in time."""
        self._metrics.add(own.OVERRUNS, cycles)

    def rounds(self, since_start: Mapping[str, int]) -> None:
        """Set the number of rounds of each background source."""
        for source, count in since_start.items():
            self._metrics.add(own.ROUNDS, count - self._rounds[source], source)
            self._rounds[source] = count
