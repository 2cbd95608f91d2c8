"""The archive's query of the clusters of one bus.

Spark keeps, in the checkpoint, which records belong to which batch; a batch that was interrupted is
repeated with the same records, and each table takes each batch once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.archive.batches import Batches
from streaming.bus import bus_topics
from streaming.query.client_files import ClientFiles
from streaming.query.heartbeat import beating
from streaming.query.kafka_options import kafka_stream
from streaming.query.twin_query import QueryError, end_batch_and_stop
from streaming.query.why_failed import cause
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.program_metrics import ProgramMetrics

AGAIN_AFTER_S: Final = 10.0
"""How long a query of a fleet pauses that failed."""

_CYCLES_A_BATCH: Final = 30
_LEAST_A_BATCH: Final = 1_000
_EVENTS_A_BATCH: Final = 20_000
"""10 MB. A cluster with many events, as a new one has, must not push snapshots out of a batch: the
bus keeps those for minutes."""

log = structlog.get_logger("archive")


class ArchiveQuery:
    """The query, from its first ``check`` until ``stop``."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        metrics: Mapping[str, ProgramMetrics],
        *,
        is_fleet: bool,
    ) -> None:
        """Nothing is started yet; the arguments are those of ``Batches``."""
        self._spark, self._checkpoint = spark, checkpoint
        self._metrics, self._is_fleet = metrics, is_fleet
        self._batches: Batches | None = None
        self._configs: list[Config] = []
        self._files = ClientFiles()
        self._query: StreamingQuery | None = None
        self._batch: Any = None
        self._beating = ExitStack()
        self._begin, self._said = Deadline.after_s(0), ""

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters whose records it takes."""
        return [config.cluster.name for config in self._configs]

    def check(self, configs: Sequence[Config]) -> None:
        """Start the query, also again with other clusters or renewed files; look whether it runs.

        Args:
            configs: its clusters, with their numbers of shards.

        Raises:
            QueryError, ArchiveError, BusError, CheckpointError: of that of a single cluster.
        """
        try:
            if self._query is None and self._begin.is_over:
                self._start(configs)
            elif self._query is not None:
                self._look(self._query)
                if [*configs] != self._configs or self._files.are_renewed():
                    self.stop()
                    self._start(configs)
        except UserError as error:
            self.stop()
            if not self._is_fleet:
                raise
            self._begin = Deadline.after_s(AGAIN_AFTER_S)
            if str(error) != self._said:  # log each cause once
                log.error("ended", why=str(error), again_in_s=AGAIN_AFTER_S)
            self._said = str(error)

    def stop(self) -> None:
        """Let the running batch end, and stop."""
        query, self._query = self._query, None
        if query is not None:
            end_batch_and_stop(query)
        self._beating.close()

    def _start(self, configs: Sequence[Config]) -> None:
        config = configs[0]  # for what all have in common
        self._beating.enter_context(beating(self._spark, self._checkpoint))
        if self._batches is None:
            self._batches = Batches(
                self._spark, self._checkpoint, self._metrics, config.archive.trigger_ms / 1_000,
                is_fleet=self._is_fleet,
            )  # fmt: skip
        self._batches.watch(configs)
        self._files, self._configs = ClientFiles(config.bus_client), [*configs]
        self._query = start(
            self._spark, configs, self._batches, self._checkpoint, is_fleet=self._is_fleet
        )
        log.info("running", checkpoint=self._checkpoint,
                 clusters=", ".join(self.clusters))  # fmt: skip

    def _look(self, query: StreamingQuery) -> None:
        """Touch a file while there is progress."""
        config = self._configs[0]
        if not query.isActive:
            failure = self._batches and self._batches.failure
            raise failure or QueryError(cause(query, f"bus {config.bus_bootstrap}"))
        newest = query.lastProgress
        before, self._batch = self._batch, newest and newest["batchId"]
        if self._batch != before or not query.status["isTriggerActive"]:
            touch_liveness_file(config.health.folder, "archive")


def start(
    spark: SparkSession,
    configs: Sequence[Config],
    batches: Batches,
    checkpoint: str,
    *,
    is_fleet: bool = False,
    **trigger: Any,
) -> StreamingQuery:
    """The running query.

    Args:
        spark: the session.
        configs: the clusters, which share a bus.
        batches: takes its batches.
        checkpoint: as Spark takes it.
        is_fleet: there may be several clusters.
        trigger: as Spark takes it; the configured interval by default.
    """
    every = f"{configs[0].archive.trigger_ms} milliseconds"
    query = (
        _records(spark, configs, is_fleet)
        .writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", checkpoint)
        .queryName(f"kafka-twin-archive {checkpoint}")
        .trigger(**(trigger or {"processingTime": every}))
        .start()
    )
    batches.name(str(query.id))
    return query


def _records(spark: SparkSession, configs: Sequence[Config], is_fleet: bool) -> DataFrame:
    """Snapshots and events; of a single cluster as one source, as its checkpoint has it."""
    config = configs[0]
    cycles = sum(each.bus.shards + 1 for each in configs) * _CYCLES_A_BATCH
    most = max(_LEAST_A_BATCH, cycles)
    topics = [bus_topics.topics(each) for each in configs]
    snapshots, events = (
        ",".join(names) for names in zip(*((of.snapshots, of.events) for of in topics), strict=True)
    )
    if not is_fleet:
        both = f"{snapshots},{events}"
        return kafka_stream(spark, config.bus_bootstrap, config.bus_client, most, subscribe=both)
    return kafka_stream(
        spark, config.bus_bootstrap, config.bus_client, most, subscribe=snapshots
    ).union(
        kafka_stream(
            spark, config.bus_bootstrap, config.bus_client, _EVENTS_A_BATCH, subscribe=events
        )
    )
