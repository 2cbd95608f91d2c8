"""The needs of collector, exporter, query and bus at growing sizes: the table of docs/deploy.md.

The collector asks brokers that remember their answers, in another process; the exporter serves
simulated shards. Each runs in a process of its own, so that its memory is its own. The query and
the bus are those of ``end_to_end``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from streaming.bus.arrow import use_little_memory
from streaming.bus.view import SnapshotStore
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.wire.connections import BrokerConnections
from streaming.exporter.metrics.exposition import Renderer
from streaming.runtime.config import ClusterConfig, CollectorConfig, Config, ExporterConfig
from tests.bench import backlog, end_to_end, figure
from tests.bench.deployment import REPLICATION, START_MS, messages_of
from tests.collector.fake_broker import FakeBroker, FakeCluster, Log, Partition, Topic, World
from tests.simulator.shard import Shape
from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER
from twin.engine.risks import OpenRisks
from twin.tables.state import Assignment

REPLICAS = (9_000, 90_000, 300_000)
LARGEST = 1_000_000
NODES = range(1, 13)
PARTITIONS_A_TOPIC = 100
SHARDS = 16
TOPIC_FROM = 1_000_000
"""Replicas from which on the exporter serves topics; below, partitions up to its max_series."""

CYCLES = 5
LONG = 20
"""Cycles of the query: what a new JVM does is not what it costs."""

DEADLINE_MS = 60_000


class _Remembering(FakeBroker):
    """Answers the same question with the same bytes: making them anew takes longer than asking."""

    def __init__(self, node: int, world: World, cluster: FakeCluster) -> None:
        self.responses: dict[bytes, bytes] = {}
        self.request_bytes = self.response_bytes = 0
        super().__init__(node, world, cluster)

    def _answer(self, frame: bytes, is_first: bool) -> bytes | None:
        request = frame[:4] + frame[8:]  # all but the correlation id
        if request not in self.responses:
            self.responses[request] = super()._answer(frame, is_first) or b""
            self.asked.clear()
        answer = self.responses[request]
        self.request_bytes += len(frame)
        self.response_bytes += len(answer)
        return answer[:4] + frame[4:8] + answer[8:]


def main(arguments: list[str]) -> None:
    """Every part at every size, or one part of one size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="a million replicas as well")
    parser.add_argument("--collector", type=int, metavar="REPLICAS", help="only this, once")
    parser.add_argument("--exporter", type=Path, metavar="FOLDER", help="of snapshots; only this")
    parser.add_argument("--granularity", default="partition")
    chosen = parser.parse_args(arguments)
    if chosen.collector:
        _collector(chosen.collector)
    elif chosen.exporter:
        _exporter(chosen.exporter, chosen.granularity)
    else:
        sizes = [*REPLICAS, LARGEST] if chosen.full else REPLICAS
        for replicas in sizes:
            _alone("--collector", str(replicas))
        for replicas in sizes:
            _exporter_of(replicas)
        end_to_end.main(["--cycles", str(LONG), "--sizes", *map(str, sizes)])
        backlog.main()


def _alone(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.bench.sizes", *arguments], check=True)


def _collector(replicas: int) -> None:
    """Processor time, memory and traffic of a cycle, up to the messages that would be sent."""
    use_little_memory()  # as ``run`` does
    here, there = multiprocessing.Pipe()
    spawned = multiprocessing.get_context("spawn")
    fakes = spawned.Process(target=_brokers, args=(there, replicas))
    fakes.start()
    try:
        bootstrap = here.recv()
        config = Config(
            cluster=ClusterConfig(name="sim", bootstrap=bootstrap),
            collector=CollectorConfig(deadline_ms=DEADLINE_MS),
        )
        with BrokerConnections(bootstrap, {}, DEADLINE_MS) as brokers:
            collector, messages = Collector(config, brokers), ObservationEncoder()
            cpu, moved = [], []
            for _ in range(CYCLES):
                here.send(True)
                began_bytes, began = here.recv(), time.process_time()
                observation = collector.observe()
                assert observation is not None
                assert collector.problems == (), collector.problems
                sent = sum(len(message) for _, message in messages.encode(observation))
                cpu.append(time.process_time() - began)
                here.send(True)
                moved.append([b - a for a, b in zip(began_bytes, here.recv(), strict=True)])
    finally:
        here.send(False)
        fakes.join()
    about = {"replicas": replicas}
    figure("collector_cycle_cpu_seconds", statistics.median(cpu[1:]), "s", **about)
    figure("collector_peak_memory_bytes", _peak_bytes(), "B", **about)
    figure("collector_to_brokers_bytes", moved[-1][0], "B", **about)
    figure("collector_from_brokers_bytes", moved[-1][1], "B", **about)
    figure("collector_messages_bytes", sent, "B", **about)


def _brokers(pipe: Connection, replicas: int) -> None:
    """Brokers for as long as somebody asks how many bytes they took and gave."""
    cluster = FakeCluster(_world(replicas // REPLICATION), ())
    fakes = [_Remembering(node, cluster.world, cluster) for node in NODES]
    cluster.brokers |= {fake.node: fake for fake in fakes}
    pipe.send(cluster.bootstrap)
    while pipe.recv():
        pipe.send([sum(f.request_bytes for f in fakes), sum(f.response_bytes for f in fakes)])
    cluster.stop()


def _world(partitions: int) -> World:
    topics = {}
    for first in range(0, partitions, PARTITIONS_A_TOPIC):
        held = {}
        for number in range(min(PARTITIONS_A_TOPIC, partitions - first)):
            place = first + number
            replicas = [NODES[(place + nth) % len(NODES)] for nth in range(REPLICATION)]
            log = Log(log_end=place * 1_000, size=place * 1_000_000, first_ms=START_MS)
            held[number] = Partition(replicas, logs=dict.fromkeys(replicas, log))
        topics[f"some.quite.usual-topic-name-{first}"] = Topic(held)
    return World(topics, {node: f"az-{node % 3}" for node in NODES})


def _exporter_of(replicas: int) -> None:
    """Snapshots of simulated shards, for an exporter in a process of its own."""
    partitions = max(1, replicas // REPLICATION // SHARDS // 10)
    shape = Shape(topics=10, partitions=partitions, replication=REPLICATION, brokers=len(NODES))
    with tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as home:
        for number in range(SHARDS):
            for cycle, messages in enumerate(messages_of(shape, number, SHARDS, CYCLES)):
                for key, message in messages:
                    name = key.removeprefix("sim/").replace("/", "_")
                    (Path(home) / f"{cycle}-{name}").write_bytes(message)
        granularity = "topic" if replicas >= TOPIC_FROM else "partition"
        _alone("--exporter", home, "--granularity", granularity)


def _exporter(folder: Path, granularity: str) -> None:
    """Processor time of a cycle's snapshots, and of the first scrape after it; and memory."""
    store = SnapshotStore(CATALOG, "sim", SHARDS)
    renderer = Renderer(CATALOG, "sim", ExporterConfig(granularity=granularity))  # type: ignore[arg-type]
    cpu, scrapes = [], []
    for cycle in range(CYCLES):
        began = time.process_time()
        for file in sorted(folder.glob(f"{cycle}-*")):
            key = f"sim/{file.name.partition('-')[2].replace('_', '/')}"
            store.take_snapshot(key.encode(), file.read_bytes())
        view = store.publish()
        cpu.append(time.process_time() - began)
        began = time.process_time()
        exposition = renderer.render(view)
        scrapes.append(time.process_time() - began)
    states = [shard.state for shard in view.shards]
    assert len(states) == SHARDS
    replicas = sum(int((state[Assignment].broker != NO_BROKER).sum()) for state in states)
    at_risk = sum(int((state[OpenRisks].bits != 0).sum()) for state in states)
    about = {"replicas": replicas, "granularity": granularity, "partitions_at_risk": at_risk}
    figure("exporter_cycle_cpu_seconds", statistics.median(cpu[1:]), "s", **about)
    figure("exporter_scrape_cpu_seconds", statistics.median(scrapes[1:]), "s", **about)
    figure("exporter_peak_memory_bytes", _peak_bytes(), "B", **about)
    series = sum(not line.startswith(b"#") for b in exposition.blocks for line in b.splitlines())
    figure(
        "exporter_exposition_bytes", sum(map(len, exposition.blocks)), "B", series=series, **about
    )


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


if __name__ == "__main__":
    main(sys.argv[1:])
