"""Serves a capsule: API and console of its span, without a bus, Kafka or Spark."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path

import msgspec

from streaming.bus.arrow import use_little_memory
from streaming.bus.keys import Record
from streaming.bus.view import Event
from streaming.exporter.api import application
from streaming.exporter.events.log import EventLog
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.source import ViewSource
from streaming.exporter.web import Server, listen
from streaming.history.changes import ChangeTimes
from streaming.history.moments import time_text
from streaming.history.opening import Capsule
from streaming.history.past import PastView, Span
from streaming.runtime.config import ExporterConfig


def serve(path: Path, config: ExporterConfig, say: Callable[[str], None]) -> None:
    """Serve the capsule until SIGTERM or SIGINT.

    Raises:
        CapsuleError: the file cannot be opened.
        ExporterError: the port is not available.
    """
    use_little_memory()
    with closing(Capsule(path)) as opened, closing(listen(config.host, config.port)) as listening:
        source = source_of(opened)
        server = Server(application(source, config), source.events)
        host, port = listening.getsockname()[:2]
        saved_by = f"kafka-twin {opened.manifest.product_version}"
        for table in opened.discarded:
            say(f"{saved_by} saved a table that is not used: {table}")
        say(f"{opened.title}: http://{host}:{port}/")
        server.run(sockets=[listening])


class CapsulePast:
    """The past of a capsule: views by replay, and changes from its events."""

    def __init__(self, opened: Capsule) -> None:
        self._opened = opened

    @property
    def span(self) -> Span:
        """All of the capsule."""
        return self._opened.replay.span

    @cached_property
    def changes(self) -> ChangeTimes:
        """When the changes were. They are read when somebody asks first."""
        return ChangeTimes.of(self._opened.events, self._opened.catalog)

    @cached_property
    def _dated(self) -> tuple[list[int], list[bytes]]:
        """The times of the events, in order, and the events."""
        dated = [(event.at_ms, data) for data in self._opened.events if (event := _event(data))]
        dated.sort(key=lambda each: each[0])
        return [at_ms for at_ms, _ in dated], [data for _, data in dated]

    def cycles(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """The times of the cycles between two moments, both included."""
        return self._opened.replay.cycles(from_ms, to_ms)

    def events(self, from_ms: int, to_ms: int) -> Sequence[bytes]:
        """The events between two moments, both included. They are read when somebody asks first."""
        times, events = self._dated
        return events[bisect_left(times, from_ms) : bisect_right(times, to_ms)]

    def view(self, at_ms: int) -> PastView:
        """The cluster at a moment of the span."""
        return self._opened.replay.view(at_ms)


def source_of(opened: Capsule) -> ViewSource:
    """The source of a capsule's answers: its newest cycle, and all moments before."""
    manifest, replay = opened.manifest, opened.replay
    newest = replay.view(replay.span.end_ms)
    return ViewSource(
        opened.catalog,
        manifest.cluster,
        current=lambda: Exposition(newest.view),
        now_ms=lambda: newest.at_ms,
        events=event_log(opened),
        own_topics=manifest.own_topics,
        newest=lambda: newest.view,
        past=CapsulePast(opened),
        not_live=f"{opened.title}; shown is {time_text(newest.at_ms)}",
    )


def event_log(opened: Capsule) -> EventLog:
    """The events of a capsule, as if they had just been read from the bus."""
    log, events = EventLog(), opened.events
    log.begin({0: (0, len(events))})
    for offset, data in enumerate(events):
        log.take(Record("events", 0, offset, None, data, 0), _event(data))
    log.publish()
    return log


def _event(data: bytes) -> Event | None:
    try:
        return msgspec.json.decode(data, type=Event)
    except msgspec.MsgspecError:  # of a stranger's capsule
        return None
