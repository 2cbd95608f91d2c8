"""Counts cycles for Prometheus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from streaming.collector import own_metrics as own
from streaming.collector.cycle.health import CycleHealth
from streaming.collector.problem import NOT_OFFERED, Problem
from streaming.collector.sources import ABOUT
from streaming.runtime.exposition.application import Registry
from streaming.runtime.program_metrics import ProgramMetrics


class CycleMetrics:
    """Fills in the metrics of the collector (``own_metrics``)."""

    def __init__(self, cluster: str, interval_ms: int, registry: Registry | None = None) -> None:
        """``registry``: with those of other clusters of the same program."""
        self._metrics = ProgramMetrics(cluster, own.OWN, registry)
        now_s = time.time()
        # Alerts count from the start if nobody has answered since.
        for metric, value in (
            (own.INTERVAL, interval_ms / 1_000),
            (own.ANSWERED_AT, now_s),
            (own.SENT_AT, now_s),
        ):
            self._metrics.set(metric, value)
        now_ms = int(now_s * 1_000)
        self.health = CycleHealth(interval_ms, now_ms, now_ms)
        self.registry = self._metrics.registry
        self._rounds: Counter[str] = Counter()  # as of the last cycle

    def cycle_ended(self, problems: Sequence[Problem], took_s: float) -> None:
        """Count a cycle; ``problems`` are those at its end."""
        self._metrics.add(own.CYCLES)
        self._metrics.observe(own.CYCLE_SECONDS, took_s)
        by_source = Counter(problem.source for problem in problems)
        lacking = Counter(p.source for p in problems if p.error == NOT_OFFERED)
        for name in ABOUT:
            self._metrics.set(own.PROBLEMS, by_source[name], name)
            self._metrics.set(own.NOT_OFFERED, lacking[name], name)

    def answered(self) -> None:
        """Note that a broker has answered."""
        now_s = time.time()
        self._metrics.set(own.ANSWERED_AT, now_s)
        self.health.answered(int(now_s * 1_000))

    def sent(self) -> None:
        """Note that an observation has arrived on the bus."""
        now_s = time.time()
        self._metrics.set(own.SENT_AT, now_s)
        self.health.sent(int(now_s * 1_000))

    def unsent(self, error: str) -> None:
        """Count an observation that has not arrived completely."""
        self._metrics.add(own.UNSENT)
        self.health.unsent(error)

    def why_unhealthy(self) -> str:
        """For ``/healthz``: one sentence, empty while the collector gets on."""
        return self.health.why_unhealthy(time.time_ns() // 1_000_000)

    def forget(self) -> None:
        """Serve nothing about the cluster any more."""
        self._metrics.forget()

    def left_out(self, cycles: int) -> None:
        """Count cycles that did not begin in time."""
        self._metrics.add(own.OVERRUNS, cycles)

    def rounds(self, since_start: Mapping[str, int]) -> None:
        """Set the number of rounds of each background source."""
        for source, count in since_start.items():
            self._metrics.add(own.ROUNDS, count - self._rounds[source], source)
            self._rounds[source] = count
