"""Clusters before Kafka 4.0, which do not list brokers that are fenced."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.cycle_log import CycleLog
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.problem import Problem
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.collector.wire.unlisted import UnlistedBrokers
from streaming.runtime.config import CollectorConfig, Config
from tests.collector.fake_broker import (
    FakeBroker,
    FakeCluster,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.collector.older import all_be_kafka
from tests.waiting import AMPLE_MS
from twin.tables.state import UNLISTED_STAYS_MS

CONFIG = Config(collector=CollectorConfig(deadline_ms=AMPLE_MS))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    world = World(
        topics={"orders": Topic({0: Partition([1, 2])})},
        racks={1: "az-a", 2: "az-b", 3: "az-c"},
    )
    with fake_cluster(world) as three:
        all_be_kafka("3.9", three)
        yield three


@pytest.fixture
def watch(cluster: FakeCluster) -> Iterator[Callable[[], Collector]]:
    """Makes collectors, as after a restart."""
    opened: list[BrokerConnections] = []

    def make(unlisted: UnlistedBrokers | None = None) -> Collector:
        opened.append(BrokerConnections(cluster.bootstrap, {}, CONFIG.collector.deadline_ms))
        return Collector(CONFIG, opened[-1], MetadataSource(CONFIG, "test", unlisted))

    yield make
    for connections in opened:
        connections.close()


def kill(cluster: FakeCluster, node: int) -> None:
    cluster.world.fenced.add(node)
    cluster[node].stop()


def observed(collector: Collector) -> CycleResult:
    observation = collector.observe()
    assert observation is not None
    return observation


def rows(observation: CycleResult) -> dict[int, tuple[str, bool, bool, int]]:
    """Rack, listed, answered and fenced of each broker."""
    names = ("rack", "listed", "answered", "fenced")
    return {
        row["broker"]: tuple(row[name] for name in names) for row in observation.brokers.to_pylist()
    }


def of_brokers(collector: Collector) -> list[Problem]:
    return [problem for problem in collector.problems if problem.source == "broker"]


def test_a_lost_broker_that_holds_replicas_stays_with_its_rack_and_does_not_answer(
    cluster: FakeCluster, watch: Callable[[], Collector]
) -> None:
    collector = watch()
    before = observed(collector)
    assert rows(before)[2] == ("az-b", True, True, -1)
    assert "brokers" in before.incomplete
    kill(cluster, 2)
    for _ in range(3):
        assert rows(observed(collector))[2] == ("az-b", False, False, -1)
        [problem] = of_brokers(collector)
        # The client may refresh its own list, which lacks the broker, before its first attempt.
        assert problem.broker == 2
        assert problem.error in ("KafkaConnection", "NotListed")


def test_it_is_called_recovered_once_it_answers_and_not_before(
    cluster: FakeCluster, watch: Callable[[], Collector]
) -> None:
    collector, cycle_log = watch(), CycleLog()

    def cycle() -> CycleResult:
        observation = observed(collector)
        cycle_log.cycle(collector.problems, 1.0, observation)
        return observation

    cycle()
    with capture_logs() as lines:
        kill(cluster, 2)
        for _ in range(4):
            cycle()
        # The client's own list may lack the broker from some attempt on, which is another error.
        assert {(line["event"], line["broker"]) for line in lines} == {("unavailable", 2)}
        cluster.brokers[2] = FakeBroker(2, cluster.world, cluster)
        all_be_kafka("3.9", cluster)
        cluster.world.fenced.clear()
        for _ in range(40):
            if rows(cycle())[2][2]:
                break
    assert [line["event"] for line in lines][-1] == "recovered"


def test_a_collector_that_starts_meanwhile_says_that_it_is_not_listed(
    cluster: FakeCluster, watch: Callable[[], Collector]
) -> None:
    kill(cluster, 2)
    collector = watch()
    for _ in range(2):
        assert rows(observed(collector))[2] == ("", False, False, -1)
        [problem] = of_brokers(collector)
        assert (problem.broker, problem.error) == (2, "NotListed")


def test_a_fenced_broker_that_is_alive_still_answers(
    cluster: FakeCluster, watch: Callable[[], Collector]
) -> None:
    collector = watch()
    observed(collector)
    cluster.world.fenced.add(2)
    assert rows(observed(collector))[2] == ("az-b", False, True, -1)


def test_a_broker_without_replicas_is_forgotten_after_a_while(
    cluster: FakeCluster, watch: Callable[..., Collector]
) -> None:
    now_s = [0.0]
    collector, cycle_log = watch(UnlistedBrokers(lambda: now_s[0])), CycleLog()
    observed(collector)
    kill(cluster, 3)
    while_known = observed(collector)
    cycle_log.cycle(collector.problems, 1.0, while_known)
    assert [problem.broker for problem in of_brokers(collector)] == [3]
    now_s[0] = UNLISTED_STAYS_MS / 1_000
    last = observed(collector)
    assert sorted(rows(last)) == [1, 2]
    with capture_logs() as lines:
        cycle_log.cycle(collector.problems, 1.0, last)
    assert [line["event"] for line in lines] == ["no longer registered"]


def test_a_kafka_that_lists_fenced_brokers_says_who_is_gone(
    cluster: FakeCluster, watch: Callable[[], Collector]
) -> None:
    all_be_kafka("4.0", cluster)
    collector = watch()
    assert "brokers" not in observed(collector).incomplete
    cluster.world.fenced.add(2)
    assert rows(observed(collector))[2] == ("az-b", True, True, 1)
    cluster.brokers.pop(3).stop()
    assert sorted(rows(observed(collector))) == [1, 2]
