"""The section [eligibility] of the configuration file, read again while the collector runs.

People try several thresholds, so a change takes effect within one cycle, without a restart. The
file is read when it has changed or was replaced, and on request (SIGHUP). Changes of other sections
have no effect until a restart. A file that cannot be used is a problem; the earlier thresholds stay
in force.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from streaming.collector.problem import Problem
from streaming.collector.settings.thresholds import THRESHOLDS
from streaming.runtime.config import Config, ConfigError, EligibilityConfig
from streaming.runtime.configuration.loading import load
from twin.declarations.table import NO_BROKER

log = structlog.get_logger("collector")


class EligibilityFile:
    """Notices changes of the thresholds in a configuration file."""

    def __init__(
        self,
        path: Path | None,
        current: EligibilityConfig,
        load_config: Callable[[Path], Config] = load,
    ) -> None:
        """Note the state of the file; without a path nothing is watched.

        Args:
            path: the configuration file.
            current: the thresholds that were read at the start.
            load_config: reads it, and applies the environment's overrides.
        """
        self._path = path
        self._load = load_config
        self._current = current
        self._read_of = self._signature()
        self._requested = threading.Event()
        self.problems: tuple[Problem, ...] = ()  # when it was last read

    def request(self) -> None:
        """Read the file at the next call of ``read``, even if it seems unchanged."""
        self._requested.set()

    def read(self) -> EligibilityConfig | None:
        """The new thresholds; None if they have not changed."""
        signature = self._signature()
        if self._path is None or (signature == self._read_of and not self._requested.is_set()):
            return None
        self._requested.clear()
        self._read_of = signature
        try:
            thresholds = self._load(self._path).eligibility
        except ConfigError as error:
            text = f"{error}; the thresholds read before stay"
            self.problems = (Problem(THRESHOLDS.name, NO_BROKER, "ConfigError", text),)
            return None
        self.problems = ()
        if thresholds == self._current:
            return None
        self._current = thresholds
        log.info("thresholds changed", file=str(self._path))
        return thresholds

    def _signature(self) -> tuple[int, ...] | None:
        """A value that differs after the file was written or replaced; None without a file."""
        if self._path is None:
            return None
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size
