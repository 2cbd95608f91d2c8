"""``kafka-twin query repartition``: another number of state partitions for a checkpoint.

Spark fixes the number when a checkpoint is made. Spark 4.2 can rewrite the state into another one;
that is not a public call of PySpark yet. It writes a batch of its own behind the last one, which
reads no observations, so the query goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.query.checkpoint import location
from streaming.query.session import STATE_PARTITIONS, spark_session
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError

_INTERVALS: Final = 3
"""A query that has begun no batch for as many cycles of the collector is taken for stopped."""

_LOOK_EVERY_S: Final = 0.5

Say = Callable[[str], None]


class RepartitionError(UserError):
    """The state cannot be repartitioned; the message says in one line why."""


def repartition(config: Config, partitions: int, say: Say) -> None:
    """Rewrite the state of a stopped query into that many partitions.

    Raises:
        RepartitionError: the query runs, there is no checkpoint, the number makes no sense, or
            Spark fails.
        JarError, SessionError: there is no Spark to run in.
    """
    if partitions > config.bus.shards:
        raise RepartitionError(
            f"{partitions} partitions: there are {config.bus.shards} shards (bus.shards), and a "
            "partition without one does nothing"
        )
    with spark_session(config) as spark:
        begun = _Batches(spark, location(config.query.checkpoint))
        last = begun.newest()
        before = begun.partitions(last)
        if before == partitions:
            raise RepartitionError(f"{begun.checkpoint} has {partitions} state partitions already")
        _require_stopped(begun, config, say)
        say(f"rewriting the state of {begun.checkpoint} from {before} to {partitions} partitions")
        _rewrite(spark, begun.checkpoint, partitions)
    say(f"done; start the query again, and set query.state_partitions = {partitions}")


class _Batches:
    """The batches that a checkpoint's query has begun, in any file system that Hadoop knows."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self._spark = spark
        java: Any = spark._jvm
        self._offsets = java.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets")
        hadoop = spark._jsc.hadoopConfiguration()
        self._files = self._offsets.getFileSystem(hadoop)

    def newest(self) -> int:
        """The number of the batch that was begun last."""
        return self._newest()[0]

    def age_s(self) -> float:
        """How long ago that was."""
        return time.time() - self._newest()[1] / 1_000

    def partitions(self, batch: int) -> int:
        """The number of state partitions of a batch."""
        lines = self._spark.read.text(f"{self.checkpoint}/offsets/{batch}").collect()
        metadata = next(json.loads(line) for (line,) in lines if line.startswith("{"))
        return int(metadata["conf"][STATE_PARTITIONS])

    def _newest(self) -> tuple[int, int]:
        statuses = self._files.listStatus(self._offsets) if self._are_there() else []
        begun = [
            (int(status.getPath().getName()), int(status.getModificationTime()))
            for status in statuses
            if status.getPath().getName().isdigit()
        ]
        if not begun:
            raise RepartitionError(f"{self.checkpoint}: there is no checkpoint of a query")
        return max(begun)

    def _are_there(self) -> bool:
        return bool(self._files.exists(self._offsets))


def _require_stopped(begun: _Batches, config: Config, say: Say) -> None:
    """Wait until the last batch was begun so long ago that the query cannot be running."""
    longest_ms = max(config.collector.interval_ms, config.query.trigger_ms)
    quiet_s = _INTERVALS * longest_ms / 1_000
    last = begun.newest()
    # The clock of a remote file system may be wrong: no longer than that in any case.
    wait_s = min(quiet_s, quiet_s - begun.age_s())
    if wait_s > 0:
        say(f"batch {last} was begun just now: waiting {wait_s:.0f} s for a sign that a query runs")
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        if begun.newest() != last:
            raise RepartitionError(
                f"a query uses {begun.checkpoint}: it began batch {begun.newest()}; stop it first"
            )


def _rewrite(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    try:
        # Spark's own rewriting asks for the coordinator of state stores, and only the first access
        # makes it: without this line tasks fail with CANNOT_LOAD_STATE_STORE (Spark 4.2.0).
        spark._jsparkSession.sessionState().streamingQueryManager().stateStoreCoordinator()
        # A query that was stopped inside a batch has to be accepted. The Kafka sink writes at least
        # once anyway, and readers know what is repeated.
        spark._streamingCheckpointManager.repartition(
            checkpoint, partitions, enforce_exactly_once_sink=False
        )
    except (Py4JError, PySparkException) as error:
        raise RepartitionError(
            f"{checkpoint}: the state was not rewritten, and the query refuses to start until it "
            f"is; run the command again: {_first_line(error)}"
        ) from None


def _first_line(error: Exception) -> str:
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:300]
