"""``kafka-twin query repartition``: changes the number of state partitions of a checkpoint.

Spark fixes the number when a checkpoint is made. Spark 4.2 can rewrite the state for another
number, but PySpark has no public call for it yet. It adds a batch after the last one, which reads
no observations, so the query continues where it stopped.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.bus.connection import BusError
from streaming.bus.shards import with_known_shards
from streaming.query.buses.lanes import checkpoints_in
from streaming.query.heartbeat import Say, require_none
from streaming.query.session import STATE_PARTITIONS, spark_session
from streaming.query.state.checkpoint import location
from streaming.query.state.folder import Folder
from streaming.query.state.offset_log import offset_log
from streaming.query.why_failed import first_line
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError


class RepartitionError(UserError):
    """The state cannot be repartitioned; the message says in one line why."""


def repartition(config: Config, partitions: int, say: Say, *, is_fleet: bool = False) -> None:
    """Rewrite the state of a stopped query into that many partitions.

    Args:
        config: of the cluster, or of any.
        partitions: of the state of each query.
        say: prints a line.
        is_fleet: there may be several clusters, and several queries.

    Raises:
        RepartitionError: there is no checkpoint, the number is invalid, or Spark fails.
        CheckpointError: the checkpoint cannot be read.
        QueryRunsError: the query runs.
        JarError, SessionError: there is no Spark to run in.
    """
    if not is_fleet and not config.bus.shards:
        with suppress(BusError):  # the state can be rewritten while the bus is away
            config = with_known_shards(config) or config
    if not is_fleet and partitions > config.bus.shards > 0:
        raise RepartitionError(
            f"{partitions} partitions: there are {config.bus.shards} shards (bus.shards), and a "
            "partition without one does nothing"
        )
    with spark_session(config) as spark:
        whole = location(config.query.checkpoint)
        places = (checkpoints_in(spark, whole) if is_fleet else []) or [whole]
        before = {each: _state_partitions(spark, each) for each in places}
        others = [each for each in places if before[each] != partitions]
        if not others:
            raise RepartitionError(f"{whole} has {partitions} state partitions already")
        for each in others:
            require_none(spark, each, say)
            say(f"rewriting the state of {each} from {before[each]} to {partitions} partitions")
            _rewrite(spark, each, partitions)
    say(f"done; start the query again, and set query.state_partitions = {partitions}")


def _state_partitions(spark: SparkSession, checkpoint: str) -> int:
    """The number of state partitions of the last batch that was begun."""
    names = Folder(spark, f"{checkpoint}/offsets").names()
    begun = [int(name) for name in names if name.isdigit()]
    if not begun:
        raise RepartitionError(f"{checkpoint}: there is no checkpoint of a query")
    metadata = offset_log(spark, checkpoint, max(begun))[0]
    return int(metadata["conf"][STATE_PARTITIONS])


def _rewrite(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    try:
        # Spark's own rewriting asks for the coordinator of state stores, and only the first access
        # makes it: without this line tasks fail with CANNOT_LOAD_STATE_STORE (Spark 4.2.0).
        spark._jsparkSession.sessionState().streamingQueryManager().stateStoreCoordinator()
        # A query that was stopped inside a batch must be accepted. The Kafka sink writes at least
        # once anyway, and readers recognise repeats.
        spark._streamingCheckpointManager.repartition(
            checkpoint, partitions, enforce_exactly_once_sink=False
        )
    except (Py4JError, PySparkException) as error:
        raise RepartitionError(
            f"{checkpoint}: the state was not rewritten, and the query refuses to start until it "
            f"is; run the command again: {first_line(error)}"
        ) from None
