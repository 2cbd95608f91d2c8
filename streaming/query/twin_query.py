"""The Spark query itself: one source, one stateful step a shard, one sink, for all clusters.

Beside it runs a small query that reads Kafka's own topic of remote segments and writes what it
reads as observations. It is a separate query because a source asks the leader of every partition
before each batch: while a broker of the watched cluster is frozen, only that query waits for it.

``run`` blocks until SIGTERM or SIGINT, and then lets the running batch end, so that the next start
does not write it again. When the certificates of its clients are renewed, both queries start again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.query.batch_metrics import BatchMetrics
from streaming.query.client_files import ClientFiles
from streaming.query.cluster_shard import ClusterShards, without_reports
from streaming.query.heartbeat import beating
from streaming.query.kafka_options import OUTPUT, kafka_stream, sink_options
from streaming.query.processor import Destination, TwinProcessor
from streaming.query.progress import log_fields, progress_data
from streaming.query.remote_log.remote_query import RemoteSegmentsQuery
from streaming.query.restarts import run_despite_passing_causes
from streaming.query.session import SMALL_UP_TO_SHARDS, STOP_WITHIN_SECONDS, spark_session
from streaming.query.stalled import Stall
from streaming.query.state.checkpoint import location
from streaming.query.state.state_keys import state_keys
from streaming.query.watched import Watched
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


def start(spark: SparkSession, configs: Sequence[Config], **trigger: Any) -> StreamingQuery:
    """The running query of these clusters, which share a bus; ``trigger`` defaults to the
    configured interval."""
    config = configs[0]  # for what all have in common
    source = {} if trigger else whole_cycle_options(configs)
    output = (
        _observations(spark, configs, source)
        .withColumn("state_key", _state_key(configs))
        .groupBy("state_key")
        .transformWithState(
            statefulProcessor=TwinProcessor(
                {one.cluster.name: _destination(one) for one in configs}, enabled_proposals(config)
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
        .trigger(**(trigger or {"processingTime": f"{_look_every_ms(configs)} milliseconds"}))
        .start()
    )


def _destination(config: Config) -> Destination:
    topics = bus_topics.topics(config)
    return Destination(config.bus.shards, topics.snapshots, topics.events)


def _observations(
    spark: SparkSession, configs: Sequence[Config], source: Mapping[str, str]
) -> DataFrame:
    """The observations of collectors and taps, as a stream."""
    records = kafka_stream(
        spark,
        configs[0].bus_bootstrap,
        configs[0].bus_client,
        configs[0].query.max_offsets_per_trigger,
        subscribe=",".join(bus_topics.topics(config).observations for config in configs),
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


def _state_key(configs: Sequence[Config]) -> Column:
    """The key of the state for the key of an observation; unchanged for other clusters."""
    keys = [
        pair
        for config in configs
        for pair in state_keys(config.cluster.name, config.bus.shards).items()
    ]
    pairs = F.create_map(*(F.lit(text) for pair in keys for text in pair))
    return F.coalesce(F.try_element_at(pairs, F.col("key")), F.col("key"))


def whole_cycle_options(configs: Sequence[Config]) -> dict[str, str]:
    """Options of the source that let a batch begin when a cycle of a cluster is complete.

    The collector sends a message a shard, or more, within some tenths of a second. A batch that
    began in between would leave the rest to another batch, with its own fixed costs. Less than a
    cycle, as from a tap, waits at most ``query.trigger_ms``.
    """
    return {
        "minOffsetsPerTrigger": str(min(config.bus.shards for config in configs)),
        "maxTriggerDelay": f"{configs[0].query.trigger_ms}ms",
    }


def _look_every_ms(configs: Sequence[Config]) -> int:
    is_small = sum(config.bus.shards for config in configs) <= SMALL_UP_TO_SHARDS
    every_ms = SMALL_LOOKS_EVERY_MS if is_small else LOOK_FOR_CYCLES_EVERY_MS
    return min(every_ms, configs[0].query.trigger_ms)


def run(configs: Sequence[Config]) -> None:
    """Run for these clusters until SIGTERM or SIGINT.

    Raises:
        QueryError: the query ended by itself.
        BusError, CheckpointError, JarError, SessionError: it could not start.
        ConfigError: the clusters do not share a bus.
        MetricsPortError: the port for metrics cannot be used.
        PluginError: an installed package has rules that cannot be used.
    """
    config, watched = configs[0], Watched(configs)
    catalog_of(config)  # tasks make their own; there an error would appear as Spark's
    stop, at = threading.Event(), config.metrics
    metrics = BatchMetrics(config.cluster.name)
    with (
        on_stop_signal(stop),
        served(
            metrics.registry, at.host, at.query_port, "metrics.query_port", metrics.why_unhealthy
        ),
    ):
        if watched.wait(stop, lambda: touch_liveness_file(config.health.folder, "query")):
            _run(watched, stop, metrics)


def _run(watched: Watched, stop: threading.Event, metrics: BatchMetrics) -> None:
    config = watched.known[0]
    checkpoint = location(config.query.checkpoint)
    with spark_session(config) as spark, beating(spark, checkpoint):
        while not stop.is_set():
            _run_known(spark, watched, stop, metrics)


def _run_known(
    spark: SparkSession, watched: Watched, stop: threading.Event, metrics: BatchMetrics
) -> None:
    """Run for the clusters that are known, until another is, or client files are renewed."""
    configs = watched.known
    config = configs[0]
    with closing(ClusterShards(configs)) as clusters:
        beside = [
            RemoteSegmentsQuery(spark, each, each.cluster.name if watched.are_several else "")
            for each in configs
            if each.query.remote_log_metadata
        ]
        log.info("running", checkpoint=location(config.query.checkpoint),
                 clusters=", ".join(each.cluster.name for each in configs))  # fmt: skip
        clients = [config.bus_client, *(each.cluster.client for each in configs if beside)]
        longest_ms = max(config.query.trigger_ms, *(c.collector.interval_ms for c in configs))
        stall = Stall(spark.sparkContext, 3 * longest_ms / 1_000)

        def run_query() -> None:
            files = ClientFiles(*clients)
            query = start(spark, configs)
            try:
                ended = until_end(stop, lambda: files.are_renewed() or watched.has_more())
                _watch(query, beside, ended, stall, metrics, clusters, config)
            finally:
                end_batch_and_stop(query)
                for done in metrics.update(query):
                    clusters.take(done)

        try:
            run_despite_passing_causes(run_query)
        finally:  # an existing session must continue without them, also after an error
            for each in beside:
                each.stop()


def _watch(
    query: StreamingQuery,
    beside: Sequence[RemoteSegmentsQuery],
    has_ended: Callable[[], bool],
    stall: Stall,
    metrics: BatchMetrics,
    clusters: ClusterShards,
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
            clusters.take(ended)
        metrics.stalled(stall.why)
        for each in beside:
            each.check()
        if beside:
            metrics.remote_segments(running=all(each.is_running for each in beside))
        waited += WATCH_EVERY_SECONDS
        if newest is not None and waited % REPORT_EVERY_SECONDS == 0:
            log.info("progress", **log_fields(newest))


def until_end(stop: threading.Event, has_changed: Callable[[], bool]) -> Callable[[], bool]:
    """A wait for the next look at a query: it says whether the query is to end, since the program
    stops or what it was started with has changed."""
    return lambda: stop.wait(WATCH_EVERY_SECONDS) or has_changed()


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
