"""Kafka in, the whole twin, Kafka out: replica updates a second, at growing sizes.

The observations are simulated; the brokers, Spark and every byte between them are real. The time
counts from the first observation written to the last snapshot that can be read. In the same run the
same rules as one Spark key per partition (``per_key``), and the ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from streaming import bus
from streaming.config import Bus, Cluster, Config, Query
from streaming.local.cluster import LocalCluster, free_base_port
from streaming.query import query as twin_query
from streaming.query.kafka_options import kafka_options
from tests.bench import figure
from tests.bench.per_key import INPUT, OUTPUT, PartitionProcessor, as_rows
from twin.frames import decode, encode_parts
from twin.simulate import Shape, SimulatedShard

START_MS = 1_800_000_000_000
CYCLES = 4
REPLICATION = 3
PER_KEY_PARTITIONS = 4_000


def main(arguments: list[str] | None = None) -> None:
    """Run all sizes and print a figure a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="2.8 million replicas as well")
    parser.add_argument("--bootstrap", help="brokers to use instead of a cluster of its own")
    parser.add_argument("--sizes", type=int, nargs="*", help="replicas, instead of the usual sizes")
    chosen = parser.parse_args(arguments)
    sizes = chosen.sizes or [300_000, 1_000_000, *([2_800_000] if chosen.full else [])]
    with (
        tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as home,
        _brokers(chosen.bootstrap, Path(home)) as bootstrap,
    ):
        config = Config(
            cluster=Cluster(name="sim", bootstrap=bootstrap),
            query=Query(trigger_ms=100, driver_memory="2g", max_offsets_per_trigger=100_000),
        )
        rates = [_twin(config, Path(home), size) for size in sizes]
        rate = _per_key(config, Path(home))
        figure("end_to_end_ratio_to_one_key_per_partition", rates[0] / rate, "x")


@contextlib.contextmanager
def _brokers(bootstrap: str | None, home: Path) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    with LocalCluster(
        home / "cluster", nodes=1, base_port=free_base_port(), heap="1g",
        java_opts=["-XX:TieredStopAtLevel=4"],
    ) as cluster:  # fmt: skip
        yield cluster.bootstrap


def _twin(config: Config, home: Path, replicas: int) -> float:
    shards = max(16, replicas // 40_000)
    config = _on_bus(config, f"bench-{time.time_ns()}", shards)
    config = _with_checkpoint(config, home / f"checkpoint-{replicas}")
    bus.ensure_topics(config)
    partitions = replicas // REPLICATION // shards
    shape = Shape(topics=10, partitions=partitions // 10, replication=REPLICATION, brokers=200)
    simulated = [SimulatedShard(shape, 1, "sim", i, shards) for i in range(shards)]
    replicas = shards * shape.topics * shape.partitions * REPLICATION
    names = bus.topics(config)
    seconds = []
    spark = twin_query.session(config)
    query = twin_query.start(spark, config)
    try:
        sender = bus.Sender(config, buffer_bytes=1 << 30)
        with bus.Reader(config, [names.snapshots], "end") as reader:
            for cycle in range(CYCLES):
                at_ms = START_MS + cycle * 5_000
                messages = _encoded(simulated, at_ms)
                began = time.monotonic()
                for shard, message in messages:
                    sender.send(names.observations, bus.key("sim", shard), message)
                sender.flush(60_000)
                _await(reader, query, shards, at_ms)
                seconds.append(time.monotonic() - began)
        sender.close()
        memory = _driver_and_workers_bytes(spark)
    finally:
        query.stop()
        spark.stop()
    size = sum(f.stat().st_size for f in (home / f"checkpoint-{replicas}").rglob("*.zip"))
    median = statistics.median(seconds[1:])
    about: dict[str, Any] = {"replicas": replicas, "shards": shards}
    figure("end_to_end_cycle_seconds", median, "s", **about)
    figure("end_to_end_replica_updates_per_second", replicas / median, "1/s", **about)
    figure("end_to_end_memory_bytes", memory, "B", **about)
    if size:
        figure("end_to_end_checkpoint_bytes", size, "B", **about)
    return replicas / median


def _encoded(simulated: list[SimulatedShard], at_ms: int) -> list[tuple[int, bytes]]:
    messages = []
    for shard in simulated:
        shard.traffic(5_000)
        for frame in shard.observe(at_ms):
            messages += [(shard.shard, part) for part in encode_parts(frame)]
    return messages


def _await(reader: bus.Reader, query: Any, shards: int, at_ms: int) -> None:
    """Until every shard's snapshot of that time was read."""
    seen: dict[bytes, set[int]] = {}
    whole: set[int] = set()
    deadline = time.monotonic() + 300
    while len(whole) < shards:
        if not query.isActive or time.monotonic() > deadline:
            raise SystemExit(f"the query did not answer: {query.exception()}")
        for record in reader.poll(100):
            stamp = decode(record.value or b"")[0].stamp
            if stamp.observed_at_ms == at_ms:
                parts = seen.setdefault(str(stamp.shard).encode(), set())
                parts.add(stamp.part)
                if len(parts) == stamp.parts:
                    whole.add(stamp.shard)


def _per_key(config: Config, home: Path) -> float:
    """Partitions as rows, one key each; rate in replica updates a second."""
    shape = Shape(
        topics=10, partitions=PER_KEY_PARTITIONS // 10, replication=REPLICATION, brokers=200
    )
    simulated = SimulatedShard(shape, 1, "sim", 0, 1)
    config = _on_bus(config, f"bench-{time.time_ns()}", 1)
    bus.ensure_topics(config)
    names = bus.topics(config)
    spark = twin_query.session(config)
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
    query = (
        rows.groupBy("key")
        .transformWithState(
            statefulProcessor=PartitionProcessor(names.snapshots),
            outputStructType=OUTPUT,
            outputMode="Append",
            timeMode="None",
        )
        .writeStream.format("kafka")
        .options(**options)
        .option("checkpointLocation", str(home / "checkpoint-per-key"))
        .outputMode("append")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    seconds = []
    try:
        sender = bus.Sender(config, buffer_bytes=1 << 30)
        with bus.Reader(config, [names.snapshots], "end") as reader:
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
        sender.close()
    finally:
        query.stop()
        spark.stop()
    replicas = PER_KEY_PARTITIONS * REPLICATION
    rate = replicas / statistics.median(seconds[1:])
    figure("one_key_per_partition_replica_updates_per_second", rate, "1/s", replicas=replicas)
    return rate


def _on_bus(config: Config, prefix: str, shards: int) -> Config:
    """The configuration with a bus of its own."""
    bus_section = Bus(prefix=prefix, shards=shards, partitions=4, replication_factor=1)
    return _changed(config, bus=bus_section)


def _with_checkpoint(config: Config, path: Path) -> Config:
    return _changed(config, query=msgspec.structs.replace(config.query, checkpoint=str(path)))


def _changed(config: Config, **sections: Any) -> Config:
    changed: Config = msgspec.structs.replace(config, **sections)
    return changed


def _driver_and_workers_bytes(spark: SparkSession) -> int:
    """Resident memory of this process, the JVM and the Python workers below it."""
    root = resource.getpagesize()
    parent: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            parent[int(entry.name)] = int(fields[1])
            pages[int(entry.name)] = int(fields[21])
    mine = {os.getpid()}
    for _ in range(8):
        mine |= {pid for pid, of in parent.items() if of in mine}
    return sum(pages[pid] for pid in mine) * root


if __name__ == "__main__":
    main()
