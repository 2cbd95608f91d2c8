"""``kafka-twin archive``: a Spark query that reads snapshots and events, and writes the archive.

It is a query of its own, in a process of its own, so that neither holds the twin's query up nor is
held up by it. Spark keeps, in the checkpoint, which records belong to which batch; a batch that was
interrupted is repeated with the same records, and each table takes each batch once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.archive.batches import Batches
from streaming.archive.own_metrics import OWN
from streaming.bus import bus_topics
from streaming.bus.shards import await_shards
from streaming.history.archive.delta import ArchiveError, ArchiveTables
from streaming.query.client_files import ClientFiles
from streaming.query.heartbeat import beating
from streaming.query.kafka_options import kafka_stream
from streaming.query.session import spark_session
from streaming.query.state.checkpoint import location
from streaming.query.twin_query import QueryError, end_batch_and_stop, until_end
from streaming.query.why_failed import cause
from streaming.runtime.config import Config
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.program_metrics import ProgramMetrics, served
from streaming.runtime.stop import on_stop_signal

_CYCLES_A_BATCH: Final = 30
_LEAST_A_BATCH: Final = 1_000

log = structlog.get_logger("archive")


def run(config: Config) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        QueryError: the query ended by itself.
        ArchiveError: no archive is configured, or it cannot be written.
        BusError, CheckpointError, JarError, SessionError: it could not start.
        MetricsPortError: the port for metrics cannot be used.
    """
    if not config.archive.path:
        raise ArchiveError("archive.path: is not set: name a folder, or a URL such as s3://...")
    if "://" in config.archive.path and not config.archive.checkpoint:
        raise ArchiveError(
            "archive.checkpoint: must be set where archive.path is a URL, since Spark does not "
            "know all of them: name a folder that stays, or a URL that Spark can write"
        )
    catalog_of(config)
    stop, at = threading.Event(), config.metrics
    metrics = ProgramMetrics(config.cluster.name, OWN)
    with (
        on_stop_signal(stop),
        served(metrics.registry, at.host, at.archive_port, "metrics.archive_port"),
    ):
        bus_topics.ensure_topics(config)
        known = await_shards(
            config, stop, lambda: touch_liveness_file(config.health.folder, "archive")
        )
        if known is not None:
            _run(as_program(known), stop, metrics)


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


def start(spark: SparkSession, config: Config, batches: Batches, **trigger: Any) -> StreamingQuery:
    """The running query; ``trigger`` defaults to the configured interval."""
    topics = bus_topics.topics(config)
    most = max(_LEAST_A_BATCH, _CYCLES_A_BATCH * (config.bus.shards + 1))
    both = f"{topics.snapshots},{topics.events}"
    query = (
        kafka_stream(spark, config.bus_bootstrap, config.bus_client, most, subscribe=both)
        .writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", location(config.query.checkpoint))
        .queryName("kafka-twin-archive")
        .trigger(**(trigger or {"processingTime": f"{config.archive.trigger_ms} milliseconds"}))
        .start()
    )
    batches.name(str(query.id))
    return query


def _run(config: Config, stop: threading.Event, metrics: ProgramMetrics) -> None:
    tables = ArchiveTables(config.archive.path)
    checkpoint = location(config.query.checkpoint)
    with spark_session(config) as spark, beating(spark, checkpoint):
        batches = Batches(spark, config, tables, metrics)
        log.info("running", path=config.archive.path, checkpoint=checkpoint)
        while not stop.is_set():
            files = ClientFiles(config.bus_client)
            query = start(spark, config, batches)
            try:
                _watch(query, batches, until_end(stop, files.are_renewed), config)
            finally:
                end_batch_and_stop(query)


def _watch(
    query: StreamingQuery, batches: Batches, has_ended: Callable[[], bool], config: Config
) -> None:
    """Wait for the end; touch a file while there is progress."""
    batch = None
    while not has_ended():
        if not query.isActive:
            raise batches.failure or QueryError(cause(query, f"bus {config.bus_bootstrap}"))
        newest = query.lastProgress
        before, batch = batch, newest and newest["batchId"]
        if batch != before or not query.status["isTriggerActive"]:
            touch_liveness_file(config.health.folder, "archive")
