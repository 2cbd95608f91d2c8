"""Kafka in, the whole twin, Kafka out: replica updates a second, at growing sizes.

The observations are simulated; the brokers, Spark and every byte between them are real. The time
counts from the first observation written to the last snapshot that can be read. In the same run the
same rules as one Spark key per partition (``per_key``), and the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.query import twin_query as twin_query
from streaming.query.kafka_options import kafka_options
from streaming.query.session import spark_session
from streaming.runtime.config import Config
from tests.bench import figure
from tests.bench.deployment import (
    REPLICATION,
    START_MS,
    Simulated,
    brokers,
    bytes_on_disk,
    configured,
    send,
    stopped_at_end,
    until_written,
    usage,
)
from tests.bench.per_key import INPUT, OUTPUT, PartitionProcessor, as_rows
from tests.simulator.shard import Shape, SimulatedShard
from twin.engine.updates import WHOLE_EVERY_CYCLES

CYCLES = 2 * WHOLE_EVERY_CYCLES
"""The later half, which counts, has one whole state of every shard."""
PER_KEY_PARTITIONS = 4_000
WRITTEN_SHARE = 0.6
"""Of the partitions; the others are idle, as many are everywhere."""


def main(arguments: list[str] | None = None) -> None:
    """Run all sizes and print a figure a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="2.8 million replicas as well")
    parser.add_argument("--bootstrap", help="brokers to use instead of a cluster of its own")
    parser.add_argument("--sizes", type=int, nargs="*", help="replicas, and nothing to compare")
    parser.add_argument("--cycles", type=int, default=CYCLES)
    chosen = parser.parse_args(arguments)
    sizes = chosen.sizes or [300_000, 1_000_000, *([2_800_000] if chosen.full else [])]
    with (
        tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as folder,
        brokers(chosen.bootstrap, Path(folder)) as bootstrap,
    ):
        home = Path(folder)
        rates = [_twin(bootstrap, home, size, chosen.cycles) for size in sizes]
        if not chosen.sizes:
            per_key = _per_key(_config(bootstrap, home / "per-key", shards=1))
            for size, rate in zip(sizes, rates, strict=True):
                ratio = rate / per_key
                figure("end_to_end_ratio_to_one_key_per_partition", ratio, "x", replicas=size)


def _config(bootstrap: str, checkpoint: Path, shards: int) -> Config:
    return configured(
        bootstrap, checkpoint, shards, driver_memory="2g", max_offsets_per_trigger=100_000
    )


def _twin(bootstrap: str, home: Path, replicas: int, cycles: int) -> float:
    shards = max(16, replicas // 40_000)
    checkpoint = home / f"checkpoint-{replicas}"
    config = _config(bootstrap, checkpoint, shards)
    bus_topics.ensure_topics(config)
    simulated = Simulated(replicas, shards, WRITTEN_SHARE)
    names = bus_topics.topics(config)
    seconds, cpu_s, query_cpu_s = [], [], []
    written_bytes: list[dict[str, int]] = []
    with (
        spark_session(config) as spark,
        stopped_at_end(twin_query.start(spark, [config])) as query,
        Sender(config, buffer_bytes=1 << 30) as sender,
        Reader(config, [names.snapshots], "end") as reader,
    ):
        for cycle in range(cycles):
            at_ms = START_MS + cycle * 5_000
            messages = simulated.encoded(at_ms)
            began, before = time.monotonic(), usage()
            send(config, sender, messages)
            used = until_written(reader, query, shards, at_ms)
            seconds.append(time.monotonic() - began)
            cpu_s.append(used.cpu_s - before.cpu_s)
            query_cpu_s.append(used.below_cpu_s - before.below_cpu_s)
            written_bytes.append(_written_bytes(home, checkpoint, config))
    # A fresh JVM compiles as it goes: only the later half is as in the long run.
    steady = slice(cycles // 2, None)
    median = statistics.median(seconds[steady])
    about: dict[str, Any] = {"replicas": simulated.replicas, "shards": shards}
    figure("end_to_end_cycle_seconds", median, "s", **about)
    figure("end_to_end_replica_updates_per_second", simulated.replicas / median, "1/s", **about)
    # Sending and reading along are in it, which the collector and the exporter do elsewhere.
    figure("end_to_end_cycle_cpu_seconds", statistics.median(cpu_s[steady]), "s", **about)
    # The whole states of some shards are in each cycle: their mean says more than the median.
    figure("end_to_end_query_cpu_seconds", statistics.mean(query_cpu_s[steady]), "s", **about)
    figure("end_to_end_memory_bytes", used.memory_bytes, "B", **about)
    figure("end_to_end_checkpoint_bytes", written_bytes[-1]["checkpoint"], "B", **about)
    for name, size in written_bytes[-1].items():
        grown = (size - written_bytes[cycles // 2 - 1][name]) / (cycles - cycles // 2)
        if grown:
            figure(f"end_to_end_{name}_bytes_a_cycle", grown, "B", **about)
    return simulated.replicas / median


def _written_bytes(home: Path, checkpoint: Path, config: Config) -> dict[str, int]:
    """The size of the checkpoint and, on brokers of our own, of the observations.

    Kafka compacts snapshots meanwhile, so ``reader`` has their bytes.
    """
    names = bus_topics.topics(config)
    return {
        "checkpoint": sum(map(_size, checkpoint.rglob("*"))),
        "observations": bytes_on_disk(home, names.observations),
    }


def _size(file: Path) -> int:
    """Of a file; 0 for a folder, and for a file that Spark has renamed or removed meanwhile."""
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:
        return 0


def _per_key(config: Config) -> float:
    """Partitions as rows, one key each; rate in replica updates a second."""
    shape = Shape(
        topics=10, partitions=PER_KEY_PARTITIONS // 10, replication=REPLICATION, brokers=200
    )
    simulated = SimulatedShard(shape, 1, "sim", 0, 1)
    bus_topics.ensure_topics(config)
    names = bus_topics.topics(config)
    seconds = []
    with (
        spark_session(config) as spark,
        stopped_at_end(_per_key_query(spark, config)) as query,
        Sender(config, buffer_bytes=1 << 30) as sender,
        Reader(config, [names.snapshots], "end") as reader,
    ):
        for cycle in range(CYCLES):
            simulated.traffic(5_000)
            messages = as_rows(simulated.observe(START_MS + cycle * 5_000))
            began = time.monotonic()
            for key, message in messages:
                sender.send(names.observations, key, message)
            sender.flush(60_000)
            read = 0
            while read < len(messages):
                if not query.isActive:
                    raise SystemExit(f"the query ended: {query.exception()}")
                read += len(reader.poll(100))
            seconds.append(time.monotonic() - began)
    replicas = PER_KEY_PARTITIONS * REPLICATION
    rate = replicas / statistics.median(seconds[CYCLES // 2 :])
    figure("one_key_per_partition_replica_updates_per_second", rate, "1/s", replicas=replicas)
    return rate


def _per_key_query(spark: SparkSession, config: Config) -> StreamingQuery:
    """The running query of one Spark key per partition."""
    names = bus_topics.topics(config)
    options = kafka_options(config.bus_bootstrap, config.bus_client)
    rows = (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", names.observations)
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), INPUT).alias("row"))
        .select("row.*")
    )
    return (
        rows.groupBy("key")
        .transformWithState(
            statefulProcessor=PartitionProcessor(names.snapshots),
            outputStructType=OUTPUT,
            outputMode="Append",
            timeMode="None",
        )
        .writeStream.format("kafka")
        .options(**options)
        .option("checkpointLocation", config.query.checkpoint)
        .outputMode("append")
        .trigger(processingTime="100 milliseconds")
        .start()
    )


if __name__ == "__main__":
    main()
