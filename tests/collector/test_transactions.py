"""Who holds an open transaction: from fake brokers to the field of the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.problem import NOT_OFFERED
from streaming.collector.sources.transactions import TransactionSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import BusConfig, CollectorConfig, Config
from tests.collector.fake_broker import (
    FakeCluster,
    Log,
    Partition,
    Topic,
    Transaction,
    World,
    fake_cluster,
)
from tests.waiting import AMPLE_MS
from twin.builtin import CATALOG
from twin.engine import frames
from twin.engine.shard_state import ShardState
from twin.rules.reading.open_transactions import (
    OpenTransactions,
    TransactionHolders,
    open_transaction_field,
)
from twin.step import step
from twin.tables.state import Partitions

START = 60
UNKNOWN_HOLDER = {"producer_id": None, "transactional_id": None, "began_at_ms": None}
CONFIG = Config(bus=BusConfig(shards=1), collector=CollectorConfig(deadline_ms=AMPLE_MS))


class Twin:
    """Observes fake brokers and takes in what they say."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.messages = ObservationEncoder()
        self.state = ShardState.empty(CATALOG, CONFIG.cluster.name, 0, 1)

    def __call__(self, cycles: int = 1) -> dict[str, object] | None:
        """The field of the API after so many cycles."""
        for _ in range(cycles):
            observation = self.collector.observe()
            assert observation is not None
            sent = [
                frame
                for _, message in self.messages.encode(observation)
                for frame in frames.decode(message, CATALOG.observations).frames
            ]
            self.state, _ = step(self.state, sent, observation.observed_at_ms)
        tables = (self.state[t] for t in (OpenTransactions, TransactionHolders, Partitions))
        [field] = open_transaction_field(*tables)
        return field

    def holder(self) -> dict[str, object] | None:
        """Who holds the transaction, after cycles enough to know."""
        field = self(3)
        assert field is not None
        return {name: field[name] for name in UNKNOWN_HOLDER}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    logs = {1: Log(log_end=100, last_stable=START), 2: Log(log_end=100)}
    world = World(
        topics={"orders": Topic({0: Partition([1, 2], logs=logs)})},
        transactions=[Transaction("orders", 0, START, coordinator=3)],
    )
    with fake_cluster(world) as three:
        yield three


@contextmanager
def watching(cluster: FakeCluster, again_ms: int = 60_000) -> Iterator[Twin]:
    source = TransactionSource("test", retry_denied_ms=0, again_ms=again_ms)
    with BrokerConnections(cluster.bootstrap, {}, CONFIG.collector.deadline_ms) as brokers:
        yield Twin(Collector(CONFIG, brokers, source))


def test_the_producer_its_id_and_the_beginning_are_named(cluster: FakeCluster) -> None:
    with watching(cluster) as twin:
        assert twin.holder() == {
            "producer_id": 7,
            "transactional_id": "payments",
            "began_at_ms": 1_000,
        }
        assert twin.collector.problems == ()
    [asked] = cluster[1].asked_of(DescribeProducersRequest)
    assert [(t.name, t.partition_indexes) for t in asked.topics] == [("orders", [0])]
    assert not cluster[2].asked_of(DescribeProducersRequest), "it leads nothing"
    assert [len(b.asked_of(DescribeTransactionsRequest)) for b in cluster.brokers.values()] == [
        0,
        0,
        1,
    ]


def test_nobody_is_asked_while_the_last_stable_offset_moves(cluster: FakeCluster) -> None:
    log = cluster.world.topics["orders"].partitions[0].logs[1]
    with watching(cluster) as twin:
        for offset in range(START, START + 4):
            log.last_stable = offset
            twin()
    assert not cluster[1].asked_of(DescribeProducersRequest)


def test_it_is_asked_again_after_a_while_and_when_it_did_not_arrive(cluster: FakeCluster) -> None:
    with watching(cluster, again_ms=0) as twin:
        twin(4)
    assert len(cluster[1].asked_of(DescribeProducersRequest)) == 3
    with watching(cluster) as twin:
        twin(2)
        twin.collector.on_send_failed()
        twin(2)
    assert len(cluster[1].asked_of(DescribeProducersRequest)) == 5


def test_without_the_right_on_ids_the_producer_alone_is_named(cluster: FakeCluster) -> None:
    cluster.world.ids_hidden = True
    with watching(cluster) as twin:
        assert twin.holder() == {**UNKNOWN_HOLDER, "producer_id": 7}
        assert [p.source for p in twin.collector.problems] == ["transactional ids"]


def test_a_transaction_that_no_coordinator_knows_is_no_problem_of_rights(
    cluster: FakeCluster,
) -> None:
    cluster.world.transactions[0].coordinator = 9
    with watching(cluster) as twin:
        assert twin.holder() == {**UNKNOWN_HOLDER, "producer_id": 7}
        assert twin.collector.problems == ()


def test_the_holder_of_another_offset_is_not_named(cluster: FakeCluster) -> None:
    cluster.world.transactions[0].start = START + 1
    with watching(cluster) as twin:
        assert twin.holder() == UNKNOWN_HOLDER
    assert not cluster[1].asked_of(ListTransactionsRequest)


def test_a_kafka_that_describes_no_producers_leaves_it_unknown(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.highest[DescribeProducersRequest.API_KEY] = None
    with watching(cluster) as twin:
        assert twin.holder() == UNKNOWN_HOLDER
        [problem] = twin.collector.problems
    assert (problem.source, problem.error) == ("transaction producers", NOT_OFFERED)
