"""One cycle of the collector at 9 000 replicas of real brokers: seconds, CPU seconds, memory.

The brokers run with their full compiler and background intervals near Kafka's defaults, and are
warmed up first: a fresh JVM answers three times slower. Beside it the same questions the plain way,
each request built and each answer decoded by kafka-python's codec in every cycle.

A cycle is everything: asking, making the frames, sending them, and their arrival on the bus, which
is on the same brokers. The collector runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from streaming.bus import bus_topics
from streaming.bus.arrow import use_little_memory
from streaming.bus.sender import Sender
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import CycleResult, ObservationEncoder
from streaming.collector.cycle.program import send
from streaming.collector.listing import ListedPlacement
from streaming.collector.sources import offsets
from streaming.collector.sources.timestamps import LocalStarts
from streaming.collector.wire import log_dirs_layout
from streaming.collector.wire.connections import BrokerConnections, EncodedRequest, Versions
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from streaming.runtime.deadline import Deadline
from tests.bench import figure, groups

TOPICS, PARTITIONS, REPLICATION = 100, 30, 3
WARM_UP_CYCLES = 80
CYCLES = 15
DEADLINE_MS = 10_000
PAUSE_S = 0.2
"""Between cycles, so that brokers finish what a cycle left them, as in real life."""

VALUES_A_REPLICA = len(offsets.SINCE) + 1
SETTINGS = {
    "remote.log.manager.task.interval.ms": "30000",
    "log.retention.check.interval.ms": "300000",
}


def main(arguments: list[str] | None = None) -> None:
    """Start the brokers, fill them, measure; or measure on brokers that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help="filled brokers to use instead of a cluster of its own")
    chosen = parser.parse_args([] if arguments is None else arguments)
    if chosen.bootstrap:
        measure(chosen.bootstrap)
        return
    with tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as home, _cluster(home) as brokers:
        _fill(brokers.bootstrap)
        command = [
            sys.executable,
            "-m",
            __name__ if __name__ != "__main__" else "tests.bench.collector",
        ]
        subprocess.run([*command, "--bootstrap", brokers.bootstrap], check=True)


@contextlib.contextmanager
def _cluster(home: str) -> Iterator[LocalCluster]:
    cluster = LocalCluster(
        Path(home),
        base_port=free_base_port(),
        heap="1g",
        java_opts=["-XX:TieredStopAtLevel=4"],
        settings=SETTINGS,
    )
    with cluster:
        yield cluster


def _fill(bootstrap: str) -> None:
    """Tiered topics with two records in every partition."""
    names = [f"topic-{i:03d}" for i in range(TOPICS)]
    spec = {
        "num_partitions": PARTITIONS,
        "replication_factor": REPLICATION,
        "configs": {"remote.storage.enable": "true"},
    }
    with KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=60_000) as admin:
        for start in range(0, TOPICS, 10):
            some = dict.fromkeys(names[start : start + 10], spec)
            admin.create_topics(some, timeout_ms=60_000)
        admin.wait_for_topics(names, timeout_ms=60_000)
    with KafkaProducer(
        bootstrap_servers=bootstrap,
        linger_ms=20,
        batch_size=1_000,
        delivery_timeout_ms=240_000,
        metrics_enabled=False,
    ) as producer:
        for _ in range(2):
            for name in names:
                for partition in range(PARTITIONS):
                    producer.send(name, bytes(100), partition=partition)
            producer.flush(240)


def measure(bootstrap: str) -> None:
    """Warm up, then print the medians of the cycles after that."""
    use_little_memory()  # as ``run`` does
    config = Config(
        cluster=ClusterConfig(name="bench", bootstrap=bootstrap),
        bus=BusConfig(replication_factor=REPLICATION),
        collector=CollectorConfig(deadline_ms=DEADLINE_MS),
    )
    bus_topics.ensure_topics(config)
    with BrokerConnections(bootstrap, {}, DEADLINE_MS) as brokers, Sender(config) as sender:
        collector, encoder = Collector(config, brokers), ObservationEncoder()

        def ask() -> CycleResult:
            observation = collector.observe()
            assert observation is not None
            return observation

        for _ in range(WARM_UP_CYCLES):
            send(config, sender, encoder, ask())
        observation = ask()
        assert collector.problems == (), collector.problems
        replicas = len(observation.placement.broker)
        assert replicas >= TOPICS * PARTITIONS * REPLICATION
        assert (
            ask().readings[LocalStarts].timestamp_ms > 0
        ).sum() >= TOPICS * PARTITIONS * REPLICATION
        about = {"replicas": replicas, "cycles": CYCLES}

        whole = _medians(lambda: send(config, sender, encoder, ask()))
        figure("collector_cycle_seconds", whole[0], "s", **about)
        figure("collector_cycle_cpu_seconds", whole[1], "s", **about)
        asking = _medians(ask)
        figure("collector_ask_seconds", asking[0], "s", **about)
        figure("collector_ask_cpu_seconds", asking[1], "s", **about)
        per_value = asking[1] / (replicas * VALUES_A_REPLICA)
        figure("collector_ask_cpu_microseconds_per_value", per_value * 1e6, "us", **about)
        # Before the plain way is tried, which takes memory of its own.
        figure("collector_rss_megabytes", _rss_megabytes(), "MB", **about)
        figure("collector_rss_peak_megabytes", _rss_peak_megabytes(), "MB", **about)

        placement = observation.placement
        plain = _medians(lambda: _plainly(brokers, placement))
        figure("collector_plain_kafka_python_cpu_seconds", plain[1], "s", **about)
        figure("collector_cpu_ratio_to_plain_kafka_python", plain[1] / asking[1], "x", **about)

        some = [
            TopicPartition(f"topic-{i // PARTITIONS:03d}", i % PARTITIONS)
            for i in range(groups.PARTITIONS)
        ]
        groups.measure(config, observation.addresses(), some, _medians)


def _medians(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds, of several."""
    wall, cpu = [], []
    for _ in range(CYCLES):
        began, spent = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
        time.sleep(PAUSE_S)
    return statistics.median(wall), statistics.median(cpu)


def _rss_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def _rss_peak_megabytes() -> float:
    """The most since this program began; getrusage would count what the parent used before."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_024


def _plainly(brokers: BrokerConnections, placement: ListedPlacement) -> np.ndarray:
    """The same offsets and sizes with every request built and every answer decoded anew."""

    def make(broker: int, versions: Versions) -> Sequence[EncodedRequest]:
        plain = offsets.BrokerOffsets(placement, broker, 11)
        version = versions[ListOffsetsRequest.API_KEY][1]
        requests = [
            EncodedRequest.encode(plain.request(kind, DEADLINE_MS), version)
            for kind in offsets.SINCE
        ]
        return [*requests, EncodedRequest.encode(DescribeLogDirsRequest(topics=None), 5)]

    values = np.full((VALUES_A_REPLICA, len(placement.broker)), -1, np.int64)
    deadline = Deadline.after_ms(DEADLINE_MS)
    for broker, response in brokers.ask(brokers.broker_ids(), make, deadline).items():
        replicas = placement.replicas_on(broker)
        *five, log_dirs_body = response.bodies
        for row, body in zip(values, five, strict=False):
            rows, _, numbers, _ = offsets.decoded(body or b"", 11, replicas)
            row[rows] = numbers
        sizes = log_dirs_layout.decoded(log_dirs_body or b"", 5, replicas, set(placement.topic))
        values[-1][sizes.rows] = sizes.sizes
    return values


if __name__ == "__main__":
    main(sys.argv[1:])
