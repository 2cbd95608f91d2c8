"""Two log directories of a real broker: one volume, a replica that moves, one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.protocol.admin import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

from streaming.bus.view import ClusterView, SnapshotStore
from streaming.exporter.views.log_dirs import LogDirFilter, log_dirs
from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.cluster.broker_client import BrokerClient
from tests.cluster.watching import Watch, watching
from tests.waiting import until
from twin.builtin import CATALOG
from twin.cluster_rules.disks.dir_contents import CLASSES
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.rules.brokers.log_dirs import ReplicaDirs
from twin.tables.state import PartitionIndex

pytestmark = [pytest.mark.cluster, pytest.mark.releases]

TOPIC, PARTITIONS = "disks", 6
SLOWLY = {"replica.alter.log.dirs.io.max.bytes.per.second": "400000"}
"""So that a move between directories lasts for some cycles."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with two log directories, both on the volume of this machine."""
    running = LocalCluster(
        tmp_path_factory.mktemp("disks"), 1, base_port=free_base_port(), settings=SLOWLY,
        metrics=False, log_dirs=2,
    )  # fmt: skip
    with running:
        client = BrokerClient(running)
        client.create(TOPIC, [[1]] * PARTITIONS, {})
        with KafkaProducer(bootstrap_servers=running.bootstrap, max_request_size=900_000) as to:
            for number in range(4 * PARTITIONS):
                to.send(TOPIC, b"x" * 500_000, partition=number % PARTITIONS)
            to.flush(60)
        yield running


@pytest.fixture(scope="module")
def watch(cluster: LocalCluster) -> Iterator[Watch]:
    with watching(cluster.bootstrap) as twin:
        until(lambda: TOPIC in twin.look().topic_names(), 30, "the twin does not know the topic")
        yield twin


def seen(watch: Watch) -> ClusterView:
    """What an exporter would read after one more cycle."""
    state = watch.look()
    own, _ = step_cluster(empty_cluster(CATALOG, state.cluster, 1), reports(state))
    store = SnapshotStore(CATALOG, state.cluster, 1)
    for key, each in ((0, state), ("cluster", own)):
        store.take_snapshot(f"{state.cluster}/{key}".encode(), codec.encode(each))
    return store.publish()


def disks(watch: Watch) -> list[dict[str, object]]:
    return log_dirs(seen(watch), LogDirFilter(), watch.state.observed_at_ms)["log_dirs"]


def directories(watch: Watch) -> dict[tuple[str, int], int]:
    """The number of the directory of each replica, by the twin."""
    state = watch.state
    numbers = state[PartitionIndex].partition.tolist(), state[ReplicaDirs].number[:, 0].tolist()
    found = zip(state.topic_names().tolist(), *numbers, strict=True)
    return {(topic, partition): number for topic, partition, number in found if topic == TOPIC}


def test_both_are_one_volume_whose_use_adds_up(cluster: LocalCluster, watch: Watch) -> None:
    of_kafka = BrokerClient(cluster).log_dirs(1)
    found = disks(watch)
    paths = [str(path) for path in cluster.layout.disks(1)]
    assert [each["log_dir"] for each in found] == sorted(paths)
    assert {each["volume"] for each in found} == {sorted(paths)[0]}
    assert {each["total_bytes"] for each in found} == {of_kafka.total_bytes // 2}
    by_class = {name: [each[f"{name}_bytes"] for each in found] for name in CLASSES}
    used = found[0]["total_bytes"] - found[0]["usable_bytes"]
    assert sum(value or 0 for values in by_class.values() for value in values) == used
    assert sum(by_class["untiered"]) == sum(of_kafka.size_bytes.values())
    assert min(by_class["untiered"]) > 0


def test_a_replica_that_is_moved_counts_there_when_it_has_arrived(
    cluster: LocalCluster, watch: Watch
) -> None:
    disks(watch)
    key, number = next((k, n) for k, n in sorted(directories(watch).items()) if n == 0)
    to = sorted(str(path) for path in cluster.layout.disks(1))[1]
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = kind.AlterReplicaLogDirTopic(name=TOPIC, partitions=[key[1]])
    request = AlterReplicaLogDirsRequest(dirs=[kind(path=to, topics=[topic])])
    answer = BrokerClient(cluster).ask(1, request, AlterReplicaLogDirsResponse, 2)
    assert [p.error_code for t in answer.results for p in t.partitions] == [0]
    until(lambda: disks(watch)[1]["future_bytes"], 20, "nothing is being moved")
    assert directories(watch)[key] == number
    until(lambda: disks(watch)[1]["future_bytes"] == 0, 60, "it does not arrive")
    assert directories(watch)[key] == 1


def test_one_that_fails_names_the_partitions_that_were_in_it(
    cluster: LocalCluster, watch: Watch
) -> None:
    before = directories(watch)
    lost: Path = sorted(cluster.layout.disks(1))[1]
    lost.rename(lost.with_name("aside"))
    lost.write_text("not a folder\n")
    until(lambda: disks(watch)[1]["has_failed"], 60, "the broker does not notice")
    client = BrokerClient(cluster)
    until(lambda: any(s.offline for s in client.partitions(1).values()), 20, "none is offline")
    whole, failed = disks(watch)
    assert not whole["has_failed"]
    named = {(each["topic"], each["partition"]) for each in failed["offline"]}
    assert named == {key for key, state in client.partitions(1).items() if 1 in state.offline}
    assert {key for key in named if key[0] == TOPIC} == {k for k, n in before.items() if n == 1}
    assert failed["offline_replicas"] == len(named)
