"""Cycles on brokers that lack requests, as managed services do: what is unknown is not zero."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
)

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.problem import NOT_OFFERED
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import BusConfig, CollectorConfig, Config
from tests.collector.fake_broker import FakeCluster, Log, Partition, Topic, World, fake_cluster
from tests.collector.managed import SERVICES, all_be, offered
from tests.waiting import patient_ms
from twin.engine import frames
from twin.tables.enums import PendingUpload

CONFIG = Config(bus=BusConfig(shards=1), collector=CollectorConfig(deadline_ms=patient_ms(1_000)))
OF_THE_MACHINE = {"host", "answered_in_ms"}
UNKNOWN = {(type(value), value) for value in (-1, None, "", False, bytes(16))}  # but not 0
LIKE_KAFKA = {
    "msk-serverless": "2.8", "redpanda": "2.3", "confluent-cloud": "2.4", "event-hubs": "3.0",
}  # fmt: skip
"""The Kafka that offers as much as the service does."""

Rows = dict[str, list[dict[str, Any]]]


def log(**given: int) -> Log:
    return Log(7, 30, 100, last_tiered=59, pending=60, size=700, first_ms=5_000, **given)


def world() -> World:
    """Every value differs from 0, so that a 0 is one that nobody has told."""
    orders = {
        0: Partition([1, 2], epoch=3, logs={1: log(), 2: log()}),
        1: Partition([2, 3], isr=[2], elr=[3], offline=[3], epoch=4, logs={2: log(), 3: log()}),
    }
    configs = {"min.insync.replicas": "2", "remote.storage.enable": "true"}
    return World(
        topics={"orders": Topic(orders, topic_id=uuid.UUID(int=9), configs=configs)},
        racks={1: "az-a", 2: "az-b", 3: "az-c"},
    )


def observed(cluster: FakeCluster) -> Rows:
    """The rows of two cycles, by kind of frame; the newest of each kind."""
    rows: Rows = {}
    with BrokerConnections(cluster.bootstrap, {}, CONFIG.collector.deadline_ms) as brokers:
        collector = Collector(CONFIG, brokers)
        for _ in range(2):
            observation = collector.observe()
            assert observation is not None
            for _, message in ObservationEncoder().encode(observation):
                for frame in frames.decode(message).frames:
                    rows[frame.header.kind] = frame.rows.to_pylist()
    return rows


@pytest.fixture(scope="module")
def kafka() -> Rows:
    """What the newest Kafka tells."""
    with fake_cluster(world()) as cluster:
        return observed(cluster)


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, FakeCluster]]:
    with fake_cluster(world()) as cluster:
        all_be(request.param, cluster)
        yield request.param, cluster


def test_each_value_is_that_of_kafka_or_unknown(
    service: tuple[str, FakeCluster], kafka: Rows
) -> None:
    rows = observed(service[1])
    assert rows.keys() >= {"brokers", "partitions", "replicas"}
    for kind in rows.keys() & kafka.keys() - {"controller_quorum", "configs", "problems"}:
        assert len(rows[kind]) == len(kafka[kind]), kind
        for row, whole in zip(rows[kind], kafka[kind], strict=True):
            for column in row.keys() - OF_THE_MACHINE:
                value, of_kafka = row[column], whole[column]
                if column == "replica_flags":  # what is not told sets no flag
                    pairs = zip(value, of_kafka, strict=True)
                    assert not any(flags & ~all_flags for flags, all_flags in pairs)
                elif column == "pending_upload":
                    assert value in (of_kafka, PendingUpload.ABSENT)
                elif column == "kafka_version":
                    assert value == LIKE_KAFKA[service[0]]
                else:
                    assert value == of_kafka or (type(value), value) in UNKNOWN, (kind, column)


def test_what_is_not_offered_is_not_asked(service: tuple[str, FakeCluster]) -> None:
    name, cluster = service
    observed(cluster)
    asked = {key for broker in cluster.brokers.values() for key, _ in broker.asked}
    assert asked <= offered(name).keys()


def test_what_is_not_offered_is_named_and_nothing_else_is_a_problem(
    service: tuple[str, FakeCluster],
) -> None:
    name, cluster = service
    problems = observed(cluster)["problems"]
    assert {problem["error"] for problem in problems} == {NOT_OFFERED}
    said = " ".join(problem["text"] for problem in problems)
    for request in (DescribeLogDirsRequest, DescribeConfigsRequest, DescribeQuorumRequest):
        is_named = f"not offer {request.__name__.removesuffix('Request')}, " in said
        assert is_named == (request.API_KEY not in offered(name)), request


def test_leaders_and_ends_of_logs_are_known_everywhere(service: tuple[str, FakeCluster]) -> None:
    rows = observed(service[1])
    assert [row["leader"] for row in rows["partitions"]] == [1, 2]
    assert {row["log_end_offset"] for row in rows["replicas"]} == {100}
    assert all(row["answered"] for row in rows["brokers"])


@pytest.mark.parametrize(
    ("request_type", "kind", "column"),
    [
        (DescribeLogDirsRequest, "replicas", "local_log_bytes"),
        (DescribeLogDirsRequest, "brokers", "log_dir_usable_bytes"),
        (DescribeClusterRequest, "brokers", "fenced"),
        (DescribeConfigsRequest, "brokers", "lag_time_max_ms"),
        (DescribeQuorumRequest, "controller_quorum", "log_end_offset"),
    ],
)
def test_what_a_missing_request_would_tell_is_unknown(
    request_type: Any, kind: str, column: str, service: tuple[str, FakeCluster]
) -> None:
    name, cluster = service
    values = {row[column] for row in observed(cluster)[kind]}
    is_offered = request_type.API_KEY in offered(name)
    if kind == "brokers" and column == "log_dir_usable_bytes":
        is_offered = offered(name).get(request_type.API_KEY, (0, 0))[1] >= 4  # KIP-827
    assert (values == {-1}) == (not is_offered)
