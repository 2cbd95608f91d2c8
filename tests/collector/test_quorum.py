"""The controller quorum as brokers describe it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeQuorumRequest

from streaming.collector.context import CycleContext
from streaming.collector.sources.quorum import QuorumSource
from streaming.collector.wire.connections import BrokerConnections
from tests.collector.fake_broker import FakeCluster, World, fake_cluster
from tests.waiting import AMPLE_MS


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(World()) as three:
        yield three


def voters(cluster: FakeCluster) -> list[tuple[int, bool, int]]:
    """Node, whether it is active, and when it was caught up."""
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        source = QuorumSource("test")
        quorum = source.read(CycleContext(brokers, 2, AMPLE_MS))
        assert source.problems == ()
    assert quorum is not None
    columns = (
        quorum.voters.column(name).to_pylist() for name in ("node", "is_active", "caught_up_at_ms")
    )
    return list(zip(*columns, strict=True))


def test_each_voter_is_a_row(cluster: FakeCluster) -> None:
    assert voters(cluster) == [(1, True, 1_000), (2, False, 990), (3, False, 995)]


def test_times_are_unknown_before_kafka_3_4(cluster: FakeCluster) -> None:
    cluster[2].highest[DescribeQuorumRequest.API_KEY] = 0
    assert voters(cluster) == [(1, True, -1), (2, False, -1), (3, False, -1)]


def test_a_cluster_with_zookeeper_has_no_quorum(cluster: FakeCluster) -> None:
    cluster[2].highest[DescribeQuorumRequest.API_KEY] = None
    assert voters(cluster) == [(-1, False, -1)]


def test_without_the_right_to_describe_it_nothing_is_known_any_more(cluster: FakeCluster) -> None:
    cluster.world.denied = {DescribeQuorumRequest.API_KEY}
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        source = QuorumSource("test")
        quorum = source.read(CycleContext(brokers, 2, AMPLE_MS))
    assert [problem.is_denied for problem in source.problems] == [True]
    assert quorum is not None
    assert quorum.voters.num_rows == 0
