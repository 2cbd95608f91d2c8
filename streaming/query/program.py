"""``kafka-twin query``: the queries of all clusters that are configured, in one Spark session.

Clusters come, go and change while it runs. ``run`` blocks until SIGTERM or SIGINT, and then lets
running batches end, so that the next start does not write them again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from streaming.bus.shards import with_shards
from streaming.query.batch_metrics import BatchMetrics
from streaming.query.buses.lanes import Checkpoints, Lane, by_lane
from streaming.query.buses.running import RunningQuery
from streaming.query.buses.watched_buses import WatchedBuses
from streaming.query.session import spark_session
from streaming.runtime.configuration.following import Followed
from streaming.runtime.exposition.application import Registry
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_stop_signal

TURN_EVERY_S: Final = 0.5


def run(followed: Followed) -> None:
    """Run for the clusters of the configuration until SIGTERM or SIGINT.

    Raises:
        QueryError: the only query ended by itself.
        BusError, CheckpointError, JarError, SessionError: it could not start.
        MetricsPortError: the port for metrics cannot be used.
        PluginError: an installed package has rules that cannot be used.
    """
    common = followed.common
    catalog_of(common)  # tasks make their own; there an error would appear as Spark's
    stop, at = threading.Event(), common.metrics
    queries = Queries(followed)
    with (
        on_stop_signal(stop),
        served(
            queries.registry, at.host, at.query_port, "metrics.query_port", queries.why_unhealthy
        ),
        queries.buses.watching(),
    ):
        while not queries.buses.known():
            touch_liveness_file(common.health.folder, "query")
            if stop.wait(TURN_EVERY_S):
                return
            queries.follow()
        config = with_shards(common, sum(each.bus.shards for each in queries.buses.known()))
        buses = followed.configs.values()
        with spark_session(config, buses) as spark, queries.running(spark):
            while not stop.wait(TURN_EVERY_S):
                queries.follow()


class Queries:
    """The watched buses and the running queries, as the configuration says."""

    def __init__(self, followed: Followed) -> None:
        self.registry = Registry()
        self._followed = followed
        self.buses = WatchedBuses(followed)
        self._queries: dict[Lane, tuple[RunningQuery, BatchMetrics]] = {}
        self._spark: SparkSession | None = None

    def why_unhealthy(self) -> str:
        """A sentence for each query that stands still, and each bus that is away; may be empty."""
        each = {lane: metrics.why_unhealthy() for lane, (_, metrics) in [*self._queries.items()]}
        buses = self.buses.by_bus
        if len(each) == len(buses) == 1:
            return next(iter(each.values()))
        said = [f"{lane}: {why}" for lane, why in each.items() if why]
        said += [str(watched.failure) for watched in buses.values() if watched.failure]
        return "; ".join(said)

    @contextmanager
    def running(self, spark: SparkSession) -> Iterator[None]:
        """Let queries run while the block runs."""
        config = self._followed.common
        self._checkpoints = Checkpoints(
            spark, config.query.checkpoint, [*self.buses.by_bus], is_fleet=self._followed.is_fleet
        )
        self._spark = spark
        try:
            self.follow()
            yield
        finally:
            self._end(*self._queries)

    def follow(self) -> None:
        """Begin, change and end what the configuration and the buses say.

        Raises:
            BusError, QueryError: of the only one.
        """
        self.buses.follow()
        for query, _ in self._queries.values():
            if query.failure is not None:
                raise query.failure
        if self._spark is not None:
            self._run(self._spark)

    def _run(self, spark: SparkSession) -> None:
        """Run the queries of the clusters that are known, and no others."""
        is_fleet = self._followed.is_fleet
        lanes = by_lane(self.buses.known(), is_fleet=is_fleet)
        self._end(*(self._queries.keys() - lanes.keys()))
        for lane, configs in lanes.items():
            if lane in self._queries:
                self._queries[lane][0].change(configs)
                continue
            metrics = BatchMetrics(self.registry)
            checkpoint = self._checkpoints.of(lane)
            query = RunningQuery(
                spark, configs, checkpoint, metrics, self._is_one, is_fleet=is_fleet
            )
            self._queries[lane] = query, metrics
            query.start()

    def _is_one(self) -> bool:
        return len(self._queries) == 1

    def _end(self, *lanes: Lane) -> None:
        for lane in lanes:
            self._queries[lane][0].stop()
        for lane in lanes:
            query, metrics = self._queries.pop(lane)
            query.join()
            metrics.forget()
