"""The clusters that a query watches: those whose collectors have written to the bus.

A cluster that comes later does not delay the others: queries start without it, and with it once its
number of shards is known.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from streaming.bus import bus_topics
from streaming.bus.connection import BusError
from streaming.bus.shards import with_known_shards
from streaming.runtime.config import Config

LOOK_EVERY_S: Final = 1.0
LOOK_FOR_MORE_EVERY_S: Final = 15.0
"""While a query runs: each look reads the bus."""

log = structlog.get_logger("query")

Known = Mapping[str, Config]
"""The clusters with their numbers of shards, by name."""


def used_by_query(config: Config) -> tuple[object, ...]:
    """What a query takes from the configuration of one cluster; other changes do not concern it."""
    return config.cluster, config.bus, config.collector.interval_ms


class Watched:
    """The configured clusters of one bus, and of these the known ones.

    A thread of its own looks at the bus, which may be away.
    """

    def __init__(self, configs: Iterable[Config]) -> None:
        """Nothing is asked yet."""
        self.failure: Exception | None = None  # why the bus cannot be looked at
        self.known: Known = {}
        self._configs: dict[str, Config] = {}  # of the last look that the bus has answered
        self._given: list[Config] = []
        self._has_topics: set[str] = set()
        self._said: dict[str, str] = {}
        self._wake, self._ended = threading.Event(), False
        self.configure(configs)

    def configure(self, configs: Iterable[Config]) -> None:
        """Watch these clusters from now on."""
        self._given = [*configs]
        self._wake.set()

    def start(self) -> None:
        """Look at the bus until ``stop``."""
        threading.Thread(target=self._run, name="watched", daemon=True).start()

    def stop(self) -> None:
        """End the thread, once the bus has answered."""
        self._ended = True
        self._wake.set()

    def _run(self) -> None:
        is_said = False
        while not self._ended:
            self._wake.clear()
            try:
                self.look()
                self.failure = None
            except Exception as error:
                self.failure = error
            if not self.known and not is_said and self.failure is None:
                log.info("waiting", what="the first observation", why="bus.shards is not set, and "
                         "no collector has chosen it yet")  # fmt: skip
                is_said = True
            self._wake.wait(LOOK_FOR_MORE_EVERY_S if self.known else LOOK_EVERY_S)

    def look(self) -> None:
        """Take the clusters that are configured now, and look at the bus for the unknown ones.

        Raises:
            BusError: the bus cannot be reached, or its only cluster cannot be watched.
        """
        now = {config.cluster.name: config for config in self._given}
        same = {
            name
            for name, config in now.items()
            if name in self._configs and used_by_query(config) == used_by_query(self._configs[name])
        }
        self._has_topics &= same
        known = {name: config for name, config in self.known.items() if name in same}
        for name, config in now.items():
            if name not in known and (found := self._found(config, len(now) == 1)) is not None:
                known[name] = found
        self._configs = now
        self.known = {name: known[name] for name in now if name in known}

    def _found(self, config: Config, is_only: bool) -> Config | None:
        name = config.cluster.name
        try:
            if name not in self._has_topics:
                bus_topics.ensure_topics(config)
                self._has_topics.add(name)
            found = with_known_shards(config)
        except BusError as error:
            if error.unreachable or is_only:
                raise
            self._say(name, str(error))
            return None
        self._say(name, "")
        return found

    def _say(self, name: str, why: str) -> None:
        """Log each cause of a cluster once."""
        if why and why != self._said.get(name):
            log.warning("unavailable", what=f"cluster {name}", why=why)
        self._said[name] = why
