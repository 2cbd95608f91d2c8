"""The Spark query itself: one source, one stateful step a shard, one sink.

Beside it runs a small query that reads Kafka's own topic of remote segments and writes what it
reads as observations. It is a separate query because a source asks the leader of every partition
before each batch: while a broker of the watched cluster is frozen, only that query waits for it.

``run`` blocks until SIGTERM or SIGINT, and then lets the running batch end, so that the next start
does not write it again. When the certificates of its clients are renewed, both queries start again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.bus.shards import await_shards
from streaming.query.batch_metrics import BatchMetrics
from streaming.query.client_files import ClientFiles
from streaming.query.cluster_shard import ClusterShard, without_reports
from streaming.query.heartbeat import beating
from streaming.query.kafka_options import OUTPUT, kafka_stream, sink_options
from streaming.query.processor import TwinProcessor
from streaming.query.progress import log_fields, progress_data
from streaming.query.remote_log.remote_query import RemoteSegmentsQuery
from streaming.query.restarts import run_despite_passing_causes
from streaming.query.session import SMALL_UP_TO_SHARDS, STOP_WITHIN_SECONDS, spark_session
from streaming.query.stalled import Stall
from streaming.query.state.checkpoint import location
from streaming.query.state.state_keys import state_keys
from streaming.query.why_failed import cause
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of, enabled_proposals
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_stop_signal

REPORT_EVERY_SECONDS: Final = 60
WATCH_EVERY_SECONDS: Final = 0.5
LOOK_FOR_CYCLES_EVERY_MS: Final = 200
"""How soon a cycle is noticed once all of it is on the bus; a look asks brokers for their ends."""

SMALL_LOOKS_EVERY_MS: Final = 500
"""The same of a small cluster, where looks take a sixth of the JVM's time."""


log = structlog.get_logger("query")


class QueryError(UserError, RuntimeError):
    """The query ended by itself; the message is its cause in one line."""


def start(spark: SparkSession, config: Config, **trigger: Any) -> StreamingQuery:
    """The running query; ``trigger`` defaults to the configured interval."""
    topics = bus_topics.topics(config)
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
        .options(**sink_options(config))
        .option("checkpointLocation", location(config.query.checkpoint))
        .queryName("kafka-twin")
        .outputMode("append")
        .trigger(**(trigger or {"processingTime": f"{_look_every_ms(config)} milliseconds"}))
        .start()
    )


def _observations(spark: SparkSession, config: Config, source: Mapping[str, str]) -> DataFrame:
    """The observations of collector and taps, as a stream."""
    records = kafka_stream(
        spark,
        config.bus_bootstrap,
        config.bus_client,
        config.query.max_offsets_per_trigger,
        subscribe=bus_topics.topics(config).observations,
        **source,
    )
    return records.select(
        F.coalesce(F.col("key").cast("string"), F.lit("")).alias("key"),
        F.coalesce(F.col("value"), F.lit(b"")).alias("value"),
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
    )


def _state_key(config: Config) -> Column:
    """The key of the state for the key of an observation; unchanged for other clusters."""
    keys = state_keys(config.cluster.name, config.bus.shards)
    pairs = F.create_map(*(F.lit(text) for pair in keys.items() for text in pair))
    return F.coalesce(F.try_element_at(pairs, F.col("key")), F.col("key"))


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
        bus_topics.ensure_topics(config)
        known = await_shards(
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
                beside = RemoteSegmentsQuery(spark, config)
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


def _watch(
    query: StreamingQuery,
    beside: RemoteSegmentsQuery | None,
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
