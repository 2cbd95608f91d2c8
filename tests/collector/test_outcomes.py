"""How each source came about: nothing is fine by silence."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest
from structlog.testing import capture_logs

from streaming.checks.cluster_checks import of_cluster
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.cycle_log import CycleLog
from streaming.collector.cycle.metrics import CycleMetrics
from streaming.collector.outcome import ReadOutcome, outcomes
from streaming.collector.problem import NOT_OFFERED
from streaming.collector.sources import ABOUT, SOURCES
from streaming.collector.sources.groups import GroupSource
from streaming.collector.sources.timestamps import TimestampSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from tests.collector.fake_broker import (
    FakeCluster,
    Log,
    Partition,
    Topic,
    Transaction,
    World,
    fake_cluster,
)
from tests.collector.fake_groups import Group
from tests.waiting import patient_ms

REDPANDA = {
    "log dirs": DescribeLogDirsRequest,
    "controller quorum": DescribeQuorumRequest,
    "reassignments": ListPartitionReassignmentsRequest,
    "epoch ends": OffsetForLeaderEpochRequest,
    "leader epoch histories": OffsetForLeaderEpochRequest,
}
"""What an early Redpanda did not have (redpanda-data/redpanda#903), by source."""

NEEDED_BY_NONE = {ApiVersionsRequest.API_KEY, DescribeClusterRequest.API_KEY}
"""The client itself sends the first; without the second the brokers of Metadata are known."""


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    logs = {b: Log(0, 30, 100, last_tiered=59, pending=60, first_ms=5_000) for b in (1, 2)}
    tiered = Partition([1, 2], isr=[1], elr=[2], epoch=3, logs=logs, history=[(0, 0), (3, 50)])
    settings = {"min.insync.replicas": "2", "remote.storage.enable": "true"}
    world = World(
        topics={"orders": Topic({0: tiered}, configs=settings)},
        groups={"readers": Group(1, {("orders", 0): 5})},
    )
    with fake_cluster(world) as three:
        yield three


def configured(cluster: FakeCluster, **collector: object) -> Config:
    section = CollectorConfig(deadline_ms=patient_ms(900), config_interval_ms=0)
    return Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        bus=BusConfig(shards=2),
        collector=msgspec.structs.replace(section, **collector),
    )


def withdraw(cluster: FakeCluster, *requests: type, brokers: tuple[int, ...] = (1, 2, 3)) -> None:
    """These brokers' lists of versions lack the requests from now on."""
    for broker in brokers:
        cluster[broker].highest |= {request.API_KEY: None for request in requests}


def said(config: Config) -> dict[str, str]:
    """What check says of each source, by name."""
    lines = [str(finding) for finding in of_cluster(config)]
    sources = [line.removeprefix("source ") for line in lines if line.startswith("source ")]
    pairs = [line.partition(": ") for line in sources]
    assert len({name for name, _, _ in pairs}) == len(pairs), "each once"
    return {name: text for name, _, text in pairs}


def word(text: str) -> ReadOutcome:
    return ReadOutcome(text.partition(":")[0])


def test_every_source_of_the_registry_has_an_outcome_though_nothing_speaks_of_it() -> None:
    found = outcomes((), (), {}, frozenset(), has_topics=True)
    assert [each.about for each in found] == list(
        dict.fromkeys(about for kind in SOURCES for about in kind.about)
    )
    assert {each.outcome for each in found} == {ReadOutcome.NOT_TRIED}
    assert all(each.why for each in found)


def test_check_says_of_each_source_how_it_came_about(cluster: FakeCluster) -> None:
    found = said(configured(cluster))
    assert list(found) == list(dict.fromkeys(a.name for kind in SOURCES for a in kind.about))
    not_tried = {
        name: text for name, text in found.items() if word(text) is not ReadOutcome.ANSWERED
    }
    no_transaction = "not tried: no transaction stays open from one cycle to the next"
    assert not_tried == {
        "transaction producers": no_transaction,
        "transactional ids": no_transaction,
        "metrics": "not tried: collector.metrics_url is not set",
    }


def test_what_is_switched_off_is_not_tried_and_the_setting_is_named(cluster: FakeCluster) -> None:
    found = said(configured(cluster, timestamps=False, groups_interval_ms=0))
    assert found["local start timestamps"] == "not tried: collector.timestamps is off"
    assert found["groups"] == "not tried: collector.groups_interval_ms is 0"


def test_a_cluster_without_topics_is_not_one_that_has_answered(cluster: FakeCluster) -> None:
    cluster.world.topics.clear()
    found = said(configured(cluster))
    assert found["topic configs"] == "not tried: there is no topic"
    assert word(found["offsets"]) is ReadOutcome.NOT_TRIED
    assert word(found["log dirs"]) is ReadOutcome.ANSWERED


def test_what_is_refused_names_the_right(cluster: FakeCluster) -> None:
    cluster.world.denied.add(DescribeLogDirsRequest.API_KEY)
    assert said(configured(cluster))["log dirs"] == "refused: DESCRIBE on the cluster"


def test_what_fails_says_why(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.silent = {DescribeQuorumRequest.API_KEY}
    failed = said(configured(cluster))["controller quorum"]
    assert failed == "failed: did not answer within the deadline"


def test_what_brokers_do_not_offer_is_named_with_the_kafka_that_has_it(
    cluster: FakeCluster,
) -> None:
    withdraw(cluster, *REDPANDA.values())
    found = said(configured(cluster))
    lacking = [name for name, text in found.items() if word(text) is ReadOutcome.NOT_OFFERED]
    assert sorted(lacking) == sorted(REDPANDA)
    assert found["log dirs"] == (
        "not offered: brokers 1, 2, 3 do not offer DescribeLogDirs, which Kafka 1.0 and later have"
    )
    assert "version 2 on, which Kafka 2.1 and later have" in found["epoch ends"]


def test_an_older_version_than_is_needed_counts_as_not_offered(cluster: FakeCluster) -> None:
    cluster[2].highest[OffsetForLeaderEpochRequest.API_KEY] = 1
    assert said(configured(cluster))["epoch ends"] == (
        "not offered: broker 2 does not offer OffsetForLeaderEpoch from version 2 on, which "
        "Kafka 2.1 and later have; the others do"
    )


def test_it_is_a_problem_of_each_cycle_and_one_line_of_the_log(cluster: FakeCluster) -> None:
    withdraw(cluster, *REDPANDA.values())
    config, cycle_log = configured(cluster), CycleLog()
    with (
        BrokerConnections(cluster.bootstrap, {}, config.collector.deadline_ms) as brokers,
        Collector(config, brokers) as collector,
        capture_logs() as lines,
    ):
        for _ in range(3):
            observation = collector.observe()
            assert observation is not None
            lacking = [p for p in observation.problems if p.error == NOT_OFFERED]
            assert sorted(p.source for p in lacking) == sorted(REDPANDA)
            cycle_log.cycle(collector.problems, 1.0, observation)
    metrics = CycleMetrics("c", 1_000)
    metrics.cycle_ended(observation.problems, 1.0)
    counted = {
        source: metrics.registry.get_sample_value(
            "kafka_twin_collector_not_offered", {"cluster": "c", "source": source}
        )
        for source in ("metadata", *REDPANDA)
    }
    assert counted == {"metadata": 0, **dict.fromkeys(REDPANDA, 1)}
    logged = [line["source"] for line in lines if line.get("error") == NOT_OFFERED]
    assert sorted(logged) == sorted(REDPANDA)


def test_each_request_that_a_source_sends_is_one_that_an_about_declares(
    cluster: FakeCluster,
) -> None:
    """So none of them can be missing from a broker without a word."""
    cluster.world.transactions = [Transaction("orders", 0, start=90)]
    cluster.world.topics["orders"].partitions[0].logs[1].last_stable = 90
    config = configured(cluster)
    with (
        BrokerConnections(cluster.bootstrap, {}, config.collector.deadline_ms) as brokers,
        Collector(
            config, brokers, groups := GroupSource(config, "test", background=False)
        ) as collector,
    ):
        for _ in range(3):
            assert collector.observe() is not None
            groups.read_now()
        found = {each.about.name: each for each in collector.outcomes()}
    sent = {key for broker in cluster.brokers.values() for key, _ in broker.asked}
    declared = {need.message.API_KEY for about in ABOUT.values() for need in about.needs}
    assert sent - declared <= NEEDED_BY_NONE
    assert declared <= sent
    assert {name for name, each in found.items() if each.outcome is not ReadOutcome.ANSWERED} == {
        "metrics"
    }


def test_a_source_that_needs_no_broker_alone_needs_no_request() -> None:
    without = {about.name for kind in SOURCES for about in kind.about if not about.needs}
    assert without == {"thresholds", "metrics"}
    assert TimestampSource.about[0].needs[0].name == "Fetch"
