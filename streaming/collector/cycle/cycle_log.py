"""The schedule of the cycles, and the log lines about them."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from streaming.collector.about import BROKER
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.problem import Problem
from twin.declarations.table import NO_BROKER

SUMMARY_S: Final = 60.0

log = structlog.get_logger("collector")


@dataclass(slots=True)
class CycleLog:
    """Counts cycles, and logs each failure once when it begins and once when it ends."""

    cycles: int = 0
    overruns: int = 0
    unsent: int = 0
    partitions: int = 0
    replicas: int = 0
    brokers: frozenset[int] | None = None  # None before the first observation
    problems: Sequence[Problem] = ()
    took_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)  # cycles, by broker
    summed_up_at_s: float = field(default_factory=time.monotonic)

    def cycle(
        self, problems: Sequence[Problem], took_ms: float, observation: CycleResult | None
    ) -> None:
        """Note a cycle; log what changed, and once a minute a summary."""
        self.cycles += 1
        self.took_ms.append(took_ms)
        self.failures.update(
            {f"broker {problem.broker}" for problem in problems if problem.source == BROKER.name}
        )
        if observation is not None:
            self.brokers = frozenset(observation.brokers.column("broker").to_pylist())
        self._log_changes(problems)
        self.problems = problems
        if observation is not None:
            placement = observation.placement
            self.partitions, self.replicas = len(placement), len(placement.broker)
        if time.monotonic() - self.summed_up_at_s >= SUMMARY_S:
            self.sum_up()

    def _log_changes(self, problems: Sequence[Problem]) -> None:
        """Log new failures and recoveries.

        A place has recovered when nothing fails there any more, not when the cause changes."""
        logged = {problem.cause for problem in self.problems}
        for problem in problems:
            if problem.cause not in logged:
                about = _about(problem)
                log.warning("unavailable", **about, error=problem.error, text=problem.text)
                logged.add(problem.cause)
        places = {problem.place for problem in problems}
        for problem in {p.place: p for p in self.problems if p.place not in places}.values():
            is_gone = self.brokers is not None and problem.broker not in {NO_BROKER, *self.brokers}
            log.info("no longer registered" if is_gone else "recovered", **_about(problem))

    def sum_up(self) -> None:
        """Log one line with the counts since the start and the durations since the last such
        line."""
        log.info(
            "cycles",
            cycles=self.cycles,
            overruns=self.overruns,
            unsent=self.unsent,
            median_ms=round(statistics.median(self.took_ms)) if self.took_ms else 0,
            longest_ms=round(max(self.took_ms, default=0)),
            partitions=self.partitions,
            replicas=self.replicas,
            failures=dict(self.failures),
        )
        self.took_ms.clear()
        self.summed_up_at_s = time.monotonic()


def _about(problem: Problem) -> dict[str, Any]:
    if problem.broker == NO_BROKER:
        return {"source": problem.source}
    return {"source": problem.source, "broker": problem.broker}


@dataclass(slots=True)
class FixedRateSchedule:
    """Cycles begin every ``interval_s``; a long cycle does not shift the later ones."""

    interval_s: float
    due_s: float

    def cycle_ended(self, now_s: float) -> int:
        """Set the next tick; returns the number of missed ticks, which are skipped."""
        self.due_s += self.interval_s
        late_s = now_s - self.due_s
        missed = int(late_s // self.interval_s) + 1 if late_s > 0 else 0
        self.due_s += missed * self.interval_s
        return missed
