"""Runs the exporter: one thread reads the bus, the main thread serves.

An unavailable bus is tried again without limit; meanwhile the last view is served.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import structlog

from streaming.bus import bus_topics, connection
from streaming.bus.arrow import use_little_memory
from streaming.bus.connection import BusError
from streaming.bus.freshness import BusState
from streaming.bus.reader import Reader, Start
from streaming.bus.shards import with_shards_of_snapshots
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.exporter.agents.door import why_closed
from streaming.exporter.archived import looking, past_of
from streaming.exporter.events.asked import AskedGate, sending
from streaming.exporter.events.log import EventLog
from streaming.exporter.metrics.exposition import Exposition, Renderer
from streaming.exporter.view_source import ViewSource, wall_clock_ms
from streaming.exporter.web_application import application
from streaming.grafana.annotate import Annotator
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.ports.sockets import url_of
from streaming.serving.certificate import certificate_of
from streaming.serving.http_server import Server, listen

EVENTS_READ_BACK: Final = 10_000
"""Events of each partition that a restart counts again: counters should not start at zero."""

POLL_MS: Final = 1_000
"""The longest time without new records; a poll ends when there are some."""

LOOK_EVERY_S: Final = 2.0
RETRY_PAUSE_S: Final = 2.0
STUCK_AFTER_S: Final = 120.0
"""More than any request to the bus may take: then a restart helps."""

LOG_AGAIN_AFTER_S: Final = 60.0
"""How often the same cause is logged while it lasts."""

log = structlog.get_logger("exporter")


class ExporterError(UserError, RuntimeError):
    """The exporter cannot go on: one line for the person who started it."""


class SnapshotReader:
    """The thread that updates the view. ``broken`` has the error that ended it, if any."""

    def __init__(
        self,
        config: Config,
        when_broken: Callable[[], None],
        annotator: Annotator | None = None,
        events: EventLog | None = None,
    ) -> None:
        self._config = config
        self._when_broken = when_broken
        self._annotator = annotator
        self._events = EventLog() if events is None else events
        self.broken = ""
        catalog = catalog_of(config)
        self._store = SnapshotStore(
            catalog, config.cluster.name, config.bus.shards, config.collector.interval_ms
        )
        if annotator is not None:
            self._store.annotations = annotator.counts
        own_topics = bus_topics.own_topics(config)
        self._renderer = Renderer(
            catalog, config.cluster.name, config.exporter, own_topics, wall_clock_ms()
        )
        self._stop = threading.Event()
        self._look_at_s = 0.0
        self._answered_at_ms = wall_clock_ms()  # the bus; at first it has had no time to
        self._turned_at_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="reading", daemon=True)
        # The newest view, and the same as it was published, before more was seen of the bus.
        self._newest = self._store.view, self._store.view
        self._rendering = threading.Lock()
        self._rendered = Exposition(self._store.view)

    @property
    def view(self) -> ClusterView:
        """The newest view."""
        return self._newest[0]

    def publish(self, now_ms: int) -> None:
        """Make the messages taken so far the newest view."""
        view = self._store.publish(now_ms)
        self._newest = view, view

    def exposition(self) -> Exposition:
        """The exposition of the newest view, rendered at the first scrape after it.

        Scrapes are rarer than cycles, and most views are never scraped.
        """
        with self._rendering:
            view, published = self._newest
            if self._rendered.view is not published:
                self._rendered = self._renderer.render(published)
            return replace(self._rendered, view=view)

    @property
    def why_stuck(self) -> str:
        """Why the exporter has to be started again; empty while reading gets on."""
        stood_s = time.monotonic() - self._turned_at_s
        if stood_s < STUCK_AFTER_S:
            return ""
        return f"no snapshots were read for {stood_s:.0f} s"

    def start(self) -> None:
        """Start reading."""
        if self._annotator is not None:
            self._annotator.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop within a few polls, without waiting for a connection in progress."""
        if self._annotator is not None:
            self._annotator.stop()
        self._stop.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        try:
            self._keep_reading()
        except Exception as error:
            # To go on would serve an ever older view; a supervisor can restart the process.
            log.exception("the reading of snapshots broke")
            self.broken = f"{type(error).__name__}: {error}"
            self._when_broken()

    def _keep_reading(self) -> None:
        logged, logged_at_s = "", 0.0
        while not self._stop.is_set():
            try:
                self._read()
            except BusError as error:
                now_s = time.monotonic()
                if error.unreachable:
                    self._note_bus(silent_since_ms=self._answered_at_ms)
                if (
                    str(error) != logged or now_s - logged_at_s >= LOG_AGAIN_AFTER_S
                ):  # not at each try
                    log.error("the bus cannot be read", error=str(error))
                    logged, logged_at_s = str(error), now_s
                self._turn()
                self._stop.wait(RETRY_PAUSE_S)

    def _read(self) -> None:
        names = bus_topics.topics(self._config)
        bus_topics.ensure_topics(self._config)
        if not self._config.bus.shards and not self._learn_shards():
            return
        starts: dict[str, Start] = {names.snapshots: "beginning", names.events: EVENTS_READ_BACK}
        with Reader(self._config, list(starts), starts) as reader:
            log.info("reading", topic=names.snapshots)
            self._events.begin(reader.ranges(names.events))
            ready = False
            while not self._stop.is_set():
                polled = reader.poll(POLL_MS)
                records = [record for record in polled if record.topic == names.snapshots]
                reported = [record for record in polled if record.topic == names.events]
                self._turn()
                # A backlog has many messages of each key: only the last readable one is needed.
                taken: set[bytes | None] = set()
                for record in reversed(records):
                    if record.key not in taken and self._store.take_snapshot(
                        record.key, record.value, record.timestamp_ms
                    ):
                        taken.add(record.key)
                for record in reported:
                    event = self._store.take_event(record.value)
                    self._events.take(record, event)
                    if event is not None and self._annotator is not None:
                        self._annotator.take(event)
                if not self._events.is_ready or reported:
                    self._events.publish(is_ready=reader.caught_up(names.events))
                # Old snapshots are not published one by one.
                if polled and (ready := ready or reader.caught_up(names.snapshots)):
                    self.publish(wall_clock_ms())
                if polled:
                    self._answered_at_ms = wall_clock_ms()
                self._look_at_bus(reader)

    def _learn_shards(self) -> bool:
        """Take the number of shards from the bus; false while the collector has not chosen it."""
        self._turn()
        known = with_shards_of_snapshots(self._config)
        if known is None:
            self._stop.wait(RETRY_PAUSE_S)
            return False
        self._config = known
        self._store.expect(known.bus.shards)
        return True

    def _turn(self) -> None:
        """Note that reading gets on, also while the bus does not answer."""
        self._turned_at_s = time.monotonic()
        touch_liveness_file(self._config.health.folder, "exporter")

    def _look_at_bus(self, reader: Reader) -> None:
        """While observations are late, find out whom they wait for: bus, collector or query."""
        if time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + LOOK_EVERY_S
        view, now_ms = self._store.view, wall_clock_ms()
        arrive: bool | None = None
        leaderless = ""
        if view.is_late(now_ms):
            observations = bus_topics.topics(self._config).observations
            try:
                since_ms = now_ms - view.rhythm.stale_after_ms
                arrive = reader.has_records_since(observations, since_ms)
                leaderless = reader.leaderless
            except BusError:
                self._note_bus(silent_since_ms=self._answered_at_ms)
                return
            self._answered_at_ms = wall_clock_ms()
        self._note_bus(observations_arrive=arrive, leaderless=leaderless)

    def _note_bus(self, **seen: Any) -> None:
        """Publish what was seen of the bus."""
        state = BusState(holds_cluster=not self._config.bus.bootstrap, **seen)
        self._newest = self._store.note_bus(state), self._newest[1]


def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError: an unknown client setting.
        CertificateError: the certificate cannot be used.
        ExporterError: reading failed, or Grafana is half configured.
        ListenError: the port is not available.
    """
    use_little_memory()
    connection.settings(config)
    annotator = _annotator(config)
    if config.exporter.mcp is True and (closed := why_closed(config.exporter)):
        log.warning(closed)
    certificate = certificate_of(config.access.certificate, config.access.key)
    listening = listen(config.exporter.host, config.exporter.port)
    events, past = EventLog(), past_of(config)
    asked = AskedGate(config) if config.gate.record else None
    source = ViewSource(
        catalog_of(config), config.cluster.name, lambda: reader.exposition(), events=events,
        own_topics=bus_topics.own_topics(config), newest=lambda: reader.view, past=past,
        asked=asked, stuck=lambda: reader.why_stuck,
    )  # fmt: skip
    app = application(source, config.exporter, config.access)
    server = Server(app, certificate, before_end=events.close)
    reader = SnapshotReader(config, server.end, annotator, events)
    reader.start()
    log.info("serving", url=url_of(listening, "http" if certificate is None else "https"))
    try:
        with looking(past), sending(asked):
            server.run(sockets=[listening])
    finally:
        reader.stop()
        listening.close()
        log.info("stopped")
    if reader.broken:
        raise ExporterError(f"reading snapshots failed: {reader.broken}")


def _annotator(config: Config) -> Annotator | None:
    if not (config.grafana.url and config.grafana.annotations):
        return None
    try:
        from streaming.grafana.client import GrafanaClient, GrafanaError
    except ModuleNotFoundError as missing:
        raise ExporterError(
            f"grafana.url is set, but {missing.name} is not installed: "
            "pip install 'kafka-twin[grafana]'"
        ) from None
    try:
        grafana = GrafanaClient(config.grafana)
    except GrafanaError as error:
        raise ExporterError(str(error)) from None
    return Annotator(config.cluster.name, grafana, since_ms=int(time.time() * 1_000))
