"""What a cluster that floods costs the others of its query: time from observation to snapshot.

Ten small clusters of 431 partitions share a query, each with a cycle in five seconds. First all do
what they always do; then one of them has an hour of cycles on the bus at once, as if it came back,
until the query has caught up. Observations are simulated; the bus and Spark are real.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from pyspark.sql.streaming.query import StreamingQuery

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.record import key
from streaming.bus.sender import Sender
from streaming.query import twin_query
from streaming.query.buses.batch_limit import lowest
from streaming.query.session import spark_session
from streaming.runtime.config import Config
from tests.bench import figure
from tests.bench.deployment import brokers, configured, next_cycle_s, stopped_at_end
from tests.simulator.shard import Shape, SimulatedShard
from twin.engine.frames import batch_messages, encode_parts, headers

CLUSTERS: Final = 10
SMALL: Final = Shape(topics=431, partitions=1, brokers=5, written_share=0.6)
FLOOD_CYCLES: Final = 720
WARM_UP_S: Final = 90.0
SECONDS: Final = 180.0
INTERVAL_MS: Final = 5_000
_LONGEST_FLOOD_S: Final = 600.0


class Neighbour:
    """A simulated cluster of one shard, with bus topics of its own."""

    def __init__(self, common: Config, number: int) -> None:
        name = f"c{number:02d}"
        bus = replace(common.bus, prefix=f"{common.bus.prefix}.{name}", partitions=1)
        self.config = replace(common, cluster=replace(common.cluster, name=name), bus=bus)
        self.topics = bus_topics.topics(self.config)
        self._shard = SimulatedShard(SMALL, number, name)

    def cycle(self, at_ms: int) -> list[bytes]:
        """The messages of one observation."""
        self._shard.traffic(INTERVAL_MS)
        frames = [part for frame in self._shard.observe(at_ms) for part in encode_parts(frame)]
        return [*batch_messages(frames)]

    def send(self, sender: Sender, messages: Sequence[bytes]) -> None:
        """Put them on the bus."""
        for message in messages:
            sender.send(self.topics.observations, key(self.config.cluster.name, 0), message)


def main(arguments: list[str] | None = None) -> None:
    """Measure without a flood, then beside one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    parser.add_argument("--flood", type=int, default=FLOOD_CYCLES, help="cycles at once")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="before the flood")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S)
    parser.add_argument("--limit", type=int, help="messages in a batch at most")
    chosen = parser.parse_args([] if arguments is None else arguments)
    with (
        tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as folder,
        brokers(None, Path(folder)) as bootstrap,
    ):
        common = configured(bootstrap, Path(folder) / "checkpoint", shards=1)
        fleet = [Neighbour(common, number) for number in range(chosen.clusters)]
        _measure(fleet, chosen)


def _measure(fleet: Sequence[Neighbour], chosen: argparse.Namespace) -> None:
    for each in fleet:
        bus_topics.ensure_topics(each.config)
    configs = [each.config for each in fleet]
    first, *others = fleet
    now_ms = int(time.time() * 1_000)
    times_ms = [now_ms - i * INTERVAL_MS for i in reversed(range(chosen.flood))]
    flood = [first.cycle(at_ms) for at_ms in times_ms]
    with (
        spark_session(configs[0]) as spark,
        stopped_at_end(twin_query.start(spark, configs, most=chosen.limit)) as query,
        Sender(configs[0], buffer_bytes=1 << 30) as sender,
        Reader(configs[0], [each.topics.snapshots for each in fleet], "end") as reader,
    ):
        watch = partial(_watch, query, sender, reader, others)
        watch(chosen.warm_up)
        alone = watch(chosen.seconds)
        began_s = time.time()
        for messages in flood:
            first.send(sender, messages)
        beside = watch(_LONGEST_FLOOD_S, until=(first.config.cluster.name, times_ms[-1]))
        took_s = time.time() - began_s
    if not beside:
        raise SystemExit(f"--flood {chosen.flood}: it was over before another cluster had a cycle")
    about: dict[str, Any] = {"clusters": len(fleet), "limit": chosen.limit or lowest(configs)}
    for when, seconds in (("alone", alone), ("beside a flood", beside)):
        more = {"when": when, "cycles": len(seconds), **about}
        figure("neighbours_median_seconds", statistics.median(seconds), "s", **more)
        figure("neighbours_p99_seconds", _p99(seconds), "s", **more)
        figure("neighbours_longest_seconds", max(seconds), "s", **more)
    figure("neighbours_flood_seconds", took_s, "s", cycles=chosen.flood, **about)
    figure("neighbours_p99_ratio", _p99(beside) / _p99(alone), "x", **about)


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def _watch(
    query: StreamingQuery, sender: Sender, reader: Reader, clusters: Sequence[Neighbour],
    seconds: float, until: tuple[str, int] | None = None,
) -> list[float]:  # fmt: skip
    """Send cycles when they are due, and read what the query makes of them.

    Returns the seconds from observation to snapshot of these clusters. It ends early once there is
    a snapshot of that cluster and time (``until``).
    """
    began_s = time.time()
    due_s = {each.config.cluster.name: next_cycle_s(each.config, began_s) for each in clusters}
    by_name = {each.config.cluster.name: each for each in clusters}
    sent: dict[tuple[str, int], float] = {}
    taken, is_over, end_s = [], False, began_s + seconds
    while (now_s := time.time()) < end_s and not is_over:
        if not query.isActive:
            raise SystemExit(f"the query ended: {query.exception()}")
        for name, at_s in due_s.items():
            if at_s <= now_s:
                at_ms = int(at_s * 1_000)
                messages = by_name[name].cycle(at_ms)
                sent[name, at_ms] = time.time()
                by_name[name].send(sender, messages)
                due_s[name] = at_s + INTERVAL_MS / 1_000
        for record in reader.poll(20):
            read_s = time.time()
            header, _ = headers(record.value or b"")[0]
            place = header.cluster, header.observed_at_ms
            is_over |= place == until
            if place in sent and header.shard == 0 and header.part == header.parts - 1:
                taken.append(read_s - sent.pop(place))
    ended_s = time.time()
    late = [took for at_s in sent.values() if (took := ended_s - at_s) > INTERVAL_MS / 1_000]
    return taken + late


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
