"""Makes the CDS archives with which brokers and Sparks of tests start faster.

``python -m tests.class_archives`` makes those that are missing. A run of all tests starts
more than a hundred brokers and some twenty Sparks.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from streaming.lab import class_archive
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime import jars

KEPT: Final = 3
"""As many of each program: an environment has its own, of 150 MB for Spark."""


def make_kafka(archive: Path) -> None:
    """One node is started and stopped."""
    with tempfile.TemporaryDirectory() as home:
        node = LocalCluster(
            Path(home), nodes=1, base_port=free_base_port(), metrics=False,
            java_opts=class_archive.making(archive),
        )  # fmt: skip
        try:
            node.start()
        finally:
            node.stop()


def make_spark(archive: Path) -> None:
    """A session of its own computes one stream."""
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(
        [jars.QUICK_SPARK["SPARK_SUBMIT_OPTS"], *class_archive.making(archive)]
    )
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    driver = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as checkpoint:
        rates = spark.readStream.format("rate").load().groupBy("value").count()
        stream = rates.writeStream.format("noop").outputMode("update")
        query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination(120)
    spark.stop()
    driver.stdin.close()  # the JVM ends with its input
    driver.wait(120)


def _remove_old(archive: Path) -> None:
    """Remove the oldest: the environments of many may be gone."""
    name, _, _ = archive.name.partition("-")
    found = sorted(archive.parent.glob(f"{name}-*.jsa"), key=lambda path: path.stat().st_mtime)
    for other in found[:-KEPT]:
        other.unlink(missing_ok=True)


def main() -> None:
    """Make what is missing, and print the paths. A second run at the same time does no harm."""
    for archive, make in (
        (class_archive.of_kafka(), make_kafka),
        (class_archive.of_spark(), make_spark),
    ):
        if not archive.is_file():
            archive.parent.mkdir(parents=True, exist_ok=True)
            made = archive.with_name(f"{archive.name}.{os.getpid()}")
            make(made)
            made.replace(archive)
            _remove_old(archive)
        print(archive.name, flush=True)


if __name__ == "__main__":
    main()
