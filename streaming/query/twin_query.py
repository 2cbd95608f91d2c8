"""The Spark query itself: one source, one stateful step a shard, one sink, for some clusters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.query.buses.batch_limit import lowest
from streaming.query.cluster_shard import without_reports
from streaming.query.kafka_options import OUTPUT, kafka_stream, sink_options
from streaming.query.processor import Destination, TwinProcessor
from streaming.query.progress import Reports
from streaming.query.session import SMALL_UP_TO_SHARDS, STOP_WITHIN_SECONDS
from streaming.query.state.checkpoint import location
from streaming.query.state.state_keys import state_keys
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.plugins import enabled_proposals

WATCH_EVERY_SECONDS: Final = 0.5
LOOK_FOR_CYCLES_EVERY_MS: Final = 200
"""How soon a cycle is noticed once all of it is on the bus; a look asks brokers for their ends."""

SMALL_LOOKS_EVERY_MS: Final = 500
"""The same of small clusters, where looks take a sixth of the JVM's time; and where there are
several, more of them have come by then."""


log = structlog.get_logger("query")


class QueryError(UserError, RuntimeError):
    """The query ended by itself; the message is its cause in one line."""


def start(
    spark: SparkSession,
    configs: Sequence[Config],
    checkpoint: str = "",
    most: int | None = None,
    **trigger: Any,
) -> StreamingQuery:
    """The running query of these clusters, which share a bus.

    Args:
        spark: the session.
        configs: the clusters, with their numbers of shards.
        checkpoint: as Spark takes it; the configured one if empty.
        most: the messages of a batch at most; None: the lowest limit (``batch_limit``).
        trigger: as Spark takes it; the configured interval by default.
    """
    config = configs[0]  # for what all have in common
    whole = location(config.query.checkpoint)
    source = {} if trigger else whole_cycle_options(configs)
    output = (
        _observations(spark, configs, lowest(configs) if most is None else most, source)
        .withColumn("state_key", _state_key(configs))
        .groupBy("state_key")
        .transformWithState(
            statefulProcessor=TwinProcessor(
                {one.cluster.name: _destination(one) for one in configs}, enabled_proposals(config)
            ),
            outputStructType=OUTPUT,
            outputMode="Append",
            timeMode="None",
        )
    )
    return (
        without_reports(output)
        .writeStream.format("kafka")
        .options(**sink_options(config))
        .option("checkpointLocation", checkpoint or whole)
        .queryName(f"kafka-twin{checkpoint.removeprefix(whole)}")
        .outputMode("append")
        .trigger(**(trigger or {"processingTime": f"{_look_every_ms(configs)} milliseconds"}))
        .start()
    )


def _destination(config: Config) -> Destination:
    topics = bus_topics.topics(config)
    return Destination(config.bus.shards, topics.snapshots, topics.events)


def _observations(
    spark: SparkSession, configs: Sequence[Config], most: int, source: Mapping[str, str]
) -> DataFrame:
    """The observations of collectors and taps, as a stream."""
    records = kafka_stream(
        spark,
        configs[0].bus_bootstrap,
        configs[0].bus_client,
        most,
        subscribe=",".join(bus_topics.topics(config).observations for config in configs),
        **source,
    )
    if len(configs) > 1:
        # Spark makes a task of each topic partition with a message: most of the work of a batch.
        records = records.coalesce(spark.sparkContext.defaultParallelism)
    return records.select(
        F.coalesce(F.col("key").cast("string"), F.lit("")).alias("key"),
        F.coalesce(F.col("value"), F.lit(b"")).alias("value"),
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
    )


def _state_key(configs: Sequence[Config]) -> Column:
    """The key of the state for the key of an observation; unchanged for other clusters."""
    keys = [
        pair
        for config in configs
        for pair in state_keys(config.cluster.name, config.bus.shards).items()
    ]
    pairs = F.create_map(*(F.lit(text) for pair in keys for text in pair))
    return F.coalesce(F.try_element_at(pairs, F.col("key")), F.col("key"))


def whole_cycle_options(configs: Sequence[Config]) -> dict[str, str]:
    """Options of the source that let a batch begin when a cycle of a cluster is complete.

    The collector sends a message a shard, or more, within some tenths of a second. A batch that
    began in between would leave the rest to another batch, with its own fixed costs. Less than a
    cycle, as from a tap, waits at most ``query.trigger_ms``.
    """
    return {
        "minOffsetsPerTrigger": str(min(config.bus.shards for config in configs)),
        "maxTriggerDelay": f"{configs[0].query.trigger_ms}ms",
    }


def _look_every_ms(configs: Sequence[Config]) -> int:
    is_small = max(config.bus.shards for config in configs) <= SMALL_UP_TO_SHARDS
    every_ms = SMALL_LOOKS_EVERY_MS if is_small else LOOK_FOR_CYCLES_EVERY_MS
    return min(every_ms, configs[0].query.trigger_ms)


def until_end(stop: threading.Event, has_changed: Callable[[], bool]) -> Callable[[], bool]:
    """A wait for the next look at a query: it says whether the query is to end, since the program
    stops or what it was started with has changed."""
    return lambda: stop.wait(WATCH_EVERY_SECONDS) or has_changed()


def end_batch_and_stop(query: StreamingQuery) -> None:
    """Let the running batch end: stopping inside it would make the next start repeat it.

    If batches take longer than the trigger's interval, the next one begins at once; when it is
    stopped then, it has not written anything yet.
    """
    running = _batch(query)
    _until(
        lambda: not query.status["isTriggerActive"] or _batch(query) != running,
        STOP_WITHIN_SECONDS,
    )
    query.stop()
    log.info("stopped")


def _batch(query: StreamingQuery) -> Any:
    """The number of the last completed batch."""
    progress = Reports(query).newest()
    return progress.get("batchId") if progress else None


def _until(condition: Callable[[], bool], seconds: float) -> None:
    tick = threading.Event()
    for _ in range(int(seconds * 100)):
        if condition():
            return
        tick.wait(0.01)
