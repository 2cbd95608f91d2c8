"""What is read of one cluster: its newest view, its events and its metrics.

The thread that reads its bus calls ``begin`` and ``take``; ``view`` and ``exposition`` are for the
threads of the web server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from streaming.bus import bus_topics
from streaming.bus.freshness import BusState
from streaming.bus.reader import Reader, Start
from streaming.bus.record import Record
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.exporter.events.log import EventLog
from streaming.exporter.metrics.exposition import Exposition, Renderer
from streaming.exporter.metrics.series_budget import SeriesBudget
from streaming.exporter.view_source import wall_clock_ms
from streaming.grafana.annotate import Annotator
from streaming.runtime.config import Config
from streaming.runtime.plugins import catalog_of

EVENTS_READ_BACK: Final = 10_000
"""Events of each partition that a restart counts again: counters should not start at zero."""

STUCK_AFTER_S: Final = 120.0
"""More than any request to the bus may take: then a restart helps."""


class ClusterReading:
    """The state of one cluster as it is read. ``why_broken`` says why that stands still, if so."""

    def __init__(
        self,
        config: Config,
        annotator: Annotator | None = None,
        events: EventLog | None = None,
        budget: SeriesBudget | None = None,
    ) -> None:
        self.config = config
        self.why_broken = ""
        self._annotator, self._budget = annotator, budget
        self._events = EventLog() if events is None else events
        self._answered_at_ms = wall_clock_ms()  # the bus; at first it has had no time to
        self._lock, self._rendering = threading.Lock(), threading.Lock()
        self.turn()
        self._begin_anew()

    def _begin_anew(self) -> None:
        config, catalog = self.config, catalog_of(self.config)
        self._store = SnapshotStore(
            catalog, config.cluster.name, config.bus.shards, config.collector.interval_ms
        )
        if self._annotator is not None:
            self._store.annotations = self._annotator.counts
        own_topics = bus_topics.own_topics(config)
        self._renderer = Renderer(
            catalog, config.cluster.name, config.exporter, own_topics, wall_clock_ms(), self._budget
        )
        self._is_ready = False
        # The newest view, and the same as it was published, before more was seen of the bus.
        self._newest = self._store.view, self._store.view
        self._rendered = Exposition(self._store.view)

    @property
    def view(self) -> ClusterView:
        """The newest view."""
        return self._newest[0]

    def exposition(self) -> Exposition:
        """The exposition of the newest view, rendered at the first scrape after it.

        Scrapes are rarer than cycles, and most views are never scraped.
        """
        with self._rendering:
            view, published = self._newest
            if self._rendered.view is not published or self._renderer.is_outdated:
                self._rendered = self._renderer.render(published)
            return replace(self._rendered, view=view)

    def turn(self) -> None:
        """Note that reading gets on, also while the bus does not answer."""
        self.turned_at_s = time.monotonic()

    @property
    def why_stuck(self) -> str:
        """Why the exporter has to be started again; empty while reading gets on."""
        stood_s = time.monotonic() - self.turned_at_s
        return "" if stood_s < STUCK_AFTER_S else f"no snapshots were read for {stood_s:.0f} s"

    # ------------------------------------------------------------ the thread that reads the bus

    @property
    def starts(self) -> dict[str, Start]:
        """The topics that are read, and where reading them begins."""
        names = bus_topics.topics(self.config)
        return {names.snapshots: "beginning", names.events: EVENTS_READ_BACK}

    def expect(self, config: Config) -> None:
        """Take the configuration with its number of shards, which was not known before."""
        if config is not self.config:
            self.config = config
            self._store.expect(config.bus.shards)

    @property
    def is_ready(self) -> bool:
        """Whether the events that were there at the beginning have been read."""
        return self._events.is_ready

    def begin(self, reader: Reader) -> None:
        """Note that the reader has begun to read the topics."""
        self.why_broken, self._is_ready = "", False
        self._events.begin(reader.ranges(bus_topics.topics(self.config).events))

    def break_off(self, why: str) -> None:
        """Begin with nothing the next time. What was seen last stays to be seen meanwhile."""
        newest, rendered = self._newest, self._rendered
        self._begin_anew()
        self._newest, self._rendered, self.why_broken = newest, rendered, why

    def take(self, polled: Sequence[Record], reader: Reader) -> None:
        """Take what was read of the topics, and publish it once their backlog is read."""
        names = bus_topics.topics(self.config)
        self._take_snapshots([record for record in polled if record.topic == names.snapshots])
        reported = [record for record in polled if record.topic == names.events]
        for record in reported:
            event = self._store.take_event(record.value)
            self._events.take(record, event)
            if event is not None and self._annotator is not None:
                self._annotator.take(event)
        if not self._events.is_ready or reported:
            self._events.publish(is_ready=reader.caught_up(names.events))
        if not polled:
            return
        # Old snapshots are not published one by one.
        self._is_ready = self._is_ready or reader.caught_up(names.snapshots)
        if self._is_ready:
            self.publish(wall_clock_ms())
        self._answered_at_ms = wall_clock_ms()

    def _take_snapshots(self, records: Sequence[Record]) -> None:
        """A backlog has many messages of each key: only the last readable one is needed."""
        taken: set[bytes | None] = set()
        for record in reversed(records):
            if record.key not in taken and self._store.take_snapshot(
                record.key, record.value, record.timestamp_ms
            ):
                taken.add(record.key)

    def publish(self, now_ms: int) -> None:
        """Make the messages taken so far the newest view."""
        with self._lock:
            view = self._store.publish(now_ms)
            self._newest = view, view

    # ------------------------------------------------------------ what is seen of the bus

    def note_silence(self) -> None:
        """Note that the bus does not answer."""
        self._note(BusState(silent_since_ms=self._answered_at_ms))

    def note_on_time(self) -> None:
        """Note that there is nothing to be seen."""
        self._note(BusState())

    def note_bus(self, observations_arrive: bool | None, leaderless: str) -> None:
        """Note what was seen of the bus, which answers."""
        self._answered_at_ms = wall_clock_ms()
        self._note(BusState(observations_arrive=observations_arrive, leaderless=leaderless))

    def _note(self, seen: BusState) -> None:
        state = replace(seen, holds_cluster=not self.config.bus.bootstrap)
        with self._lock:
            self._newest = self._store.note_bus(state), self._newest[1]
