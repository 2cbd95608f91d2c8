"""How much time there is, and whether a run can end in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from tests.runner.declared import Run

MINUTES: Final = "TEST_MINUTES"
"""The environment variable with the minutes that all runs may take together; no limit without."""

REPORT_S: Final = 30.0
"""Kept for the last lines."""

AGAIN_S: Final = 300.0
"""Kept once a test has failed, to play it again."""


class Budget:
    """The time that is left, and how slow this machine is.

    A run is expected to take its declared minutes, times the slowness that the runs have shown
    which have ended: minutes that they took for each that they declare, at least 1.
    """

    def __init__(self, limit_s: float | None, now: Callable[[], float]) -> None:
        self._now = now
        self._end_s = None if limit_s is None else now() + limit_s - REPORT_S
        self._took_min = self._declared_min = self._kept_s = 0.0

    @property
    def slowness(self) -> float:
        return max(1.0, self._took_min / self._declared_min) if self._declared_min else 1.0

    @property
    def left_s(self) -> float:
        """Seconds that are left for all; endless without a limit."""
        return float("inf") if self._end_s is None else self._end_s - self._now()

    @property
    def left_for_runs_s(self) -> float:
        """Seconds that are left for runs: some are kept to play failed tests again."""
        return self.left_s - self._kept_s

    def keep_for_failed(self) -> None:
        """Keep time to play a failed test again: it may have failed since the machine is slow."""
        self._kept_s = AGAIN_S

    def note(self, run: Run, took_s: float) -> None:
        """A run has ended after so many seconds."""
        self._took_min += took_s / 60
        self._declared_min += run.minutes

    def expected_s(self, run: Run) -> float:
        return run.minutes * 60 * self.slowness

    def allows(self, run: Run) -> bool:
        """The run is expected to end in time if it begins now."""
        return self.expected_s(run) <= self.left_for_runs_s


def limit_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """The limit that the environment sets.

    Raises:
        SystemExit: the limit is not a number of minutes.
    """
    text = environment.get(MINUTES, "")
    if not text:
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 < minutes < float("inf"):
        raise SystemExit(f"{MINUTES}={text}: set it to a number of minutes above 0, or unset it")
    return minutes * 60
