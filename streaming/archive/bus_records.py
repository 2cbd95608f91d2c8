"""Reads records of the bus a second time, by the offsets that Spark's checkpoint has of a batch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from streaming.bus.record import Record
from streaming.query.kafka_options import kafka_options
from streaming.query.state.offset_log import offset_log
from streaming.runtime.config import Config

Offsets = dict[str, dict[str, int]]
"""By topic and partition, the offset after the last record."""

_EARLIEST: Final = -2
"""In place of an offset, for Spark."""


class BusRecords:
    """The records of one bus. Threads may read at the same time."""

    def __init__(self, spark: SparkSession, config: Config, checkpoint: str) -> None:
        """Nothing is read yet.

        Args:
            spark: the session.
            config: names the bus, and the login at it.
            checkpoint: of the query that reads the bus.
        """
        self._spark, self._config, self._checkpoint = spark, config, checkpoint

    def ends(self, batch: int, topics: Collection[str]) -> Offsets:
        """Where that batch ended in these topics; nothing of a topic that it did not read."""
        if batch < 0:
            return {}
        _, *sources = offset_log(self._spark, self._checkpoint, batch)
        return {
            topic: offsets for each in sources for topic, offsets in each.items() if topic in topics
        }

    def between(self, begins: Offsets, ends: Offsets) -> pa.Table:
        """Records as ``columns`` has them; partitions without an end are left out."""
        first = {
            topic: {n: begins.get(topic, {}).get(n, _EARLIEST) for n in of}
            for topic, of in ends.items()
        }
        partitions = {topic: sorted(map(int, of)) for topic, of in ends.items()}
        bus = kafka_options(self._config.bus_bootstrap, self._config.bus_client)
        read = (
            self._spark.read.format("kafka")
            .options(**bus)
            .option("assign", json.dumps(partitions))
            .option("startingOffsets", json.dumps(first))
            .option("endingOffsets", json.dumps(ends))
            .option("failOnDataLoss", "false")
        )
        return columns(read.load()).toArrow()


def columns(rows: DataFrame) -> DataFrame:
    """The columns of records that a batch needs."""
    return rows.select(
        "topic", "partition", "offset", "key", "value",
        F.unix_millis("timestamp").alias("timestamp_ms"),
    )  # fmt: skip


def as_records(rows: pa.Table) -> list[Record]:
    """Rows of Spark's source as records."""
    names = ("topic", "partition", "offset", "key", "value", "timestamp_ms")
    return [
        Record(*each) for each in zip(*(rows.column(n).to_pylist() for n in names), strict=True)
    ]


def before(ends: Mapping[str, int], records: int) -> dict[str, int]:
    """Offsets so many records before the ends of a topic's partitions."""
    return {n: max(0, offset - records) for n, offset in ends.items()}
