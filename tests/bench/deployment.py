"""A twin for figures: simulated observations, real brokers, and what the processes of Spark use."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.record import key
from streaming.bus.sender import Sender
from streaming.collector.fleet.phases import begun_s_ago
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, Config, QueryConfig
from streaming.runtime.deadline import Deadline
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import updates
from twin.engine.codec import DecodedState
from twin.engine.frames import batch_messages, encode_parts, headers
from twin.engine.shard_state import ShardState
from twin.step import step

START_MS = 1_800_000_000_000
REPLICATION = 3
BUS_PARTITIONS = 4
_DEADLINE_S = 600


class Usage(NamedTuple):
    """CPU time and memory of this process, the JVM and the Python workers below it."""

    memory_bytes: int  # resident
    cpu_s: float  # since each began
    below_cpu_s: float  # of these, the JVM and the Python workers


@contextlib.contextmanager
def brokers(bootstrap: str | None, home: Path) -> Iterator[str]:
    """The bootstrap of one broker for as long as the block, or of those that are there."""
    if bootstrap:
        yield bootstrap
        return
    with LocalCluster(
        home / "cluster", nodes=1, base_port=free_base_port(), heap="1g",
        java_opts=["-XX:TieredStopAtLevel=4"],
    ) as cluster:  # fmt: skip
        yield cluster.bootstrap


def configured(bootstrap: str, checkpoint: Path, shards: int, **query: Any) -> Config:
    """A configuration with a bus and a checkpoint of its own."""
    return Config(
        cluster=ClusterConfig(name="sim", bootstrap=bootstrap),
        bus=BusConfig(prefix=f"bench-{time.time_ns()}", shards=shards, partitions=BUS_PARTITIONS,
                replication_factor=1),
        query=QueryConfig(checkpoint=str(checkpoint), **query),
    )  # fmt: skip


class Simulated:
    """A cluster of about that many replicas, observed again and again.

    Args:
        replicas: about as many.
        shards: of the cluster.
        written_share: of the partitions, how many are written in each cycle.
    """

    def __init__(self, replicas: int, shards: int, written_share: float = 1.0) -> None:
        partitions = replicas // REPLICATION // shards
        shape = Shape(topics=10, partitions=partitions // 10, replication=REPLICATION, brokers=200,
                      written_share=written_share)  # fmt: skip
        self.replicas = shards * shape.topics * shape.partitions * REPLICATION
        self._shards = [SimulatedShard(shape, 1, "sim", i, shards) for i in range(shards)]

    def lose(self, broker: int) -> None:
        """The broker is fenced."""
        for shard in self._shards:
            shard.lose(broker)

    def restore(self, broker: int) -> None:
        """The broker is back and in sync again."""
        for shard in self._shards:
            shard.restore(broker)

    def encoded(self, at_ms: int, elapsed_ms: int = 5_000) -> list[tuple[int, bytes]]:
        """Shard and message of all that one cycle observes, as the collector sends it."""
        messages = []
        for shard in self._shards:
            shard.traffic(elapsed_ms)
            frames = [part for frame in shard.observe(at_ms) for part in encode_parts(frame)]
            messages += [(shard.shard, message) for message in batch_messages(frames)]
        return messages


def messages_of(
    shape: Shape, shard: int, shards: int, cycles: int
) -> Iterator[list[tuple[str, bytes]]]:
    """What the query sends to the bus for a simulated shard, cycle by cycle: key and message."""
    known, version = DecodedState(ShardState.empty(CATALOG, "sim", shard, shards)), None
    for observed in SimulatedShard(shape, 1, "sim", shard, shards).run(cycles, START_MS):
        state, _ = step(known.state, observed, observed[0].header.observed_at_ms)
        version, messages = updates.messages_for(state, version, known)
        known = DecodedState(state.as_sent())
        yield [
            (f"sim/{shard}{updates.place(version.number, part)}", message)
            for part, message in enumerate(messages)
        ]


def send(config: Config, sender: Sender, messages: Sequence[tuple[int, bytes]]) -> None:
    """One cycle's messages, and wait until the bus has them."""
    topic = bus_topics.topics(config).observations
    for shard, message in messages:
        sender.send(topic, key("sim", shard), message)
    sender.flush(60_000)


@contextlib.contextmanager
def stopped_at_end(query: StreamingQuery) -> Iterator[StreamingQuery]:
    """A running query for as long as the block."""
    try:
        yield query
    finally:
        query.stop()


def until_written(reader: Reader, query: Any, shards: int, at_ms: int) -> Usage:
    """Wait until every shard's snapshot of that time was read; the most memory meanwhile."""
    read: dict[int, set[int]] = {}
    whole: set[int] = set()
    deadline = Deadline.after_s(_DEADLINE_S)
    most, looked_at = 0, 0.0
    while len(whole) < shards:
        if not query.isActive or deadline.is_over:
            raise SystemExit(f"the query did not answer: {query.exception()}")
        if time.monotonic() - looked_at > 1:
            most, looked_at = max(most, usage().memory_bytes), time.monotonic()
        for record in reader.poll(100):
            header, _ = headers(record.value or b"")[0]
            if header.observed_at_ms == at_ms:
                parts = read.setdefault(header.shard, set())
                parts.add(header.part)
                if len(parts) == header.parts:
                    whole.add(header.shard)
    now = usage()
    return now._replace(memory_bytes=max(most, now.memory_bytes))


def next_cycle_s(config: Config, now_s: float) -> float:
    """When the collector of a fleet would begin the cycle after this moment; since the epoch."""
    return now_s - begun_s_ago(config, now_s) + config.collector.interval_ms / 1_000


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    parent: int
    session: int
    cpu_s: float  # of its ended children as well
    resident_bytes: int


def processes() -> dict[int, Process]:
    """All processes by their id."""
    page, tick = resource.getpagesize(), os.sysconf("SC_CLK_TCK")
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            cpu_s = sum(int(f) for f in fields[11:15]) / tick
            found[int(entry.name)] = Process(
                int(entry.name), int(fields[1]), int(fields[3]), cpu_s, int(fields[21]) * page
            )
    return found


def usage() -> Usage:
    """The usage of this process and those below it; brokers have a session of their own."""
    found = processes()
    mine, session = {os.getpid()}, os.getsid(0)
    for _ in range(8):
        mine |= {
            each.pid for each in found.values() if each.parent in mine and each.session == session
        }
    uses = [found[pid] for pid in mine]
    cpu_s = sum(u.cpu_s for u in uses)
    return Usage(sum(u.resident_bytes for u in uses), cpu_s, cpu_s - found[os.getpid()].cpu_s)


def bytes_on_disk(home: Path, topic: str) -> int:
    """The size of a topic of the brokers in a home, without indices."""
    return sum(log.stat().st_size for log in home.glob(f"cluster/node*/data/{topic}-*/*.log"))
