"""Serves a capsule: API and console of its span, without a bus, Kafka or Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from streaming.bus.arrow import use_little_memory
from streaming.bus.record import Record
from streaming.exporter.events.log import EventLog
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.history.capsules.capsule_past import CapsulePast, event_of
from streaming.history.capsules.opening import Capsule
from streaming.history.moment import time_text
from streaming.runtime.config import AccessConfig, ExporterConfig
from streaming.serving.certificate import certificate_of
from streaming.serving.http_server import Server, listen


def serve(
    path: Path, config: ExporterConfig, access: AccessConfig, say: Callable[[str], None]
) -> None:
    """Serve the capsule until SIGTERM or SIGINT.

    Raises:
        CapsuleError: the file cannot be opened.
        CertificateError: the certificate cannot be used.
        ListenError: the port is not available.
    """
    use_little_memory()
    certificate = certificate_of(access.certificate, access.key)
    with closing(Capsule(path)) as opened, closing(listen(config.host, config.port)) as listening:
        source = source_of(opened)
        app = application(source, config, access)
        server = Server(app, certificate, before_end=source.events.close)
        host, port = listening.getsockname()[:2]
        saved_by = f"kafka-twin {opened.manifest.product_version}"
        for table in opened.discarded:
            say(f"{saved_by} saved a table that is not used: {table}")
        scheme = "http" if certificate is None else "https"
        say(f"{opened.title}: {scheme}://{host}:{port}/")
        server.run(sockets=[listening])


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
        log.take(Record("events", 0, offset, None, data, 0), event_of(data))
    log.publish()
    return log
