from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kafka.protocol.admin import (
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from streaming.collector.context import CycleContext
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.sources.replica_status import ReplicaStatus, ReplicaStatusSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.waiting import patient_ms
from twin.tables.enums import ReplicaFlags

IN_ISR, ELR, LAST, OFFLINE = (
    ReplicaFlags.IN_ISR,
    ReplicaFlags.IN_ELR,
    ReplicaFlags.LAST_KNOWN_ELR,
    ReplicaFlags.OFFLINE,
)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(World()) as three:
        yield three


@pytest.fixture
def brokers(cluster: FakeCluster) -> Iterator[BrokerConnections]:
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000)) as connected:
        yield connected


class Asker:
    """Lists the cluster and marks it."""

    def __init__(self, brokers: BrokerConnections, **limits: int) -> None:
        self.brokers = brokers
        self.topics = MetadataSource(Config(), "test")
        self.status = ReplicaStatusSource("test", 60_000, **limits)

    def __call__(self, min_isr: int = 2, elr_enabled: int = 1) -> ReplicaStatus:
        view = self.topics.read(self.brokers, Deadline.after_ms(patient_ms(900)))
        assert view is not None
        least = np.full(len(view.listing.placement), min_isr, np.int64)
        context = CycleContext(
            self.brokers, self.topics.metadata_broker, patient_ms(900), self.topics.controller
        )
        return self.status.status(context, view.listing, least, elr_enabled)


@pytest.fixture
def ask(brokers: BrokerConnections) -> Asker:
    return Asker(brokers)


def one(cluster: FakeCluster, **fields: Any) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1, 2, 3], **fields)})}


def asked(cluster: FakeCluster, api: Any) -> int:
    return sum(len(b.asked_of(api)) for b in cluster.brokers.values())


def test_a_partition_with_enough_in_sync_is_known_to_have_no_eligible_others(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster, isr=[1, 2])
    status = ask(min_isr=2)
    assert status.elr_known.tolist() == [True]
    assert status.listing.replica_flags.tolist() == [IN_ISR, IN_ISR, 0]
    assert asked(cluster, DescribeTopicPartitionsRequest) == 0


def test_eligible_replicas_are_asked_below_min_isr(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster, isr=[1], elr=[3], offline=[2, 3])
    status = ask(min_isr=2)
    assert status.elr_known.tolist() == [True]
    assert status.listing.replica_flags.tolist() == [IN_ISR, OFFLINE, ELR | OFFLINE]


def test_the_last_known_leader_is_marked_when_nobody_is_left(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster, isr=[], elr=[1, 2], last_elr=[2], leader=-1, epoch=7)
    status = ask(min_isr=1)
    assert status.listing.replica_flags.tolist() == [ELR, ELR | LAST, 0]
    assert status.listing.leader.tolist() == [-1]


def test_min_isr_counts_no_further_than_the_replicas_there_are(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster)
    ask(min_isr=5)
    assert asked(cluster, DescribeTopicPartitionsRequest) == 0


def test_without_min_isr_every_partition_with_a_missing_replica_is_asked(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster, isr=[1, 2], elr=[3])
    assert ask(min_isr=-1).listing.replica_flags.tolist() == [IN_ISR, IN_ISR, ELR]


def test_with_the_feature_off_there_is_nothing_to_ask(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster, isr=[1])
    assert ask(elr_enabled=0).elr_known.tolist() == [True]
    assert asked(cluster, DescribeTopicPartitionsRequest) == 0


def test_null_is_not_an_answer(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster, isr=[1], elr=None, last_elr=None)
    status = ask()
    assert status.elr_known.tolist() == [False]
    assert status.listing.replica_flags.tolist() == [IN_ISR, 0, 0]


def test_an_older_broker_leaves_it_unknown_without_complaint(cluster: FakeCluster) -> None:
    one(cluster, isr=[1])
    for broker in cluster.brokers.values():
        broker.highest[DescribeTopicPartitionsRequest.API_KEY] = None
        broker.highest[ListPartitionReassignmentsRequest.API_KEY] = None
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000)) as older:
        asker = Asker(older)
        status = asker()
    assert status.elr_known.tolist() == [False]
    assert asker.status.problems == ()


def test_a_guide_that_does_not_answer_leaves_it_unknown_and_says_so(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster, isr=[1])
    for broker in cluster.brokers.values():
        broker.silent = {DescribeTopicPartitionsRequest.API_KEY}
    status = ask()
    assert status.elr_known.tolist() == [False]
    assert "eligible leader replicas" in {p.source for p in ask.status.problems}


def test_pages_are_read_to_the_end(cluster: FakeCluster, brokers: BrokerConnections) -> None:
    ask = Asker(brokers, page_partitions=2)
    cluster.world.topics = {
        name: Topic({n: Partition([1, 2], isr=[1], elr=[2]) for n in range(3)}) for name in "abc"
    }
    status = ask(min_isr=2)
    assert status.elr_known.all()
    assert status.listing.replica_flags.tolist() == [IN_ISR, ELR] * 9
    assert asked(cluster, DescribeTopicPartitionsRequest) == 5


def test_a_newer_answer_brings_its_own_leader_and_isr(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster, isr=[1], elr=[2], epoch=3)
    ask()
    metadata_broker = cluster[ask.topics.metadata_broker]
    real = metadata_broker._DescribeTopicPartitionsRequest

    def moved_on(request: Any, version: int) -> Any:
        response = real(request, version)
        answer = response.topics[0].partitions[0]
        answer.leader_id, answer.leader_epoch = 2, 4
        answer.isr_nodes, answer.eligible_leader_replicas = [2], [1]
        return response

    metadata_broker.answers[DescribeTopicPartitionsRequest.API_KEY] = moved_on
    status = ask()
    assert status.listing.leader.tolist() == [2]
    assert status.listing.leader_epoch.tolist() == [4]
    assert status.listing.replica_flags.tolist() == [ELR, IN_ISR, 0]


def test_an_older_answer_is_left_aside(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster, isr=[1], elr=[2], epoch=3)
    ask()
    metadata_broker = cluster[ask.topics.metadata_broker]
    real = metadata_broker._DescribeTopicPartitionsRequest

    def behind(request: Any, version: int) -> Any:
        response = real(request, version)
        response.topics[0].partitions[0].leader_epoch = 2
        return response

    metadata_broker.answers[DescribeTopicPartitionsRequest.API_KEY] = behind
    status = ask()
    assert status.elr_known.tolist() == [False]
    assert status.listing.replica_flags.tolist() == [IN_ISR, 0, 0]


def test_replicas_that_come_and_go_are_marked(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster, isr=[2, 3], adding=[1], removing=[3])
    status = ask(min_isr=1)
    assert status.listing.replica_flags.tolist() == [
        ReplicaFlags.ADDING,
        IN_ISR,
        IN_ISR | ReplicaFlags.REMOVING,
    ]


def test_reassignments_are_asked_again_only_while_something_moves(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster)
    for _ in range(3):
        ask()
    assert asked(cluster, ListPartitionReassignmentsRequest) == 1
    cluster.world.topics["a"].partitions[0] = Partition([3, 1, 2], adding=[3])
    for _ in range(3):
        ask()
    assert asked(cluster, ListPartitionReassignmentsRequest) == 4
    cluster.world.topics["a"].partitions[0].adding = []
    for _ in range(3):
        status = ask()
    assert asked(cluster, ListPartitionReassignmentsRequest) == 5
    assert status.listing.replica_flags.tolist() == [IN_ISR] * 3


@pytest.mark.parametrize("metadata_version", [7, 11])
@pytest.mark.parametrize("controller", [1, 2, 3])
def test_a_zookeeper_cluster_is_asked_at_its_controller(
    controller: int, metadata_version: int, cluster: FakeCluster
) -> None:
    cluster.world.controller = controller
    for broker in cluster.brokers.values():
        broker.highest[MetadataRequest.API_KEY] = metadata_version
    one(cluster, isr=[2, 3], adding=[1])
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000)) as older:
        ask = Asker(older)
        assert ask(min_isr=1).listing.replica_flags.tolist() == [
            ReplicaFlags.ADDING,
            IN_ISR,
            IN_ISR,
        ]
        assert ask.status.problems == ()
        cluster.world.controller = controller % 3 + 1
        cluster.world.topics["a"].partitions[0].removing = [3]
        assert ask(min_isr=1).listing.replica_flags[2] == IN_ISR | ReplicaFlags.REMOVING
        assert ask.status.problems == ()


def test_a_controller_that_moves_meanwhile_is_asked_again_in_the_next_cycle(
    cluster: FakeCluster, ask: Asker
) -> None:
    one(cluster, isr=[2, 3], adding=[1])
    cluster.world.controller = 9  # nobody has taken over yet
    ask(min_isr=1)
    [problem] = ask.status.problems
    assert problem.source == "reassignments"
    cluster.world.controller = 3
    assert ask(min_isr=1).listing.replica_flags[0] == ReplicaFlags.ADDING
    assert ask.status.problems == ()


def test_a_missing_right_to_see_reassignments_is_said(cluster: FakeCluster, ask: Asker) -> None:
    one(cluster)
    cluster.world.denied = {ListPartitionReassignmentsRequest.API_KEY}
    ask()
    (problem,) = ask.status.problems
    assert problem.cause == ("reassignments", -1, "ClusterAuthorizationFailed")
