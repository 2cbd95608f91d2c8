"""A running query of some clusters of a bus, in a thread of its own.

It starts again when clusters come, go or change, or when the certificates of its clients are
renewed: that takes about a second. What ends it is tried again after a pause, and ends no query of
others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus.bus_topics import ensure_topics, topics
from streaming.query.batch_metrics import BatchMetrics
from streaming.query.buses.batch_limit import BatchLimit
from streaming.query.buses.restarts import run_despite_passing_causes
from streaming.query.client_files import ClientFiles
from streaming.query.cluster_shard import ClusterShards
from streaming.query.heartbeat import beating
from streaming.query.progress import Reports, log_fields
from streaming.query.remote_log.segment_readers import SegmentReaders
from streaming.query.stalled import Stall
from streaming.query.twin_query import (
    WATCH_EVERY_SECONDS,
    QueryError,
    end_batch_and_stop,
    start,
    until_end,
)
from streaming.query.why_failed import cause
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file

REPORT_EVERY_SECONDS: Final = 60
AGAIN_AFTER_S: Final = 10.0
"""How long a query that failed pauses, while others run."""

_POOL: Final = "spark.scheduler.pool"

log = structlog.get_logger("query")


class RunningQuery:
    """The query of these clusters, from ``start`` until ``stop``."""

    def __init__(
        self,
        spark: SparkSession,
        configs: Sequence[Config],
        checkpoint: str,
        metrics: BatchMetrics,
        is_alone: Callable[[], bool],
        *,
        is_fleet: bool,
    ) -> None:
        """Nothing is started yet.

        Args:
            spark: the session, which queries share.
            configs: the clusters, with their numbers of shards.
            checkpoint: of the query, as Spark takes it.
            metrics: of the query.
            is_alone: whether there is no other query; then what ends it ends the program.
            is_fleet: there may be several clusters.
        """
        self.failure: Exception | None = None  # why it ended, if it was the only one
        self._spark, self._checkpoint, self._metrics = spark, checkpoint, metrics
        self._configs, self._is_alone = [*configs], is_alone
        self._readers = SegmentReaders(spark, is_fleet=is_fleet)
        self._limit: BatchLimit | None = None
        self._has_failed = False
        self._stop, self._has_changed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"query {checkpoint}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def change(self, configs: Sequence[Config]) -> None:
        """Watch these clusters from now on."""
        if [*configs] != self._configs:
            self._configs = [*configs]
            self._has_changed.set()

    def stop(self) -> None:
        """Let the running batch end, and stop; ``join`` waits for it."""
        self._stop.set()

    def join(self) -> None:
        """Wait until it has stopped."""
        self._thread.join()

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                self._begin()
                return
            except Exception as error:
                if self._is_alone():
                    self.failure = error
                    return
                if str(error) != said:  # log each cause once
                    names = ", ".join(config.cluster.name for config in self._configs)
                    is_bug = not isinstance(error, UserError)
                    log.error("the query has ended", clusters=names, why=str(error),
                              again_in_s=AGAIN_AFTER_S, exc_info=is_bug)  # fmt: skip
                said = str(error)
                self._metrics.ended(said)
                self._stop.wait(AGAIN_AFTER_S)

    def _begin(self) -> None:
        self._spark.sparkContext.setLocalProperty(_POOL, self._checkpoint)
        with (
            beating(self._spark, self._checkpoint),
            closing(ClusterShards()) as clusters,
            closing(self._readers),
        ):
            while not self._stop.is_set():
                self._run_known(clusters)

    def _run_known(self, clusters: ClusterShards) -> None:
        """Run for the clusters that are known, until others are, or client files are renewed."""
        self._has_changed.clear()
        configs = self._configs
        config = configs[0]
        clusters.watch(configs)
        self._readers.read(configs)
        self._metrics.watch({c.cluster.name: topics(c).observations for c in configs})
        log.info("running", checkpoint=self._checkpoint,
                 clusters=", ".join(each.cluster.name for each in configs))  # fmt: skip
        longest_ms = max(config.query.trigger_ms, *(c.collector.interval_ms for c in configs))
        stall = Stall(self._spark.sparkContext, 3 * longest_ms / 1_000)
        limit = self._limit
        if limit is None or limit.configs != configs:
            limit = self._limit = BatchLimit(configs, before=limit.most if limit else 0)

        def run_query() -> None:
            files = ClientFiles(config.bus_client)
            if self._has_failed:  # a topic that was deleted ends the query of all
                for each in configs:
                    ensure_topics(each)
            self._has_failed = True
            query = start(self._spark, configs, self._checkpoint, limit.most)
            reports = Reports(query)
            try:
                ended = until_end(
                    self._stop, lambda: files.are_renewed() or self._has_changed.is_set()
                )
                self._watch(query, reports, ended, stall, clusters, limit, config)
                self._has_failed = False
            finally:
                end_batch_and_stop(query)
                for done in self._metrics.update(reports):
                    clusters.take(done)

        run_despite_passing_causes(run_query)

    def _watch(
        self,
        query: StreamingQuery,
        reports: Reports,
        has_ended: Callable[[], bool],
        stall: Stall,
        clusters: ClusterShards,
        limit: BatchLimit,
        config: Config,
    ) -> None:
        """Wait for the end, or for another limit; log the progress once a minute, and touch a file
        while there is progress."""
        waited, batch = 0.0, None
        while not has_ended():
            if not query.isActive:
                raise QueryError(cause(query, f"bus {config.bus_bootstrap}"))
            # Progress: no batch runs, or another one has ended. A hanging batch is not progress.
            newest = reports.newest()
            before, batch = batch, newest and newest["batchId"]
            if batch != before or not query.status["isTriggerActive"]:
                touch_liveness_file(config.health.folder, "query")
                stall.end()
            else:
                stall.check()
            done = self._metrics.update(reports)
            for each in done:
                clusters.take(each)
            self._metrics.stalled(stall.why)
            changes = [limit.has_changed(each) for each in done]
            if any(changes):
                return
            for name, is_running in self._readers.running():
                self._metrics.remote_segments(name, running=is_running)
            waited += WATCH_EVERY_SECONDS
            if newest is not None and waited % REPORT_EVERY_SECONDS == 0:
                log.info("progress", **log_fields(newest))
