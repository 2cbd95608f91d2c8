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
from pyspark.sql import SparkSession

from streaming.archive.archive_query import ArchiveQuery
from streaming.archive.own_metrics import OWN
from streaming.bus.connection import Bus
from streaming.bus.shards import with_shards
from streaming.history.archive.delta import ArchiveError
from streaming.query.buses.lanes import Checkpoints, Lane
from streaming.query.buses.watched_buses import WatchedBuses
from streaming.query.session import spark_session
from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from streaming.runtime.exposition.application import Registry
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.program_metrics import ProgramMetrics, served
from streaming.runtime.stop import on_stop_signal

TURN_EVERY_S: Final = 0.5


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
        archive.buses.watching(),
    ):
        while not (known := archive.buses.known()):
            touch_liveness_file(common.health.folder, "archive")
            if stop.wait(TURN_EVERY_S):
                return
            archive.follow()
        largest = max(each.bus.shards for each in known)
        config = as_program(with_shards(common, largest))
        buses = followed.configs.values()
        with spark_session(config, buses) as spark, archive.running(spark, config):
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
        self.buses = WatchedBuses(followed)
        self._metrics: dict[str, ProgramMetrics] = {}
        self._queries: dict[Bus, ArchiveQuery] = {}
        self._spark: SparkSession | None = None
        self._begin_metrics()

    @contextmanager
    def running(self, spark: SparkSession, config: Config) -> Iterator[None]:
        """Let queries run while the block runs; ``config`` is that of the program."""
        is_fleet = self._followed.is_fleet
        self._checkpoints = Checkpoints(
            spark, config.query.checkpoint, [*self.buses.by_bus], is_fleet=is_fleet
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
        self.buses.follow()
        self._begin_metrics()
        if self._spark is not None:
            self._run(self._spark)

    def _begin_metrics(self) -> None:
        for name in self._followed.configs.keys() - self._metrics.keys():
            self._metrics[name] = ProgramMetrics(name, OWN, self.registry)

    def _run(self, spark: SparkSession) -> None:
        """Run the queries of the clusters that are known, and no others."""
        buses = self.buses.by_bus.items()
        known = {bus: [*each.known.values()] for bus, each in buses if each.known}
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
