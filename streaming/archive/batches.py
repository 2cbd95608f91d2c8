"""Appends batches of the bus's records to the archive, in the driver of its query."""

from __future__ import annotations

import json
import threading
import time
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from streaming.archive import own_metrics as own
from streaming.bus import bus_topics
from streaming.bus.observed import observations
from streaming.bus.record import Record
from streaming.bus.snapshots import recent_records
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.feed import Feed
from streaming.history.archive.gap_filling import Filler
from streaming.history.archive.row_layout import WRITTEN_IN_ORDER, hour_of
from streaming.query.kafka_options import kafka_options
from streaming.query.state.checkpoint import location
from streaming.query.state.offset_log import offset_log
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.program_metrics import ProgramMetrics

log = structlog.get_logger("archive")


def columns(rows: DataFrame) -> DataFrame:
    """The columns of records that a batch needs."""
    return rows.select(
        "topic", "partition", "offset", "key", "value",
        F.unix_millis("timestamp").alias("timestamp_ms"),
    )  # fmt: skip


class Batches:
    """Takes batches of the bus and appends their rows. ``failure`` is why the last one was not."""

    def __init__(
        self, spark: SparkSession, config: Config, tables: ArchiveTables, metrics: ProgramMetrics
    ) -> None:
        self._spark, self._config, self._tables = spark, config, tables
        self._metrics, self._topics = metrics, bus_topics.topics(config)
        catalog, cluster, shards = catalog_of(config), config.cluster.name, config.bus.shards
        filler = Filler(
            catalog, cluster, shards, tables, partial(observations, config),
            partial(touch_liveness_file, config.health.folder, "archive"),
        )  # fmt: skip
        self._feed = Feed(
            catalog, cluster, shards, config.archive.measurements_ms,
            tables.newest_cycles(), tables.newest_events(), filler,
        )  # fmt: skip
        self._writer, self._is_named = "", threading.Event()
        self._is_seeded = False
        self._hour = ""
        self.failure: UserError | None = None

    def name(self, writer: str) -> None:
        """Begin: the id of the query, which the checkpoint keeps, makes batch numbers unique."""
        self._writer = writer
        self._is_named.set()

    def take(self, rows: DataFrame, batch: int) -> None:
        """Append the rows of a batch, and keep the archive tidy.

        Raises:
            ArchiveError: the archive cannot be written.
        """
        self._is_named.wait()
        try:
            self._take(columns(rows).toArrow(), batch)
        except UserError as error:
            self.failure = error
            raise

    def _take(self, records: pa.Table, batch: int) -> None:
        began_s = time.monotonic()
        snapshots = _of(records, self._topics.snapshots)
        self._seed(batch)
        gaps, filled = self._feed.gaps, self._feed.filled
        rows = self._feed.take(as_records(snapshots), as_records(_of(records, self._topics.events)))
        for name, added in rows.items():
            if self._tables.append(name, added, self._writer, batch):
                self._metrics.add(own.ROWS, added.num_rows, name)
        self._metrics.add(own.BATCHES)
        self._metrics.add(own.GAPS, self._feed.gaps - gaps)
        self._metrics.add(own.FILLED, self._feed.filled - filled)
        if self._feed.gaps > gaps:
            log.warning("gap", shards=self._feed.gaps - gaps, why=self._feed.not_filled)
        self._metrics.observe(own.BATCH_SECONDS, time.monotonic() - began_s)
        if self._feed.archived:
            newest_ms = max(self._feed.archived.values())
            self._metrics.set(own.NEWEST_AT, newest_ms / 1_000)
            self._tidy(newest_ms)

    def _tidy(self, newest_ms: int) -> None:
        """Once an hour: compact what is over, drop what is old."""
        hour = hour_of(newest_ms)
        if hour == self._hour:
            return
        self._hour = hour
        self._tables.compact(hour)
        self._tables.drop(hour_of(newest_ms - self._config.archive.retention_ms))
        for name in WRITTEN_IN_ORDER:
            self._metrics.set(own.BYTES, self._tables.bytes(name), name)

    def _seed(self, batch: int) -> None:
        """Before the first batch after a start, give the feed the snapshots that precede it.

        All partitions of the bus are read, also those without a record in the batch: the messages
        of a shard are in several partitions.
        """
        if self._is_seeded:
            return
        self._is_seeded = True
        if not batch:
            return
        checkpoint = location(self._config.query.checkpoint)
        _, ended = offset_log(self._spark, checkpoint, batch - 1)
        offsets = ended.get(self._topics.snapshots, {})
        ends = {int(partition): offset for partition, offset in offsets.items() if offset > 0}
        if not ends:
            return
        back = recent_records(self._config)
        begins = {partition: max(0, offset - back) for partition, offset in ends.items()}
        topic = self._topics.snapshots

        def of(offsets: dict[int, int]) -> str:
            return json.dumps({topic: {str(n): offset for n, offset in offsets.items()}})

        before = (
            self._spark.read.format("kafka")
            .options(**kafka_options(self._config.bus_bootstrap, self._config.bus_client))
            .option("assign", json.dumps({topic: sorted(ends)}))
            .option("startingOffsets", of(begins))
            .option("endingOffsets", of(ends))
            .option("failOnDataLoss", "false")
            .load()
        )
        self._feed.seed(as_records(columns(before).toArrow()))


def _of(records: pa.Table, topic: str) -> pa.Table:
    return records.filter(pc.equal(records.column("topic"), topic))


def as_records(rows: pa.Table) -> list[Record]:
    """Rows of Spark's source as records."""
    names = ("topic", "partition", "offset", "key", "value", "timestamp_ms")
    return [
        Record(*each) for each in zip(*(rows.column(n).to_pylist() for n in names), strict=True)
    ]
