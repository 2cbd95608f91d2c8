"""Thresholds that are handed to the collector of a cluster: its program reads the files for all."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from streaming.collector.problem import Problem
from streaming.collector.settings.thresholds import THRESHOLDS
from streaming.runtime.config import EligibilityConfig
from twin.declarations.table import NO_BROKER

log = structlog.get_logger("collector")


class GivenThresholds:
    """One thread gives, and the collector's own reads."""

    def __init__(self, current: EligibilityConfig) -> None:
        self.problems: Sequence[Problem] = ()
        self._current = self._given = current

    def give(self, thresholds: EligibilityConfig, why_not: str = "") -> None:
        """Let these hold from the next cycle on; ``why_not``: why they are not what a file says."""
        self._given = thresholds
        problem = Problem(THRESHOLDS.name, NO_BROKER, "ConfigError", why_not)
        self.problems = (problem,) if why_not else ()

    def read(self) -> EligibilityConfig | None:
        """The new thresholds; None if they have not changed since the last call."""
        given = self._given
        if given == self._current:
            return None
        self._current = given
        log.info("thresholds changed")
        return given
