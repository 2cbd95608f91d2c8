"""Reads the offset log of a Structured Streaming checkpoint."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def offset_log(spark: SparkSession, checkpoint: str, batch: int) -> list[Any]:
    """The entry of a batch in the checkpoint: Spark's metadata, then each source's end offsets.

    A Kafka source has the next offset of each partition, by topic:
    ``{"twin.events": {"0": 12, "1": 7}}``. A source without offsets is left out.
    """
    lines = spark.read.text(f"{checkpoint}/offsets/{batch}").collect()
    return [json.loads(line) for (line,) in lines if line.startswith("{")]
