"""``kafka-twin archive``: Spark queries that read snapshots and events, and write the archive.

It is a process of its own, so that neither the twin's query is held up nor this one by it. All
clusters of a bus share a query; clusters come, go and change while it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import structlog
from pyspark.sql import SparkSession

from streaming.archive.archive_query import ArchiveQuery
from streaming.archive.own_metrics import OWN
from streaming.bus.shards import with_shards
from streaming.history.archive.delta import ArchiveError
from streaming.query.buses.lanes import Bus, Checkpoints, Lane, by_bus
from streaming.query.buses.watched import Watched
from streaming.query.session import spark_session
from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from streaming.runtime.deadline import Deadline
from streaming.runtime.exposition.application import Registry
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.program_metrics import ProgramMetrics, served
from streaming.runtime.stop import on_stop_signal

TURN_EVERY_S: Final = 0.5
LOOK_AT_FILES_EVERY_S: Final = 5.0

log = structlog.get_logger("archive")


def run(followed: Followed) -> None:
    """Run for the clusters of the configuration until SIGTERM or SIGINT.

    Raises:
        QueryError: the query of a single cluster ended by itself.
        ArchiveError: no archive is configured, or that of a single cluster cannot be written.
        BusError, CheckpointError, JarError, SessionError: it could not start.
        MetricsPortError: the port for metrics cannot be used.
    """
    common = followed.common
    require_place(common)
    catalog_of(common)
    stop, at = threading.Event(), common.metrics
    archive = Archive(followed)
    with (
        on_stop_signal(stop),
        served(archive.registry, at.host, at.archive_port, "metrics.archive_port"),
        archive.watching(),
    ):
        while not (known := archive.known()):
            touch_liveness_file(common.health.folder, "archive")
            if stop.wait(TURN_EVERY_S):
                return
            archive.follow()
        largest = max(each.bus.shards for each in known)
        config = as_program(with_shards(common, largest))
        with spark_session(config) as spark, archive.running(spark, config):
            while not stop.wait(TURN_EVERY_S):
                archive.follow()


def require_place(config: Config) -> None:
    """Refuse what says no place for tables or checkpoint.

    Raises:
        ArchiveError: no archive is configured, or its checkpoint has no place.
    """
    if not config.archive.path:
        raise ArchiveError("archive.path: is not set: name a folder, or a URL such as s3://...")
    if "://" in config.archive.path and not config.archive.checkpoint:
        raise ArchiveError(
            "archive.checkpoint: must be set where archive.path is a URL, since Spark does not "
            "know all of them: name a folder that stays, or a URL that Spark can write"
        )


def as_program(config: Config) -> Config:
    """The configuration with the archive's own checkpoint and memory for its session."""
    archive = config.archive
    query = msgspec.structs.replace(
        config.query,
        checkpoint=archive.checkpoint or f"{archive.path.rstrip('/')}/checkpoint",
        master="local[1]" if config.query.master.startswith("local") else config.query.master,
        driver_memory=archive.driver_memory,
    )
    return msgspec.structs.replace(config, query=query)


class Archive:
    """The watched buses and the query of each, as the configuration says."""

    def __init__(self, followed: Followed) -> None:
        self.registry = Registry()
        self._followed = followed
        self._look = Deadline.after_s(LOOK_AT_FILES_EVERY_S)
        self._metrics: dict[str, ProgramMetrics] = {}
        self._buses: dict[Bus, Watched] = {}
        self._queries: dict[Bus, ArchiveQuery] = {}
        self._said: dict[Bus, str] = {}
        self._spark: SparkSession | None = None

    def known(self) -> list[Config]:
        """The clusters whose numbers of shards are known."""
        return [config for watched in self._buses.values() for config in watched.known.values()]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch buses while the block runs."""
        self._watch()
        try:
            yield
        finally:
            for watched in self._buses.values():
                watched.stop()

    @contextmanager
    def running(self, spark: SparkSession, config: Config) -> Iterator[None]:
        """Let queries run while the block runs; ``config`` is that of the program."""
        is_fleet = self._followed.is_fleet
        self._checkpoints = Checkpoints(
            spark, config.query.checkpoint, [*self._buses], is_fleet=is_fleet
        )
        self._spark = spark
        try:
            self.follow()
            yield
        finally:
            for query in self._queries.values():
                query.stop()

    def follow(self) -> None:
        """Begin, change and end what the configuration and the buses say.

        Raises:
            UserError: of that of a single cluster.
        """
        if self._look.is_over:
            self._look = Deadline.after_s(LOOK_AT_FILES_EVERY_S)
            if self._followed.look():
                self._watch()
        for bus, watched in self._buses.items():
            if not self._followed.is_fleet and not watched.known and watched.failure is not None:
                raise watched.failure
            why = str(watched.failure or "")
            if why and why != self._said.get(bus):  # log each cause once
                log.warning("unavailable", what=f"bus {bus.bootstrap}", why=why)
            self._said[bus] = why
        if self._spark is not None:
            self._run(self._spark)

    def _watch(self) -> None:
        """Watch the buses of the clusters that are configured, and no others."""
        configs = self._followed.configs
        for name in configs:
            if name not in self._metrics:
                self._metrics[name] = ProgramMetrics(name, OWN, self.registry)
        buses = by_bus(configs.values())
        for bus in self._buses.keys() - buses.keys():
            self._buses.pop(bus).stop()
        for bus, its in buses.items():
            if bus in self._buses:
                self._buses[bus].configure(its)
            else:
                self._buses[bus] = Watched(its)
                self._buses[bus].start()

    def _run(self, spark: SparkSession) -> None:
        """Run the queries of the clusters that are known, and no others."""
        known = {bus: [*each.known.values()] for bus, each in self._buses.items() if each.known}
        for bus in self._queries.keys() - known.keys():
            self._queries.pop(bus).stop()
        for bus, configs in known.items():
            if bus not in self._queries:
                self._queries[bus] = ArchiveQuery(
                    spark, self._checkpoints.of(Lane(bus)), self._metrics,
                    is_fleet=self._followed.is_fleet,
                )  # fmt: skip
            self._queries[bus].check(configs)
        running = {name for query in self._queries.values() for name in query.clusters}
        for name in self._metrics.keys() - self._followed.configs.keys() - running:
            self._metrics.pop(name).forget()
