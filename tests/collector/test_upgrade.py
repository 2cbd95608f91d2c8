"""Brokers of different versions in one cluster, and a collector that runs while they change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.sources.offsets import ReplicaOffsets
from streaming.collector.wire.connections import BrokerConnections, version_text
from streaming.runtime.config import CollectorConfig, Config
from tests.collector.fake_broker import (
    FakeBroker,
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.collector.older import all_be_kafka, be_kafka
from tests.waiting import AMPLE_MS, until

CONFIG = Config(collector=CollectorConfig(deadline_ms=AMPLE_MS))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    logs = {b: Log(0, 30, 100, last_tiered=59, pending=60) for b in (1, 2, 3)}
    with fake_cluster(
        World(topics={"orders": Topic({0: Partition([1, 2, 3], logs=logs)})})
    ) as all_:
        yield all_


def restart(cluster: FakeCluster, node: int, version: str | None) -> None:
    """The broker is back on another port, as the version or as the newest one."""
    cluster[node].stop()
    cluster.brokers[node] = FakeBroker(node, cluster.world, cluster)
    if version is not None:
        be_kafka(version, cluster[node])


def observed(collector: Collector) -> CycleResult:
    """An observation that every broker has answered."""

    def whole() -> CycleResult | None:
        observation = collector.observe()
        assert observation is not None
        is_whole = all(observation.brokers.column("answered").to_pylist())
        return observation if is_whole else None

    return until(whole, otherwise="not every broker answers", pause_s=0.05)


def known_offsets(observation: CycleResult) -> list[tuple[int, int, int]]:
    """Local start, last tiered and pending upload of each replica."""
    offsets = observation.readings[ReplicaOffsets]
    columns = (offsets.local_start, offsets.last_tiered, offsets.pending_upload)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def kafka_versions(observation: CycleResult) -> list[str]:
    """Of each broker."""
    versions: list[str] = observation.brokers.column("kafka_version").to_pylist()
    return versions


def test_a_rolling_upgrade_is_noticed_by_a_running_collector(cluster: FakeCluster) -> None:
    all_be_kafka("3.7", cluster)
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        collector = Collector(CONFIG, brokers)
        before = observed(collector)
        assert known_offsets(before) == [(30, -1, -1)] * 3
        assert before.brokers.column("fenced").to_pylist() == [-1, -1, -1]
        assert kafka_versions(before) == ["3.7"] * 3
        for node in (1, 2, 3):
            restart(cluster, node, None)
            upgraded = observed(collector)
            assert known_offsets(upgraded) == [(30, 59, 60)] * node + [(30, -1, -1)] * (3 - node)
            assert kafka_versions(upgraded) == ["4.3+"] * node + ["3.7"] * (3 - node)
        assert upgraded.brokers.column("fenced").to_pylist() == [0, 0, 0]
        assert "brokers" not in upgraded.incomplete


@pytest.mark.parametrize("first", [1, 2])
def test_each_broker_is_asked_in_its_own_version_whichever_is_met_first(
    first: int, cluster: FakeCluster
) -> None:
    be_kafka("3.6", cluster[2])
    with BrokerConnections(f"127.0.0.1:{cluster[first].port}", {}, AMPLE_MS) as brokers:
        offsets = known_offsets(observed(Collector(CONFIG, brokers)))
    assert offsets == [(30, 59, 60), (30, -1, -1), (30, 59, 60)]


def test_a_broker_that_goes_back_to_an_older_version_is_asked_as_one(cluster: FakeCluster) -> None:
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        collector = Collector(CONFIG, brokers)
        assert known_offsets(observed(collector)) == [(30, 59, 60)] * 3
        for node in (1, 2, 3):
            restart(cluster, node, "3.3")
            downgraded = known_offsets(observed(collector))
            assert downgraded == [(-1, -1, -1)] * node + [(30, 59, 60)] * (3 - node)


def test_a_broker_that_is_lost_keeps_its_version_and_a_new_collector_knows_none(
    cluster: FakeCluster,
) -> None:
    be_kafka("3.7", cluster[2])
    for expected in ("3.7", ""):
        with BrokerConnections(f"127.0.0.1:{cluster[1].port}", {}, AMPLE_MS) as brokers:
            collector = Collector(CONFIG, brokers)
            if expected:
                assert kafka_versions(observed(collector)) == ["4.3+", "3.7", "4.3+"]
                cluster[2].stop()
            lost = collector.observe()
            assert lost is not None
            assert kafka_versions(lost) == ["4.3+", expected, "4.3+"]


def test_a_version_that_the_user_sets_is_not_taken_for_the_brokers(cluster: FakeCluster) -> None:
    be_kafka("3.7", cluster[3])
    client = {"api_version": "3.9"}
    with BrokerConnections(f"127.0.0.1:{cluster[1].port}", client, AMPLE_MS) as brokers:
        versions = kafka_versions(observed(Collector(CONFIG, brokers)))
    assert versions == ["", "", "3.7"]  # the client goes below it where it must


@pytest.mark.parametrize(
    ("release", "text"),
    [((0, 10, 2), "0.10.2"), ((3, 5), "3.5"), ((3, 9), "3.9"), ((4, 0), "4.0"), ((4, 3), "4.3+")],
)
def test_a_release_is_told_by_the_versions_that_its_brokers_offer(
    release: tuple[int, ...], text: str
) -> None:
    offered = BrokerVersionData(api_versions=BROKER_API_VERSIONS[release])
    assert version_text(offered.broker_version) == text
