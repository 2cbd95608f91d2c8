"""The query that reads remote segments from Kafka's own topic, beside the twin's query."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.query.kafka_options import OUTPUT, kafka_stream, sink_options
from streaming.query.remote_log.metadata_topic import as_observations
from streaming.query.state.checkpoint import location
from streaming.query.why_failed import cause
from streaming.runtime.config import Config
from streaming.runtime.kafka import remote_log_access

AGAIN_AFTER_SECONDS: Final = 10

LOOK_EVERY_SECONDS: Final = 15
"""How often the right to read remote segments is checked."""

REMOTE_RECORDS_A_BATCH: Final = 100_000
"""At the first start the whole history of remote segments is read, some seconds for each batch."""

_REMOTE: Final = "remote-segments"
"""Folder below the checkpoint. Deleting it makes Spark read the whole history again."""

log = structlog.get_logger("query")


def start_remote_segments(
    spark: SparkSession, config: Config, folder: str = "", **trigger: Any
) -> StreamingQuery:
    """The running query that makes observations from the brokers' records about remote segments.

    It subscribes by a pattern, since a cluster without remote storage lacks the topic, but may get
    it.
    """
    topics = bus_topics.topics(config)
    records = kafka_stream(
        spark,
        config.cluster.bootstrap,
        config.cluster.client,
        REMOTE_RECORDS_A_BATCH,
        subscribePattern=remote_log_access.TOPIC,
    )
    observations = (
        records.select(
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
        .options(**sink_options(config))
        .option(
            "checkpointLocation",
            location(config.query.checkpoint, *filter(None, (_REMOTE, folder))),
        )
        .queryName("-".join(filter(None, ("kafka-twin-remote-segments", folder))))
        .outputMode("append")
        .trigger(**(trigger or {"processingTime": f"{config.query.trigger_ms} milliseconds"}))
        .start()
    )


class RemoteSegmentsQuery:
    """The query of remote segments. It is restarted when it fails, while the twin continues.

    Without the right to read them it is not started, or it is stopped. Without DESCRIBE, Spark
    would read nothing and report nothing.
    """

    def __init__(self, spark: SparkSession, config: Config, folder: str = "") -> None:
        """``folder`` is that of the cluster below the checkpoint, if there are several."""
        self._spark, self._config, self._folder = spark, config, folder
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
            self._query = start_remote_segments(self._spark, self._config, self._folder)

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
