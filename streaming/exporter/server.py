"""Runs the exporter: threads read the buses, the main thread serves.

An unavailable bus is tried again without limit; meanwhile the last view is served.
"""

from __future__ import annotations

import time
from typing import Any

import structlog

from streaming.bus import connection
from streaming.bus.arrow import use_little_memory
from streaming.exporter.agents.door import why_closed
from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.followed_clusters import FollowedClusters
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.web_application import application
from streaming.grafana.annotate import Annotator
from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from streaming.runtime.errors import UserError
from streaming.runtime.plugins import catalog_of
from streaming.runtime.ports.sockets import url_of
from streaming.serving.certificate import certificate_of
from streaming.serving.http_server import Server, listen

log = structlog.get_logger("exporter")


class ExporterError(UserError, RuntimeError):
    """The exporter cannot go on: one line for the person who started it."""


def run(followed: Followed) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError: an unknown client setting.
        CertificateError: the certificate cannot be used.
        ExporterError: reading failed, or Grafana is half configured.
        ListenError: the port is not available.
    """
    use_little_memory()
    config, is_fleet = followed.common, followed.is_of_several
    if not is_fleet:
        connection.settings(config)
    annotator_of(config)
    if config.exporter.mcp is True and (closed := why_closed(config.exporter)):
        log.warning(closed)
    certificate = certificate_of(config.access.certificate, config.access.key)
    listening = listen(config.exporter.host, config.exporter.port)
    broken: list[str] = []

    def end(why: str) -> None:
        broken.append(why)
        server.end()

    clusters = ServedClusters()
    following = FollowedClusters(followed, clusters, annotator_of, None if is_fleet else end)
    following.begin()
    app: Any
    if is_fleet:
        app = fleet_application(clusters, catalog_of(config), config.exporter, config.access)
    else:
        app = application(clusters.sources[0], config.exporter, config.access)
    server = Server(app, certificate, before_end=following.close_events)
    following.start()
    log.info("serving", url=url_of(listening, "http" if certificate is None else "https"))
    try:
        server.run(sockets=[listening])
    finally:
        following.stop()
        listening.close()
        log.info("stopped")
    if broken:
        raise ExporterError(f"reading snapshots failed: {broken[0]}")


def annotator_of(config: Config) -> Annotator | None:
    """What annotates the events of a cluster; None if that is not configured.

    Raises:
        ExporterError: Grafana is half configured.
    """
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
