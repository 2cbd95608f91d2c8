"""The clusters that a query watches: those whose collectors have written to the bus.

A cluster that comes later does not delay the others: the query starts without it, and starts again
with it once its number of shards is known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from streaming.bus import bus_topics
from streaming.bus.connection import BusError
from streaming.bus.shards import with_known_shards
from streaming.runtime.config import Config, ConfigError

LOOK_EVERY_S: Final = 1.0
LOOK_FOR_MORE_EVERY_S: Final = 15.0
"""While a query runs: each look reads the bus."""

log = structlog.get_logger("query")


class Watched:
    """The configured clusters, and of these the known ones."""

    def __init__(self, configs: Sequence[Config]) -> None:
        """Nothing is asked yet.

        Raises:
            ConfigError: the clusters do not share a bus.
        """
        self._configs = list(configs)
        self._known: dict[str, Config] = {}
        self._look_at_s = 0.0
        buses = {config.bus_bootstrap: config.cluster.name for config in configs}
        if len(buses) > 1:
            places = ", ".join(f"{where} for {name}" for where, name in buses.items())
            raise ConfigError(f"bus.bootstrap: clusters of one query share a bus, not {places}")

    @property
    def are_several(self) -> bool:
        """Whether several clusters are configured."""
        return len(self._configs) > 1

    @property
    def known(self) -> list[Config]:
        """The clusters with their numbers of shards, in the order of the configuration."""
        names = [config.cluster.name for config in self._configs]
        return [self._known[name] for name in names if name in self._known]

    def wait(self, stop: threading.Event, alive: Callable[[], None]) -> bool:
        """Wait for the first cluster; false if stopped before. ``alive`` is called meanwhile.

        Raises:
            BusError: the bus cannot be reached.
        """
        for config in self._configs:
            bus_topics.ensure_topics(config)
        is_said = False
        while not stop.is_set():
            if self.look():
                return True
            if not is_said:
                log.info("waiting", what="the first observation", why="bus.shards is not set, and "
                         "no collector has chosen it yet")  # fmt: skip
                is_said = True
            alive()
            stop.wait(LOOK_EVERY_S)
        return False

    def look(self) -> bool:
        """Look at the bus for clusters that are not known yet; true if there is another.

        Raises:
            BusError: the bus cannot be reached.
        """
        before = len(self._known)
        for config in self._configs:
            if config.cluster.name not in self._known:
                found = with_known_shards(config)
                if found is not None:
                    self._known[config.cluster.name] = found
        return len(self._known) > before

    def has_more(self) -> bool:
        """Whether the query is to start again with another cluster."""
        if len(self._known) == len(self._configs) or time.monotonic() < self._look_at_s:
            return False
        self._look_at_s = time.monotonic() + LOOK_FOR_MORE_EVERY_S
        try:
            return self.look()
        except BusError as error:
            log.warning("unavailable", what="further clusters", why=str(error))
            return False
