"""The Spark session of the query, and its settings."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from streaming.runtime import jars
from streaming.runtime.config import Config

STOP_WITHIN_SECONDS: Final = 60
TASK_TRIES: Final = 12

_LOGGING = Path(__file__).with_name("log4j2.properties")


def session(config: Config) -> SparkSession:
    """A Spark session with what the query needs; offline once the jars are cached.

    Without a configured master it is the session of the spark-submit that runs this program, which
    also gives memory, addresses and jars.
    """
    # Workers must be this interpreter: only it has the twin installed.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(config.query.state_partitions),
        "spark.shuffle.compress": "false",  # frames are compressed already
        "spark.task.maxFailures": str(TASK_TRIES),
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.stopTimeout": f"{STOP_WITHIN_SECONDS}s",
        "spark.sql.streaming.metricsEnabled": "false",
    }  # fmt: skip
    builder = SparkSession.builder.appName("kafka-twin")
    if config.query.master:
        builder = builder.master(_persistent(config.query.master))
        settings |= _of_this_machine(config)
    for name, value in settings.items():
        builder = builder.config(name, value)
    log_file = Path(config.query.checkpoint).resolve().parent / "spark.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with _output_to(log_file):
        return builder.getOrCreate()


def _of_this_machine(config: Config) -> dict[str, str]:
    """Settings that only take effect when the driver starts."""
    os.environ["JAVA_HOME"] = str(Path(jars.java()).resolve().parents[1])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        "spark.jars": ",".join(map(str, jars.ensure("spark"))),
        "spark.driver.memory": config.query.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }


def _persistent(master: str) -> str:
    """A local master that tries a task again as a cluster would; Spark's own default is once.

    A task that reads from a broker which was just lost fails until another leads.
    """
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{TASK_TRIES}]", master)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send the output of processes started inside to the file: Spark and its workers print much."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with path.open("wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, original in zip((1, 2), kept, strict=True):
            os.dup2(original, number)
            os.close(original)
