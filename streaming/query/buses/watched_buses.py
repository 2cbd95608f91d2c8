"""The buses of the configured clusters, which come, go and change while a program runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog

from streaming.bus.connection import Bus
from streaming.query.buses.lanes import by_bus
from streaming.query.buses.watched import Watched
from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from streaming.runtime.deadline import Deadline

LOOK_AT_FILES_EVERY_S: Final = 5.0

log = structlog.get_logger("query")


class WatchedBuses:
    """Watches each bus with a thread of its own, while ``watching`` lasts."""

    def __init__(self, followed: Followed) -> None:
        self._followed = followed
        self._look = Deadline.after_s(LOOK_AT_FILES_EVERY_S)
        self._watched: dict[Bus, Watched] = {}
        self._said: dict[Bus, str] = {}

    @property
    def by_bus(self) -> Mapping[Bus, Watched]:
        """What is known of each bus, in the order in which clusters are configured."""
        return {**self._watched}  # other threads ask as well

    def known(self) -> list[Config]:
        """The clusters whose numbers of shards are known."""
        return [config for each in self.by_bus.values() for config in each.known.values()]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block runs."""
        self._watch()
        try:
            yield
        finally:
            for watched in self._watched.values():
                watched.stop()

    def follow(self) -> None:
        """Read the files again where it is time, and log once why a bus cannot be looked at.

        Raises:
            BusError: the bus of the only cluster cannot be reached. Of a fleet it is waited for.
        """
        if self._look.is_over:
            self._look = Deadline.after_s(LOOK_AT_FILES_EVERY_S)
            if self._followed.look():
                self._watch()
        for bus, watched in self._watched.items():
            if not self._followed.is_fleet and not watched.known and watched.failure is not None:
                raise watched.failure
            why = str(watched.failure or "")
            if why and why != self._said.get(bus):
                log.warning("unavailable", what=f"bus {bus.bootstrap}", why=why)
            self._said[bus] = why

    def _watch(self) -> None:
        """Watch the buses of the clusters that are configured, and no others."""
        buses = by_bus(self._followed.configs.values())
        for bus in self._watched.keys() - buses.keys():
            self._watched.pop(bus).stop()
        for bus, configs in buses.items():
            if bus in self._watched:
                self._watched[bus].configure(configs)
            else:
                self._watched[bus] = Watched(configs)
                self._watched[bus].start()
