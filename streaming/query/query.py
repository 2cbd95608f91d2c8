"""The Spark query itself: one source, one stateful step a shard, one sink.

Beside it runs a small query that reads Kafka's own topic of remote segments and writes what it
reads as observations. It is a separate query because a source asks the leader of every partition
before each batch: while a broker of the watched cluster is frozen, only that query waits for it.

``run`` blocks until SIGTERM or SIGINT, and then lets the running batch end, so that the next start
does not write it again. When the certificates of its clients are renewed, both queries start again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

from streaming import bus
from streaming.query.batch_metrics import BatchMetrics
from streaming.query.causes import cause
from streaming.query.client_files import ClientFiles
from streaming.query.cluster_shard import ClusterShard, without_reports
from streaming.query.heartbeat import beating
from streaming.query.kafka_options import kafka_options
from streaming.query.processor import TwinProcessor
from streaming.query.progress import log_fields, progress_data
from streaming.query.remote_log.metadata import as_observations
from streaming.query.restarts import run_despite_passing_causes
from streaming.query.session import SMALL_UP_TO_SHARDS, STOP_WITHIN_SECONDS, spark_session
from streaming.query.stalled import Stall
from streaming.query.state.checkpoint import location
from streaming.query.state.keys import state_keys
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.health import touch_liveness_file
from streaming.runtime.kafka import remote_log_access
from streaming.runtime.plugins import catalog_of, enabled_proposals
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_stop_signal

OUTPUT: Final = "topic string, key string, value binary"
REPORT_EVERY_SECONDS: Final = 60
WATCH_EVERY_SECONDS: Final = 0.5
AGAIN_AFTER_SECONDS: Final = 10
LOOK_FOR_CYCLES_EVERY_MS: Final = 200
"""How soon a cycle is noticed once all of it is on the bus; a look asks brokers for their ends."""

SMALL_LOOKS_EVERY_MS: Final = 500
"""The same of a small cluster, where looks take a sixth of the JVM's time."""

LOOK_EVERY_SECONDS: Final = 15
"""How often the right to read remote segments is checked."""

REMOTE_RECORDS_A_BATCH: Final = 100_000
"""At the first start the whole history of remote segments is read, some seconds for each batch."""

REQUEST_TIMEOUT_MS: Final = 3_000
"""Request timeout of the source, unless the client settings have another one."""

FETCH_WAIT_MS: Final = 10
"""How long a broker keeps a fetch that finds nothing: Kafka's default is half a second.

Spark reads only records that it knows to exist. But its consumer also sends the next fetch ahead,
and then requests the partition's first and last offset on the same connection: that request waits
for the fetch. For four tasks on two cores this took a second in each batch.
"""

WRITE_TIMEOUT_MS: Final = 5_000
"""Delivery timeout of the sinks, unless the client settings have another one."""

_REMOTE: Final = "remote-segments"
"""Folder below the checkpoint. Deleting it makes Spark read the whole history again."""

log = structlog.get_logger("query")


class QueryError(UserError, RuntimeError):
    """The query ended by itself; the message is its cause in one line."""


def start(spark: SparkSession, config: Config, **trigger: Any) -> StreamingQuery:
    """The running query; ``trigger`` defaults to the configured interval."""
    topics = bus.topics(config)
    source = {} if trigger else whole_cycle_options(config)
    output = (
        _observations(spark, config, source)
        .withColumn("state_key", _state_key(config))
        .groupBy("state_key")
        .transformWithState(
            statefulProcessor=TwinProcessor(
                config.bus.shards, topics.snapshots, topics.events, enabled_proposals(config)
            ),
            outputStructType=OUTPUT,
            outputMode="Append",
            timeMode="None",
        )
    )
    return (
        without_reports(output)
        .writeStream.format("kafka")
        .options(**_sink(config))
        .option("checkpointLocation", location(config.query.checkpoint))
        .queryName("kafka-twin")
        .outputMode("append")
        .trigger(**(trigger or {"processingTime": f"{_look_every_ms(config)} milliseconds"}))
        .start()
    )


def _observations(spark: SparkSession, config: Config, source: Mapping[str, str]) -> DataFrame:
    """The observations of collector and taps, as a stream."""
    client = config.bus_client
    return (
        spark.readStream.format("kafka")
        .options(**source_options(config.bus_bootstrap, client))
        .options(**source)
        .option("subscribe", bus.topics(config).observations)
        .option("startingOffsets", "earliest")  # without a checkpoint, start with the oldest record
        # Old observations are useless once newer ones exist: losing some is not a failure.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", config.query.max_offsets_per_trigger)
        .load()
        .select(
            F.coalesce(F.col("key").cast("string"), F.lit("")).alias("key"),
            F.coalesce(F.col("value"), F.lit(b"")).alias("value"),
            "topic",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
        )
    )


def _state_key(config: Config) -> Column:
    """The key of the state for the key of an observation; unchanged for other clusters."""
    keys = state_keys(config.cluster.name, config.bus.shards)
    pairs = F.create_map(*(F.lit(text) for pair in keys.items() for text in pair))
    return F.coalesce(F.try_element_at(pairs, F.col("key")), F.col("key"))


def start_remote_segments(spark: SparkSession, config: Config, **trigger: Any) -> StreamingQuery:
    """The running query that makes observations from the brokers' records about remote segments.

    It subscribes by a pattern, since a cluster without remote storage lacks the topic, but may get
    it.
    """
    client = dict(config.cluster.client)
    topics = bus.topics(config)
    observations = (
        spark.readStream.format("kafka")
        .options(**source_options(config.cluster.bootstrap, client))
        .option("subscribePattern", remote_log_access.TOPIC)
        .option("startingOffsets", "earliest")  # the topic has the whole history
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", REMOTE_RECORDS_A_BATCH)
        .load()
        .select(
            "value",
            "topic",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
        )
        # One task: it waits while a partition's leader is frozen, and two waiting tasks would use
        # all slots of a small machine (measured: no snapshot for 37 s).
        .coalesce(1)
        .mapInArrow(
            partial(
                as_observations,
                cluster=config.cluster.name,
                shards=config.bus.shards,
                observations=topics.observations,
                events_topic=topics.events,
            ),
            OUTPUT,
        )
    )
    return (
        observations.writeStream.format("kafka")
        .options(**_sink(config))
        .option("checkpointLocation", location(config.query.checkpoint, _REMOTE))
        .queryName("kafka-twin-remote-segments")
        .outputMode("append")
        .trigger(**(trigger or {"processingTime": f"{config.query.trigger_ms} milliseconds"}))
        .start()
    )


def whole_cycle_options(config: Config) -> dict[str, str]:
    """Options of the source that let a batch begin when a cycle of the collector is complete.

    The collector sends a message a shard, or more, within some tenths of a second. A batch that
    began in between would leave the rest to another batch, with its own fixed costs. Less than a
    cycle, as from a tap, waits at most ``query.trigger_ms``.
    """
    return {
        "minOffsetsPerTrigger": str(config.bus.shards),
        "maxTriggerDelay": f"{config.query.trigger_ms}ms",
    }


def _look_every_ms(config: Config) -> int:
    is_small = config.bus.shards <= SMALL_UP_TO_SHARDS
    every_ms = SMALL_LOOKS_EVERY_MS if is_small else LOOK_FOR_CYCLES_EVERY_MS
    return min(every_ms, config.query.trigger_ms)


def source_options(bootstrap: str, client: Mapping[str, Any]) -> dict[str, str]:
    """Options of a source that does not wait for a broker that is gone.

    Before each batch the driver asks the partitions' leaders for their ends. If the leader is lost
    while it has the request, the client waits for that broker, a minute by default, although
    another broker leads by then (seen: the twin stood still for 50 s after a broker was killed).
    """
    request_ms = int(client.get("request_timeout_ms", REQUEST_TIMEOUT_MS))
    return {
        **kafka_options(bootstrap, client),
        "kafka.request.timeout.ms": str(request_ms),
        "kafka.default.api.timeout.ms": str(request_ms + 2_000),  # must not be shorter
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "fetchOffset.numRetries": "20",
        "fetchOffset.retryIntervalMs": "500",
    }


def _sink(config: Config) -> dict[str, str]:
    """Options of a sink that does not wait half a minute for a frozen broker.

    The producer waits that long by default, even with requests that any broker can answer: producer
    id, and metadata (measured: no snapshot for 20 s although no bus topic was on that broker).
    Retries do not write twice: the producer is idempotent.
    """
    client = kafka_options(config.bus_bootstrap, config.bus_client)
    return {"kafka.request.timeout.ms": str(WRITE_TIMEOUT_MS), **client}


def run(config: Config) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        QueryError: the query ended by itself.
        BusError, CheckpointError, JarError, SessionError: it could not start.
        MetricsPortError: the port for metrics cannot be used.
        PluginError: an installed package has rules that cannot be used.
    """
    catalog_of(config)  # tasks make their own; there an error would appear as Spark's
    stop, at = threading.Event(), config.metrics
    metrics = BatchMetrics(config.cluster.name)
    with (
        on_stop_signal(stop),
        served(
            metrics.registry, at.host, at.query_port, "metrics.query_port", metrics.why_unhealthy
        ),
    ):
        bus.ensure_topics(config)
        known = bus.await_shards(
            config, stop, lambda: touch_liveness_file(config.health.folder, "query")
        )
        if known is not None:
            _run(known, stop, metrics)


def _run(config: Config, stop: threading.Event, metrics: BatchMetrics) -> None:
    checkpoint = location(config.query.checkpoint)
    with (
        spark_session(config) as spark,
        beating(spark, checkpoint),
        closing(ClusterShard(config)) as cluster,
    ):
        beside = None
        try:
            if config.query.remote_log_metadata:
                beside = _RemoteSegmentsQuery(spark, config)
            log.info("running", checkpoint=checkpoint)
            clients = [config.bus_client, *([config.cluster.client] if beside else [])]
            longest_ms = max(config.collector.interval_ms, config.query.trigger_ms)
            stall = Stall(spark.sparkContext, 3 * longest_ms / 1_000)

            def run_query() -> None:
                files = ClientFiles(*clients)
                query = start(spark, config)
                try:
                    ended = until_end(stop, files)
                    _watch(query, beside, ended, stall, metrics, cluster, config)
                finally:
                    end_batch_and_stop(query)
                    for done in metrics.update(query):
                        cluster.take(done)

            while not stop.is_set():
                run_despite_passing_causes(run_query)
                if beside is not None:
                    beside.stop()  # its clients are made of the same files
        finally:  # an existing session must continue without it, also after an error
            if beside is not None:
                beside.stop()


class _RemoteSegmentsQuery:
    """The query of remote segments. It is restarted when it fails, while the twin continues.

    Without the right to read them it is not started, or it is stopped. Without DESCRIBE, Spark
    would read nothing and report nothing.
    """

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._spark, self._config = spark, config
        self._query: StreamingQuery | None = None
        self._again_at = self._look_at = 0.0
        self._forbidden = ""
        self.check()

    @property
    def is_running(self) -> bool:
        """Whether it was started, and ``check`` has not seen it end."""
        return self._query is not None

    def check(self) -> None:
        """Restart it some time after it ended, if reading is allowed."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look(remote_log_access.read_denied_reason(self._config))
            self._look_at = time.monotonic() + LOOK_EVERY_SECONDS
        if self._query is not None and not self._query.isActive:
            log.warning("unavailable", what="remote segments", why=self._cause())
            self._query, self._again_at = None, now + AGAIN_AFTER_SECONDS
        if self._query is None and not self._forbidden and now >= self._again_at:
            self._query = start_remote_segments(self._spark, self._config)

    def _cause(self) -> str:
        assert self._query is not None
        return cause(self._query, f"cluster {self._config.cluster.bootstrap}")

    def _look(self, why_not: str) -> None:
        if why_not and why_not != self._forbidden:
            log.warning("unavailable", what=remote_log_access.TOPIC, why=why_not,
                        without="findings on remote segments")  # fmt: skip
            self.stop()
        elif self._forbidden and not why_not:
            log.info("recovered", what=remote_log_access.TOPIC)
        self._forbidden = why_not

    def stop(self) -> None:
        """Stop it. An interrupted batch is repeated at the next start; duplicates are discarded."""
        if self._query is not None:
            self._query.stop()
            self._query = None


def _watch(
    query: StreamingQuery,
    beside: _RemoteSegmentsQuery | None,
    has_ended: Callable[[], bool],
    stall: Stall,
    metrics: BatchMetrics,
    cluster: ClusterShard,
    config: Config,
) -> None:
    """Wait for the end; log the progress once a minute, and touch a file while there is
    progress."""
    waited, batch = 0.0, None
    while not has_ended():
        if not query.isActive:
            raise QueryError(cause(query, f"bus {config.bus_bootstrap}"))
        # Progress: no batch runs, or another one has ended. A hanging batch is not progress.
        newest = progress_data(query.lastProgress)
        before, batch = batch, newest and newest["batchId"]
        if batch != before or not query.status["isTriggerActive"]:
            touch_liveness_file(config.health.folder, "query")
            stall.end()
        else:
            stall.check()
        for ended in metrics.update(query, newest):
            cluster.take(ended)
        metrics.stalled(stall.why)
        if beside is not None:
            beside.check()
            metrics.remote_segments(running=beside.is_running)
        waited += WATCH_EVERY_SECONDS
        if newest is not None and waited % REPORT_EVERY_SECONDS == 0:
            log.info("progress", **log_fields(newest))


def until_end(stop: threading.Event, files: ClientFiles) -> Callable[[], bool]:
    """A wait for the next look at a query: it says whether the query is to end, since the program
    stops or its clients' files are renewed."""
    return lambda: stop.wait(WATCH_EVERY_SECONDS) or files.are_renewed()


def end_batch_and_stop(query: StreamingQuery) -> None:
    """Let the running batch end: stopping inside it would make the next start repeat it.

    If batches take longer than the trigger's interval, the next one begins at once; when it is
    stopped then, it has not written anything yet.
    """
    running = _batch(query)
    _until(
        lambda: not query.status["isTriggerActive"] or _batch(query) != running,
        STOP_WITHIN_SECONDS,
    )
    query.stop()
    log.info("stopped")


def _batch(query: StreamingQuery) -> Any:
    """The number of the last completed batch."""
    progress = progress_data(query.lastProgress)
    return progress.get("batchId") if progress else None


def _until(condition: Callable[[], bool], seconds: float) -> None:
    tick = threading.Event()
    for _ in range(int(seconds * 100)):
        if condition():
            return
        tick.wait(0.01)
