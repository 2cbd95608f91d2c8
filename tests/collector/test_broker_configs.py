"""Settings that brokers may have differently (replica.selector.class, KIP-392)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeConfigsRequest

from streaming.checks.cluster_checks import of_cluster
from streaming.collector.cycle.collector import Collector
from streaming.collector.settings.config_values import BROKER_OWN_KEYS, broker_columns
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import (
    BrokerCapacity,
    CapacityConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
)
from tests.collector.fake_broker import FakeCluster, World, fake_cluster
from tests.waiting import patient_ms
from twin.declarations.table import UNKNOWN
from twin.tables.enums import ReplicaSelector

KEY = "replica.selector.class"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({KEY: None}, ReplicaSelector.LEADER),
        ({KEY: ""}, ReplicaSelector.LEADER),
        ({KEY: RACK_AWARE}, ReplicaSelector.RACK_AWARE),
        ({KEY: "org.example.RackAwareReplicaSelector"}, ReplicaSelector.CUSTOM),
        ({}, UNKNOWN),
    ],
)
def test_a_class_is_of_one_kind(values: dict[str, str | None], kind: int) -> None:
    assert broker_columns(values)["replica_selector"] == kind


def test_the_settings_of_a_broker_stand_in_their_columns() -> None:
    own = {
        "follower.fetch.last.tiered.offset.enable": "true",
        "replica.lag.time.max.ms": "30000",
        "replica.fetch.wait.max.ms": "500",
        "min.insync.replicas": "2",
        "log.retention.check.interval.ms": "60000",
        "remote.log.manager.copy.max.bytes.per.second": "9223372036854775807",
    }
    columns = broker_columns(own)
    assert columns["follower_last_tiered_fetch"] == 1
    assert (columns["lag_time_max_ms"], columns["fetch_wait_max_ms"]) == (30_000, 500)
    assert columns["default_min_isr"] == 2
    assert columns["retention_check_ms"] == 60_000
    assert columns["copy_max_bytes_per_s"] == 2**63 - 1
    assert columns["default_retention_ms"] == UNKNOWN
    older = broker_columns({})
    assert older["follower_last_tiered_fetch"] == 0, "a Kafka before 4.2 has no such feature"
    assert (older["lag_time_max_ms"], older["fetch_wait_max_ms"]) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    ("values", "column", "value"),
    [
        ({"log.retention.ms": None, "log.retention.minutes": None, "log.retention.hours": "168"},
         "default_retention_ms", 604_800_000),
        ({"log.retention.ms": "1000", "log.retention.minutes": "5", "log.retention.hours": "168"},
         "default_retention_ms", 1_000),
        ({"log.retention.minutes": "5", "log.retention.hours": "168"},
         "default_retention_ms", 300_000),
        ({"log.retention.ms": "-1", "log.retention.hours": "168"}, "default_retention_ms", -3),
        ({"log.retention.hours": "-1"}, "default_retention_ms", -3),
        ({"log.retention.bytes": "-1"}, "default_retention_bytes", -3),
        ({"log.local.retention.ms": "-2"}, "default_local_retention_ms", -2),
        ({"log.roll.ms": None, "log.roll.hours": "24"}, "default_segment_ms", 86_400_000),
        ({"log.segment.bytes": "1073741824"}, "default_segment_bytes", 1 << 30),
    ],
)  # fmt: skip
def test_the_finest_unit_that_is_set_is_what_a_broker_keeps_its_logs_by(
    values: dict[str, str | None], column: str, value: int
) -> None:
    assert broker_columns(values)[column] == value


class Asker:
    """Collects cycles; the selectors of each, by broker."""

    def __init__(self, cluster: FakeCluster, config_interval_ms: int = 60_000) -> None:
        section = CollectorConfig(
            deadline_ms=patient_ms(900), config_interval_ms=config_interval_ms
        )
        self.brokers = BrokerConnections(cluster.bootstrap, {}, patient_ms(900))
        self.collector = Collector(Config(collector=section), self.brokers)

    def __call__(self) -> dict[int, int]:
        observation = self.collector.observe()
        assert observation is not None
        rows = observation.brokers.to_pylist()
        return {row["broker"]: row["replica_selector"] for row in rows}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(World()) as three:
        three.world.broker_configs[KEY] = RACK_AWARE
        yield three


@pytest.fixture
def ask(cluster: FakeCluster) -> Iterator[Asker]:
    asker = Asker(cluster)
    yield asker
    asker.brokers.close()


def questions(cluster: FakeCluster, broker: int) -> int:
    """How often a broker was asked for its own settings."""
    return sum(
        list(resource.configuration_keys) == list(BROKER_OWN_KEYS)
        for request in cluster[broker].asked_of(DescribeConfigsRequest)
        for resource in request.resources
    )


def test_every_broker_is_asked_for_its_own(cluster: FakeCluster, ask: Asker) -> None:
    cluster[2].configs = {KEY: None}
    cluster[3].configs = {KEY: "org.example.Nearest"}
    assert ask() == {
        1: ReplicaSelector.RACK_AWARE,
        2: ReplicaSelector.LEADER,
        3: ReplicaSelector.CUSTOM,
    }


def test_they_are_read_once_in_the_interval(cluster: FakeCluster, ask: Asker) -> None:
    first = ask()
    assert ask() == first
    assert [questions(cluster, broker) for broker in (1, 2, 3)] == [1, 1, 1]


def test_they_are_read_again_once_the_interval_is_over(cluster: FakeCluster) -> None:
    ask = Asker(cluster, config_interval_ms=0)
    ask()
    cluster.world.broker_configs[KEY] = ""
    assert set(ask().values()) == {ReplicaSelector.LEADER}
    ask.brokers.close()


def test_a_silent_broker_keeps_its_value_and_is_asked_as_it_is_back(
    cluster: FakeCluster, ask: Asker
) -> None:
    ask()
    silent = 2 if ask.collector.metadata_broker != 2 else 3
    cluster[silent].silent = True
    assert ask()[silent] == ReplicaSelector.RACK_AWARE
    cluster[silent].silent = False
    cluster[silent].configs = {KEY: None}  # it was restarted with another setting
    for _ in range(10):
        if (kind := ask()[silent]) == ReplicaSelector.LEADER:
            break
    assert kind == ReplicaSelector.LEADER


def test_without_the_right_it_is_unknown_and_a_problem_says_so(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.denied = {DescribeConfigsRequest.API_KEY}
    assert set(ask().values()) == {UNKNOWN}
    denied = [p for p in ask.collector.problems if p.source == "broker configs" and p.broker > 0]
    assert sorted(p.broker for p in denied) == [1, 2, 3]
    assert all(p.is_denied for p in denied)


@pytest.mark.parametrize(
    ("wait_ms", "line"),
    [
        ({}, "missing: {what} (not read from every broker) -> "
         "whether followers fetch often enough to stay in sync"),
        ({1: "500", 2: "500", 3: "19999"}, "ok: {what} on all brokers"),
        ({1: "500", 2: "500", 3: "20000"},
         "missing: {what}: brokers 3 wait for the limit of 20000 ms or longer -> "
         "followers that stay in sync while nothing is written"),
    ],
)  # fmt: skip
def test_check_compares_each_followers_wait_with_the_shortest_limit_of_a_leader(
    cluster: FakeCluster, wait_ms: dict[int, str], line: str
) -> None:
    limit, wait = "replica.lag.time.max.ms", "replica.fetch.wait.max.ms"
    for broker, value in wait_ms.items():
        cluster[broker].configs = {wait: value, limit: "20000" if broker == 1 else "30000"}
    lines = [str(f) for f in of_cluster(Config(cluster=ClusterConfig(bootstrap=cluster.bootstrap)))]
    assert [each for each in lines if wait in each] == [line.format(what=f"{wait} below {limit}")]


def test_check_says_which_brokers_have_a_selector(cluster: FakeCluster) -> None:
    cluster[2].configs = {KEY: None}
    cluster[3].configs = {KEY: "org.example.Nearest"}
    lines = [str(f) for f in of_cluster(Config(cluster=ClusterConfig(bootstrap=cluster.bootstrap)))]
    assert [line for line in lines if KEY in line] == [
        f"ok: {KEY} of brokers 2: not set, consumers read from leaders",
        f"ok: {KEY} of brokers 1: RackAwareReplicaSelector",
        f"missing: {KEY} of brokers 3: a class that the twin does not know -> "
        "which replicas consumers of their partitions read from",
    ]


def test_the_capacity_of_the_configuration_is_that_of_each_broker_also_of_a_silent_one(
    cluster: FakeCluster,
) -> None:
    capacity = CapacityConfig(bytes_in_per_s=5, brokers={"2": BrokerCapacity(bytes_in_per_s=9)})
    section = CollectorConfig(deadline_ms=patient_ms(900))
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(900)) as brokers:
        collector = Collector(Config(collector=section, capacity=capacity), brokers)
        for _ in range(2):
            observation = collector.observe()
            assert observation is not None
            found = {
                row["broker"]: (row["capacity_bytes_in_per_s"], row["capacity_bytes_out_per_s"])
                for row in observation.brokers.to_pylist()
            }
            assert found == {1: (5, -1), 2: (9, -1), 3: (5, -1)}
            cluster[2 if collector.metadata_broker != 2 else 3].silent = True
