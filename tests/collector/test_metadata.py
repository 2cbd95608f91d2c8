from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from streaming.collector.problem import TIMEOUT
from streaming.collector.sources.metadata import ClusterMetadata, MetadataSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import CollectorConfig, Config
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.collector.test_listing import rows
from tests.waiting import patient_ms

CONFIG = Config()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    world = World(topics={"a": Topic({0: Partition([1, 2])})}, racks={1: "az-a", 2: "az-b"})
    with fake_cluster(world) as three:
        yield three


@pytest.fixture
def brokers(cluster: FakeCluster) -> Iterator[BrokerConnections]:
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000)) as connected:
        yield connected


@pytest.fixture
def topics() -> MetadataSource:
    return MetadataSource(CONFIG, "test")


def read_view(
    topics: MetadataSource, brokers: BrokerConnections, deadline_ms: int = 900
) -> ClusterMetadata:
    view = topics.read(brokers, Deadline.after_ms(patient_ms(deadline_ms)))
    assert view is not None
    return view


def listings_asked(cluster: FakeCluster) -> dict[int, int]:
    """How often each broker was asked to list all topics."""
    return {
        b.node: sum(r.topics is None for r in b.asked_of(MetadataRequest))
        for b in cluster.brokers.values()
    }


def test_the_view_has_all_brokers_with_racks(
    topics: MetadataSource, brokers: BrokerConnections
) -> None:
    view = read_view(topics, brokers)
    assert [(r.address.broker, r.address.rack, r.fenced) for r in view.brokers] == [
        (1, "az-a", 0),
        (2, "az-b", 0),
        (3, "", 0),
    ]
    assert [r[1:3] for r in rows(view.listing)] == [("a", 0)]


def test_a_fenced_broker_is_listed_as_such(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    cluster.world.fenced = {3}
    assert [r.fenced for r in read_view(topics, brokers).brokers] == [0, 0, 1]


@pytest.mark.parametrize("highest", [None, 0, 1])
def test_an_older_cluster_does_not_report_who_is_fenced(
    highest: int | None, topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    for broker in cluster.brokers.values():
        broker.highest[DescribeClusterRequest.API_KEY] = highest
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000)) as older:
        assert [r.fenced for r in read_view(topics, older).brokers] == [-1, -1, -1]


@pytest.mark.parametrize("version", range(1, 14))
def test_every_version_of_metadata_is_understood(
    version: int, topics: MetadataSource, cluster: FakeCluster
) -> None:
    for broker in cluster.brokers.values():
        broker.highest[MetadataRequest.API_KEY] = version
    with BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000)) as older:
        view = read_view(topics, older)
        again = read_view(topics, older)
    assert [r[1:3] for r in rows(view.listing)] == [("a", 0)]
    assert view.listing.placement is again.listing.placement
    assert (view.listing.placement.topic_id[0] == bytes(16)) == (version < 10)


def test_nothing_is_decoded_again_while_only_the_controller_id_differs(
    topics: MetadataSource, brokers: BrokerConnections
) -> None:
    first = read_view(topics, brokers).listing
    assert read_view(topics, brokers).listing is first
    assert read_view(topics, brokers).listing is first


def test_a_new_isr_keeps_the_placement(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    first = read_view(topics, brokers).listing
    cluster.world.topics["a"].partitions[0].isr = [1]
    second = read_view(topics, brokers).listing
    assert second is not first
    assert second.placement is first.placement
    assert second.isr_size().tolist() == [1]


def test_a_new_topic_makes_a_new_placement(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    first = read_view(topics, brokers).listing
    cluster.world.topics["b"] = Topic({0: Partition([3])})
    assert read_view(topics, brokers).listing.placement is not first.placement


def test_one_broker_lists_as_long_as_it_answers(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    for _ in range(3):
        read_view(topics, brokers)
    assert sorted(listings_asked(cluster).values()) == [0, 0, 3]


def test_another_broker_lists_when_the_guide_is_silent(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    read_view(topics, brokers)
    silent = topics.metadata_broker
    cluster[silent].silent = True
    read_view(topics, brokers)
    other = topics.metadata_broker
    assert other != silent
    assert topics.problems == ()
    asked = listings_asked(cluster)[other]
    read_view(topics, brokers)
    assert (topics.metadata_broker, listings_asked(cluster)[other]) == (other, asked + 1)


def test_brokers_that_do_not_answer_are_problems_and_no_metadata(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    for broker in cluster.brokers.values():
        broker.silent = True
    assert topics.read(brokers, Deadline.after_ms(patient_ms(600))) is None
    assert {p.cause for p in topics.problems} == {("metadata", b, TIMEOUT) for b in (1, 2, 3)}


def test_a_metadata_broker_that_lags_is_corrected_by_another(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    partition = cluster.world.topics["a"].partitions[0]
    partition.epoch = 4
    read_view(topics, brokers)
    stale = cluster[topics.metadata_broker]
    stale.answers[MetadataRequest.API_KEY] = in_the_past(stale, partition, leader=1, epoch=3)
    partition.leader, partition.epoch = 2, 5
    view = read_view(topics, brokers)
    assert [r[3:5] for r in rows(view.listing)] == [(2, 5)]
    assert view.listing.complete
    assert topics.metadata_broker != stale.node


def test_when_they_disagree_on_what_exists_nothing_is_said_to_be_gone(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    partition = cluster.world.topics["a"].partitions[0]
    partition.epoch = 4
    read_view(topics, brokers)
    stale = cluster[topics.metadata_broker]
    stale.answers[MetadataRequest.API_KEY] = in_the_past(
        stale, partition, leader=1, epoch=3, without="b"
    )
    cluster.world.topics["b"] = Topic({0: Partition([1])})
    view = read_view(topics, brokers)
    assert view.listing.placement.topic in {("a", "b"), ("b", "a")}
    assert not view.listing.complete
    stale.answers.clear()
    assert read_view(topics, brokers).listing.complete


def in_the_past(
    broker: Any, partition: Partition, *, leader: int, epoch: int, without: str = ""
) -> Any:
    def answer(request: Any, version: int) -> Any:
        response = broker._MetadataRequest(request, version)
        response.topics = [t for t in response.topics if t.name != without]
        for topic in response.topics:
            for listed in topic.partitions:
                listed.leader_id, listed.leader_epoch = leader, epoch
        return response

    return answer


def test_topics_are_chosen_by_their_whole_name(
    brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    for name in ("orders", "orders-2", "internal"):
        cluster.world.topics[name] = Topic({0: Partition([1])})
    chosen = msgspec.structs.replace(
        CONFIG, collector=CollectorConfig(include_topics="orders.*", exclude_topics=".*-2")
    )
    view = read_view(MetadataSource(chosen, "test"), brokers)
    assert view.listing.placement.topic == ("orders",)
    assert view.listing.complete


def test_what_may_not_be_seen_any_more_is_not_gone(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    """Kafka leaves it out of the list; a whole list would delete it."""
    cluster.world.topics["b"] = Topic({0: Partition([3])})
    assert read_view(topics, brokers).listing.complete
    cluster.world.hidden = {"b"}
    for _ in range(3):
        view = read_view(topics, brokers)
        assert not view.listing.complete
        assert topics.unauthorized == {"b"}
        assert [r[1] for r in rows(view.listing)] == ["a"]
    cluster.world.hidden = set()
    view = read_view(topics, brokers)
    assert view.listing.complete
    assert topics.unauthorized == frozenset()


def test_what_was_deleted_is_gone_at_once_also_beside_what_is_hidden(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    cluster.world.topics["b"] = Topic({0: Partition([3])})
    read_view(topics, brokers)
    del cluster.world.topics["b"]
    assert read_view(topics, brokers).listing.complete
    cluster.world.topics |= {name: Topic({0: Partition([3])}) for name in "cd"}
    read_view(topics, brokers)
    cluster.world.hidden = {"c"}
    del cluster.world.topics["d"]
    assert not read_view(topics, brokers).listing.complete
    assert topics.unauthorized == {"c"}
    del cluster.world.topics["c"]
    cluster.world.hidden = set()
    assert read_view(topics, brokers).listing.complete


def test_a_list_that_is_whole_is_all_that_is_asked(
    topics: MetadataSource, brokers: BrokerConnections, cluster: FakeCluster
) -> None:
    for _ in range(3):
        read_view(topics, brokers)
    asked = [r for b in cluster.brokers.values() for r in b.asked_of(MetadataRequest)]
    assert not [r for r in asked if r.topics]
