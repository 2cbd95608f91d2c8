"""Last stable offsets: only leaders return them, and only to consumers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from streaming.collector.listing import PartitionListing
from streaming.collector.sources.leader_offsets import LeaderOffsets, LeaderOffsetSource
from streaming.collector.sources.replica_status import ReplicaStatus
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import (
    Error,
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.collector.test_wire import placement as placed
from tests.waiting import AMPLE_MS
from twin.declarations.table import UNKNOWN

HELD = placed({"a": {0, 1, 2}, "b": {0}})


def led(*leader: int) -> ReplicaStatus:
    """The partitions a-0, a-1, a-2 and b-0, all with a replica on broker 1, and their leaders."""
    count = len(HELD.partition)
    leaders = np.array(leader, np.int32)
    zero = np.zeros(count, np.int32)
    listing = PartitionListing(HELD, leaders, zero, np.zeros(count, np.uint8), complete=True)
    return ReplicaStatus(listing, np.ones(count, bool))


def log(last_stable: int | Error, high_watermark: int = 90) -> Partition:
    made = Log(log_end=100, last_stable=last_stable, high_watermark=high_watermark)
    return Partition([1], logs={1: made})


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    topics = {"a": Topic({0: log(40), 1: log(50), 2: log(Error(78))}), "b": Topic({0: log(60)})}
    with fake_cluster(World(topics=topics), [1]) as made:
        yield made


def read(cluster: FakeCluster, source: LeaderOffsetSource, status: ReplicaStatus) -> LeaderOffsets:
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        replies = brokers.ask(
            [1], lambda b, v: source.requests(b, v, status), Deadline.after_ms(AMPLE_MS)
        )
        return source.read(status, {b: r.bodies for b, r in replies.items()})


def nothing(offsets: LeaderOffsets) -> bool:
    return all((column == UNKNOWN).all() for column in offsets.replica_columns.values())


def test_a_broker_is_asked_as_by_a_consumer_about_what_it_leads(cluster: FakeCluster) -> None:
    source = LeaderOffsetSource(2_000, "test")
    by_topic = dict(zip([("a", 0), ("a", 1), ("a", 2), ("b", 0)], [1, 2, 1, 1], strict=True))
    order = [(HELD.topic[t], p) for t, p in zip(HELD.topic_of, HELD.partition, strict=True)]
    offsets = read(cluster, source, led(*(by_topic[key] for key in order)))
    assert dict(zip(order, offsets.last_stable_offset, strict=True)) == {
        ("a", 0): 40, ("a", 1): UNKNOWN, ("a", 2): UNKNOWN, ("b", 0): 60
    }  # fmt: skip
    assert dict(zip(order, offsets.high_watermark, strict=True)) == {
        ("a", 0): 90, ("a", 1): UNKNOWN, ("a", 2): 90, ("b", 0): 90
    }  # fmt: skip
    requests = cluster[1].asked_of(ListOffsetsRequest)
    assert [(r.replica_id, r.isolation_level) for r in requests] == [(-1, 0), (-1, 1)]
    for request in requests:
        asked = {(t.name, p.partition_index) for t in request.topics for p in t.partitions}
        assert asked == {("a", 0), ("a", 2), ("b", 0)}


def test_a_broker_that_leads_nothing_is_not_asked(cluster: FakeCluster) -> None:
    assert nothing(read(cluster, LeaderOffsetSource(2_000, "test"), led(2, 2, 2, -1)))
    assert not cluster[1].asked_of(ListOffsetsRequest)


def test_nor_is_one_that_knows_no_isolation_levels(cluster: FakeCluster) -> None:
    cluster[1].highest[ListOffsetsRequest.API_KEY] = 1
    assert nothing(read(cluster, LeaderOffsetSource(2_000, "test"), led(1, 1, 1, 1)))


def test_the_requests_are_encoded_again_only_when_other_partitions_are_led() -> None:
    source, versions = LeaderOffsetSource(2_000, "test"), {ListOffsetsRequest.API_KEY: (0, 11)}

    def encoded(*leader: int) -> list[int]:
        return [id(request) for request in source.requests(1, versions, led(*leader))]

    first = source.requests(1, versions, led(1, 1, 2, 1))
    assert encoded(1, 1, 2, 1) == [id(request) for request in first]
    again = source.requests(1, versions, led(1, 1, 1, 1))
    assert not {id(r) for r in again} & {id(r) for r in first}
    source.forget(set())
    assert not set(encoded(1, 1, 1, 1)) & {id(r) for r in again}
