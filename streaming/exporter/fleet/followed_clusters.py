"""Serves the clusters of a configuration, which come, go and change while the exporter runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import structlog

from streaming.bus import bus_topics
from streaming.bus.connection import Bus
from streaming.exporter.archived import looking, past_of
from streaming.exporter.events.asked import AskedGate, sending
from streaming.exporter.events.log import EventLog
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.intake.bus_reading import BusReading
from streaming.exporter.intake.cluster_reading import ClusterReading
from streaming.exporter.metrics.exposition import budget_of
from streaming.exporter.view_source import ViewSource
from streaming.grafana.annotate import Annotator
from streaming.runtime.config import Config
from streaming.runtime.configuration.clusters import OF_A_CLUSTER
from streaming.runtime.configuration.following import Followed
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of

LOOK_EVERY_S: Final = 2.0

log = structlog.get_logger("exporter")

Annotators = Callable[[Config], Annotator | None]
"""Makes what annotates the events of a cluster; None: nothing does."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A cluster that is served, and what runs for it until ``end`` is closed."""

    config: Config
    reading: ClusterReading
    source: ViewSource
    events: EventLog
    end: ExitStack


class FollowedClusters:
    """Reads and serves what the configuration names."""

    def __init__(
        self,
        followed: Followed,
        clusters: ServedClusters,
        annotators: Annotators = lambda _: None,
        when_broken: Callable[[str], None] | None = None,
    ) -> None:
        """
        Args:
            followed: the configuration.
            clusters: where the clusters are put, to be served.
            annotators: makes what annotates events.
            when_broken: takes the error by which reading ended. None: of several clusters one that
                breaks is begun anew.
        """
        self._followed, self._clusters = followed, clusters
        self._annotators, self._when_broken = annotators, when_broken
        self._budget = budget_of(followed.common.exporter)
        self._served: dict[str, _Served] = {}
        self._refused: dict[str, UserError] = {}  # clusters that could not be served lately
        self._buses: dict[tuple[bool, Bus], BusReading] = {}
        self._apart: list[BusReading] = []
        self._changing = threading.Lock()
        self._is_started = False
        self._ended, self._touched_at_s = threading.Event(), 0.0
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)

    def begin(self) -> None:
        """Serve the clusters, of which nothing is read yet.

        Raises:
            UserError: none can be served.
        """
        self._follow()
        for error in self._refused.values() if not self._served else ():
            raise error

    def start(self) -> None:
        """Read, and see in a thread who comes, goes and changes."""
        self._is_started = True
        for bus in self._all_buses:
            bus.start()
        self._thread.start()

    def stop(self) -> None:
        """End everything, without waiting for connections in progress."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2)
        for bus in self._all_buses:
            bus.stop()
        for served in self._served.values():
            served.end.close()

    def close_events(self) -> None:
        """End the streams of events. May be called by a signal handler."""
        for served in [*self._served.values()]:
            served.events.close()

    @property
    def _all_buses(self) -> list[BusReading]:
        return [*self._buses.values(), *self._apart]

    # ------------------------------------------------------------ the thread that follows

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                if self._followed.is_of_several and self._followed.look():
                    self._follow()
            except Exception:  # what is served now goes on
                log.exception("the clusters that there are now cannot be followed")
            self._touch()

    def _touch(self) -> None:
        """Touch the liveness file if all that is read got on since it was touched last."""
        turned = [served.reading.turned_at_s for served in self._served.values()]
        slowest_s = min(turned, default=self._touched_at_s + 1)
        if slowest_s > self._touched_at_s:
            self._touched_at_s = slowest_s
            touch_liveness_file(self._followed.common.health.folder, "exporter")

    def _follow(self) -> None:
        configs, self._refused = self._followed.configs, {}
        for name, served in [*self._served.items()]:
            if name not in configs or _own(configs[name]) != _own(served.config):
                self._end(name, served)
        for name, config in configs.items():
            if name not in self._served:
                self._begin(name, config)
        there = (self._served.get(name) for name in configs)
        self._clusters.serve(each.source for each in there if each is not None)
        self._end_idle_buses()

    def _begin(self, name: str, config: Config) -> None:
        end = ExitStack()
        try:
            served = self._serving(config, end)
        except UserError as error:
            end.close()
            self._refused[name] = error
            if self._followed.is_of_several:
                log.error("cannot be served", cluster=name, why=str(error))
            return
        self._served[name] = served
        self._bus_of(config).put(served.reading)

    def _serving(self, config: Config, end: ExitStack) -> _Served:
        events, past = EventLog(), past_of(config)
        asked = AskedGate(config) if config.gate.record else None
        annotator = self._annotators(config)
        end.enter_context(looking(past))
        end.enter_context(sending(asked))
        if annotator is not None:
            annotator.start()
            end.callback(annotator.stop)
        reading = ClusterReading(config, annotator, events, self._budget)
        source = ViewSource(
            catalog_of(config), config.cluster.name, reading.exposition, events=events,
            own_topics=bus_topics.own_topics(config), newest=lambda: reading.view, past=past,
            asked=asked, stuck=lambda: reading.why_stuck, broken=lambda: reading.why_broken,
            labels=config.cluster.labels,
        )  # fmt: skip
        return _Served(config, reading, source, events, end)

    def _end(self, name: str, served: _Served) -> None:
        for bus in self._all_buses:
            bus.drop(served.reading)
        del self._served[name]
        self._budget.forget(name)
        served.events.close()
        served.end.close()

    # ------------------------------------------------------------ buses

    def _bus_of(self, config: Config) -> BusReading:
        # Errors of a bus on the watched cluster name other settings.
        key = bool(config.bus.bootstrap), Bus.of(config)
        if key not in self._buses:
            self._buses[key] = self._new_bus()
        return self._buses[key]

    def _new_bus(self) -> BusReading:
        bus = BusReading(self._when_broken, self._set_apart)
        if self._is_started:
            bus.start()
        return bus

    def _set_apart(self, readings: Sequence[ClusterReading]) -> None:
        """Read each of these clusters by itself. Called by the thread that read them together."""
        names = ", ".join(each.config.cluster.name for each in readings)
        log.warning("read apart from now on", clusters=names, why="one of them keeps all of its "
                    "bus from being read")  # fmt: skip
        for reading in readings:
            bus = self._new_bus()
            bus.put(reading)
            with self._changing:
                self._apart.append(bus)

    def _end_idle_buses(self) -> None:
        with self._changing:
            idle = [bus for bus in self._all_buses if not bus.wanted]
            self._buses = {key: bus for key, bus in self._buses.items() if bus not in idle}
            self._apart = [bus for bus in self._apart if bus not in idle]
        for bus in idle:
            bus.stop()


def _own(config: Config) -> Mapping[str, object]:
    """What a cluster has of its own: nothing else takes effect without a restart."""
    return {name: getattr(config, name) for name in ("cluster", *OF_A_CLUSTER)}
