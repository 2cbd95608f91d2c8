"""Brokers with small volumes, topics that fill them, and a tier that is taken away and given back.

What a run is like follows from its seed: which brokers and log directories there are and which of
the difficulties there is, by a table; sizes, rates and retentions at random.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.questions import QUESTIONS
from tests.asking import a_view
from tests.cluster.broker_client import BROKER_RESOURCE, BrokerClient
from tests.cluster.watching import Watch
from twin.builtin import CATALOG
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine.cluster_risks import ClusterRisks

MB: Final = 1_000_000
SEGMENT_BYTES: Final = 1 << 20
RECORD_BYTES: Final = 20_000
TIERED, PLAIN = "tiered", "plain"

WARM_S: Final = 66
"""Topics are written before remote storage is away: the twin takes its sums every minute."""

_BESIDE_MB: Final = 3
"""On each volume, what is in no log: indexes, metadata, and segments that are being deleted."""

Volume = tuple[int, int]
"""Broker, and which of its log directories."""


@dataclass(frozen=True)
class Shape:
    """Which of the difficulties a run has."""

    brokers: int = 1
    directories: int = 1
    has_plain: bool = False
    has_quota: bool = False
    changes_leaders: bool = False
    gives_back: bool = False


SHAPES: Final = {
    1: Shape(),
    2: Shape(has_plain=True),
    3: Shape(has_quota=True, gives_back=True),
    4: Shape(brokers=2),
    5: Shape(brokers=2, changes_leaders=True),
    6: Shape(brokers=2, has_plain=True, has_quota=True),
    7: Shape(brokers=2, has_plain=True, changes_leaders=True),
    8: Shape(brokers=2, has_quota=True, changes_leaders=True, gives_back=True),
    9: Shape(directories=2),
    10: Shape(directories=2, has_plain=True),
    11: Shape(directories=2, has_quota=True),
    12: Shape(directories=2, has_plain=True, has_quota=True, gives_back=True),
}


@dataclass(frozen=True)
class Run:
    """What follows from a seed. A volume is full some minutes after remote storage is away.

    ``tiered_mb_per_s`` is that of each partition: there is one for each volume. The topic that is
    not tiered is on the last volume alone. ``copy_mb_per_s`` is the quota of the first broker, and
    ``outage_s`` is 0 if the outage lasts until a directory has failed.
    """

    shape: Shape
    volumes_mb: tuple[int, ...]
    tiered_mb_per_s: float
    plain_mb_per_s: float
    local_retention_s: int
    copy_mb_per_s: float
    outage_s: int

    @staticmethod
    def of(seed: int) -> Run:
        rng, shape = random.Random(seed), SHAPES[seed]
        if seed == 1:
            return Run(shape, (130,), 0.9, 0.0, 15, 0.0, 0)
        volumes = shape.brokers * shape.directories
        rate, keeps_s = rng.choice((0.4, 0.5, 0.7)), rng.choice((8, 12, 16))
        plain = rng.choice((0.1, 0.2)) if shape.has_plain else 0.0
        held = rate * (volumes if shape.brokers > 1 else 1)
        outage_s = rng.choice((50, 60)) if shape.gives_back else 0
        sizes = []
        for number in range(volumes):
            also = plain if number == volumes - 1 else 0.0
            full_s = 3 * outage_s or rng.randrange(80, 120, 5)
            sizes.append(_BESIDE_MB + held * (keeps_s + full_s) + also * (WARM_S + full_s))
        led = rate * (volumes if shape.directories > 1 else 1)
        quota = led * rng.choice((2.5, 3.5)) if shape.has_quota else 0.0
        return Run(shape, tuple(map(round, sizes)), rate, plain, keeps_s, quota, outage_s)

    @property
    def volumes(self) -> list[Volume]:
        """In the order of their sizes."""
        brokers = range(FIRST, FIRST + self.shape.brokers)
        return [(b, number) for b in brokers for number in range(self.shape.directories)]

    @property
    def replicas(self) -> list[list[int]]:
        """Of each partition of the tiered topic; each leads one."""
        brokers = list(range(FIRST, FIRST + self.shape.brokers))
        return [[first, *(each for each in brokers if each != first)] for first, _ in self.volumes]


FIRST: Final = 2
"""The first broker with small volumes; broker 1 is the controller and has none of the topics."""


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """A volume of its own at that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def away(cluster: LocalCluster) -> Iterator[None]:
    """The tier neither takes what is uploaded nor has what was."""
    with mounted(cluster.home / "remote", "ro", "size=1m"):
        yield


@contextmanager
def small_volumes(
    home: Path, sizes_mb: Mapping[Volume, int], release: Path | None = None
) -> Iterator[LocalCluster]:
    """A cluster that runs, with volumes of those sizes."""
    brokers = len({broker for broker, _ in sizes_mb})
    running = LocalCluster(
        home, 1, brokers, base_port=free_base_port(), metrics=False, release=release,
        log_dirs=len(sizes_mb) // brokers,
    )  # fmt: skip
    with ExitStack() as stack:
        for (broker, number), size_mb in sizes_mb.items():
            size = f"size={size_mb * MB // 1024}k"
            stack.enter_context(mounted(running.layout.disks(broker)[number], size))
        yield stack.enter_context(running)


def create_topics(cluster: LocalCluster, run: Run) -> dict[TopicPartition, float]:
    """The topics of a run; returns the MB a second at which each partition is to be written."""
    client = BrokerClient(cluster)
    kept = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "86400000"}
    tiered = kept | {
        "remote.storage.enable": "true",
        "local.retention.ms": str(run.local_retention_s * 1_000),
    }
    last_broker, last_directory = run.volumes[-1]
    rates = {TopicPartition(TIERED, n): run.tiered_mb_per_s for n in range(len(run.volumes))}
    if run.shape.has_plain:
        rates[TopicPartition(PLAIN, 0)] = run.plain_mb_per_s
        place(cluster, last_broker, last_directory, PLAIN, 0)
        client.create(PLAIN, [[last_broker]], kept)
    for partition, (broker, directory) in enumerate(run.volumes):
        place(cluster, broker, directory, TIERED, partition)
    client.create(TIERED, run.replicas, tiered)
    if run.shape.has_quota:
        quota = str(round(run.copy_mb_per_s * MB))
        name = {"remote_log_manager_copy_max_bytes_per_second": quota}
        client.configure(BROKER_RESOURCE, str(FIRST), **name)
    return rates


def place(cluster: LocalCluster, broker: int, directory: int, topic: str, number: int) -> None:
    """Tell a broker in which of its directories a replica will be; it answers that none is yet."""
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    of_topic = kind.AlterReplicaLogDirTopic(name=topic, partitions=[number])
    path = str(cluster.layout.disks(broker)[directory])
    request = AlterReplicaLogDirsRequest(dirs=[kind(path=path, topics=[of_topic])])
    BrokerClient(cluster).ask(broker, request, AlterReplicaLogDirsResponse, 2)


def change_leaders(cluster: LocalCluster, run: Run) -> None:
    """Each partition of the tiered topic is led by the next of its replicas, and is to be."""
    client = BrokerClient(cluster)
    for number, (first, *others) in enumerate(run.replicas):
        client.reassign(TIERED, number, [*others, first])
    time.sleep(1)  # the controller has no request that says it is done
    numbers = list(range(len(run.replicas)))
    wanted = ElectLeadersRequest.TopicPartitions(topic=TIERED, partitions=numbers)
    request = ElectLeadersRequest(election_type=0, topic_partitions=[wanted], timeout_ms=10_000)
    answer = client.ask(1, request, ElectLeadersResponse, 2)
    assert answer.error_code == 0
    leaders = [client.routed(1)[TIERED, number] for number in numbers]
    assert leaders == [others[0] for _, *others in run.replicas]


@contextmanager
def written(bootstrap: str, rates: Mapping[TopicPartition, float]) -> Iterator[None]:
    """Partitions are written at those rates, in MB a second; what fails is not written again."""
    over = threading.Event()
    record = os.urandom(RECORD_BYTES)

    def write(to: TopicPartition, per_s: float) -> None:
        began, count = time.monotonic(), 0
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks=1, retries=0, request_timeout_ms=5_000,
            max_block_ms=5_000,
        )  # fmt: skip
        while not over.is_set():
            with suppress(KafkaError):
                producer.send(to.topic, record, partition=to.partition)
            count += 1
            late_s = began + count * len(record) / (per_s * MB) - time.monotonic()
            over.wait(max(late_s, 0))
        with suppress(KafkaError):
            producer.close(timeout=5)

    threads = [threading.Thread(target=write, args=each, daemon=True) for each in rates.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def failed(cluster: LocalCluster, volumes: list[Volume]) -> Volume | None:
    """The first of those volumes whose directory its broker has taken out of use.

    A broker that loses its last directory ends at once.
    """
    for broker, number in volumes:
        path = re.escape(str(cluster.layout.disks(broker)[number]))
        log = (cluster.layout.folder(broker) / "server.log").read_text(errors="replace")
        if re.search(rf"Stopping serving (logs|replicas) in dir {path}\b", log):
            return broker, number
    ended = {node.id for node in cluster.status() if node.state == "stopped"}
    return next((volume for volume in volumes if volume[0] in ended), None)


class Twin:
    """The twin of a cluster: its shard, and that of the whole cluster."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self.own = watch, empty_cluster(CATALOG, "real", 1)

    def look(self) -> None:
        self.own, _ = step_cluster(self.own, reports(self._watch.look()))

    def full_after_s(self, cluster: LocalCluster) -> dict[Volume, float]:
        """Of each small volume; until uploads are known to be late, the outage is a what-if."""
        forecasts, found = self.own[DiskForecasts], {}
        for row, broker in enumerate(forecasts.broker.tolist()):
            if broker >= FIRST:
                paths = [str(path) for path in cluster.layout.disks(broker)]
                latest, away = forecasts.full_at_latest_ms[row], forecasts.full_if_away_ms[row]
                at_ms = np.fmin(latest, away)
                volume = broker, paths.index(str(forecasts.log_dir[row]))
                found[volume] = float(at_ms - self.own.observed_at_ms) / 1_000
        return found

    def in_outage(self, for_s: float) -> dict[str, Any]:
        """The answer to tier-outage."""
        view = a_view(self._watch.state, cluster=self.own)
        return QUESTIONS["tier-outage"].data(view, {"for_": round(for_s * 1_000)})

    def opened(self, risk: str) -> list[int] | None:
        """The brokers of which it is open; None if nobody knows."""
        return self.own[ClusterRisks].brokers(risk)
