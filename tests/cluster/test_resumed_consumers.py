"""Where consumers go on after an unclean election has truncated what they had read.

Kafka's own consumer by both protocols, and kafka-python's, against what the twin says; with the
leader epoch of their offset committed, as Kafka's own consumer does, and without. kafka-python
takes no notice of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import OffsetOutOfRangeError

from streaming.exporter.views.partitions import partition_objects
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime import jars
from tests.cluster.broker_client import BrokerClient, await_in_sync
from tests.cluster.groups import watching_groups
from tests.cluster.test_groups import as_kafka_exporter
from tests.cluster.topics import produce
from tests.cluster.watching import Watch, keys
from tests.versions.releases import OWN, Release
from tests.versions.tools import Tools
from tests.waiting import until
from twin.engine.shard_state import ShardState

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

TOPIC: Final = "resumed"
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
SURVIVE, LOST, SINCE = 100, 60, 20
"""Records that both replicas have, that the old leader alone has, and that the new one is given."""

COMMITTED: Final = SURVIVE + LOST
POLICIES: Final = ("earliest", "latest", "none")
PROTOCOLS: Final = ("classic", "consumer")
STOPS: Final = {True: "LogTruncationException", False: "OffsetOutOfRangeException"}
"""The exception of Kafka's own consumer, by whether it detects the truncation."""

STOPS_IN_PYTHON: Final = "OffsetOutOfRangeError"
JAVA: Final = Path(__file__).parent / "java" / "Resumed.java"


def others(cluster: LocalCluster) -> list[str]:
    """The addresses of the brokers that stay, since a client may wait for a frozen one."""
    return [f"127.0.0.1:{node.port}" for node in cluster.status() if node.id < 4]


def write(cluster: LocalCluster, count: int) -> None:
    with closing(KafkaProducer(bootstrap_servers=others(cluster), acks=1)) as producer:
        for n in range(count):
            producer.send(TOPIC, b"%d" % n, partition=0).get(30)


def commit(cluster: LocalCluster, group: str, offset: int, leader_epoch: int) -> None:
    with closing(
        KafkaConsumer(bootstrap_servers=others(cluster), group_id=group, enable_auto_commit=False)
    ) as consumer:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(offset, "", leader_epoch)})


TRIES: Final = 15
"""Polls of one consumer, a second each."""


def resumed_in_java(cluster: LocalCluster, groups: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Where each group goes on, or why it stops; protocol and auto.offset.reset by group."""
    named = [f"{group}:{protocol}:{policy}" for group, (protocol, policy) in groups.items()]
    classpath = os.pathsep.join(map(str, Release(OWN).tools(cluster.jars())))
    done = subprocess.run(
        [jars.java(), "-Xmx128m", *jars.QUICK_START, "-Dlog4j2.level=OFF", "-cp", classpath,
         str(JAVA), cluster.bootstrap, TOPIC, str(COMMITTED), *named],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())  # type: ignore[arg-type]


def resumed_in_python(cluster: LocalCluster, group: str, policy: str) -> str:
    """Where kafka-python's consumer goes on, or the error with which it stops."""

    def resumed() -> str | None:
        """It raises an error once; on a busy machine it may lose it, so a new one asks again."""
        with closing(
            KafkaConsumer(
                TOPIC, bootstrap_servers=cluster.bootstrap, group_id=group,
                auto_offset_reset=policy, enable_auto_commit=False, max_poll_records=1,
            )
        ) as consumer:  # fmt: skip
            positions = (_position(consumer) for _ in range(TRIES))
            return next((each for each in positions if each is not None), None)

    return until(resumed, 60, f"{group} does not go on")


def _position(consumer: KafkaConsumer) -> str | None:
    try:
        polled = [r.offset for rs in consumer.poll(1_000).values() for r in rs]
    except OffsetOutOfRangeError as stopped:
        return type(stopped).__name__
    if polled:
        return str(polled[0])
    for partition in consumer.assignment():
        at = consumer.position(partition, timeout_ms=1_000)
        if at not in (None, COMMITTED):
            return str(at)
    return None


def shown(state: ShardState) -> dict[str, dict[str, Any]]:
    """The groups of the partition, as the API has them."""
    row = keys(state).index((TOPIC, 0))
    [partition] = partition_objects(state, np.array([row]), state.observed_at_ms)
    return {group["group"]: group for group in partition["groups"]}


@pytest.fixture
def truncated(five_brokers: LocalCluster) -> Iterator[tuple[LocalCluster, Watch, list[str]]]:
    """Groups that have read all of 4's log, after 5 was elected, which lacks its last records."""
    five, client = five_brokers, BrokerClient(five_brokers)
    client.create(TOPIC, [[4, 5]], UNCLEAN)
    produce(five, TOPIC, SURVIVE)
    groups = [f"{who}-{policy}-{epoch}" for who in (*PROTOCOLS, "python") for policy in POLICIES
              for epoch in ("epoch", "none")]  # fmt: skip
    try:
        with watching_groups(five.bootstrap) as watch:
            five.pause(5)
            until(lambda: client.partition(1, TOPIC).isr == {4}, 60, "5 stays in the ISR")
            write(five, LOST)
            epoch = client.partition(1, TOPIC).epoch
            for group in groups:
                commit(five, group, COMMITTED, epoch if group.endswith("epoch") else -1)
            watch.look_at_groups()
            five.kill(4)
            five.resume(5)
            until(lambda: client.partition(1, TOPIC).leader == 5, 60, "5 does not lead")
            write(five, SINCE)
            yield five, watch, groups
    finally:
        for node in five.status():
            if node.state == "paused":
                five.resume(node.id)
        five.start()
        await_in_sync(five)


def test_consumers_go_on_where_the_twin_says_after_a_truncation(
    truncated: tuple[LocalCluster, Watch, list[str]],
) -> None:
    five, watch, groups = truncated

    def all_ahead() -> dict[str, dict[str, Any]] | None:
        watch.look_at_groups()
        found = shown(watch.look())
        is_ahead = [group["reads_from"] == "ahead" for group in found.values()]
        return found if len(found) == len(groups) and all(is_ahead) else None

    found = until(all_ahead, 60, "the groups are not ahead")
    end = SURVIVE + SINCE
    expected = {"earliest": 0, "latest": end, "diverging": SURVIVE}
    assert all(group["reset_to"] == expected for group in found.values())
    assert all(group["lag_records"] is None for group in found.values())

    with Tools(Release(OWN).tools(five.jars()), five.bootstrap) as tools:
        theirs = {g: o.lag for (g, topic, _), o in tools.group_offsets().items() if topic == TOPIC}
    ours = {
        labels["consumergroup"]: value
        for labels, value in as_kafka_exporter(watch.state)["kafka_consumergroup_lag"]
        if labels["topic"] == TOPIC
    }
    assert ours == theirs == dict.fromkeys(groups, end - COMMITTED)

    java = {group: tuple(group.split("-")[:2]) for group in groups if "python" not in group}
    went = resumed_in_java(five, java)  # type: ignore[arg-type]
    went |= {g: resumed_in_python(five, g, g.split("-")[1]) for g in groups if "python" in g}
    print(went)
    for group, where in went.items():
        who, policy, epoch = group.split("-")
        detects = epoch == "epoch" and who in PROTOCOLS
        if policy == "none":
            assert where == (STOPS_IN_PYTHON if who == "python" else STOPS[detects]), group
        else:
            assert where == str(found[group]["reset_to"]["diverging" if detects else policy]), group
