"""A small Spark session in the process of the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def small_session() -> Iterator[SparkSession]:
    """A session of one core and one task, stopped at the end."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.default.parallelism", "1").getOrCreate()
    try:
        yield session
    finally:
        session.stop()
