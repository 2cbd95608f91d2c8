from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from streaming.collector.context import CycleContext
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.sources.offsets import OffsetSource
from streaming.collector.sources.timestamps import ReadLimits, TimestampSource, first_batch
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import (
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    batch,
    fake_cluster,
)
from tests.waiting import AMPLE_MS
from twin.tables.enums import BatchKind


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(World(), [1, 2]) as two:
        yield two


class Asker:
    """Lists, samples and reads timestamps; gives them by topic, partition and broker."""

    def __init__(self, cluster: FakeCluster, **limits: int) -> None:
        self.brokers = BrokerConnections(cluster.bootstrap, {}, AMPLE_MS)
        self.topics = MetadataSource(Config(), "test")
        self.offsets = OffsetSource(AMPLE_MS, "test")
        # By default no answer is slow: a busy machine answers late.
        limits = {"slow_ms": AMPLE_MS} | limits
        self.timestamps = TimestampSource("test", ReadLimits(**limits))

    def __call__(self) -> dict[tuple[str, int, int], int]:
        view = self.topics.read(self.brokers, Deadline.after_ms(AMPLE_MS))
        assert view is not None
        place = view.listing.placement
        deadline = Deadline.after_ms(AMPLE_MS)
        replies = self.brokers.ask(
            [1, 2], lambda b, v: self.offsets.requests(b, v, place), deadline
        )
        samples = self.offsets.read(place, {b: r.bodies for b, r in replies.items()})
        starts = self.timestamps.read(
            CycleContext(self.brokers, self.topics.metadata_broker, AMPLE_MS), place, samples
        )
        return {
            (place.topic[place.topic_of[p]], int(place.partition[p]), int(b)): int(ms)
            for p, b, ms in zip(
                place.partition_of.tolist(),
                place.broker.tolist(),
                starts.timestamp_ms.tolist(),
                strict=True,
            )
        }


@pytest.fixture
def asker(cluster: FakeCluster) -> Iterator[Callable[..., Asker]]:
    """Makes one with limits. What a failed test left running would disturb the tests after it."""
    with ExitStack() as stack:

        def made(**limits: int) -> Asker:
            new = Asker(cluster, **limits)
            stack.callback(new.brokers.close)
            return new

        yield made


@pytest.fixture
def ask(asker: Callable[..., Asker]) -> Asker:
    return asker()


def fetched(cluster: FakeCluster) -> list[tuple[int, str, int, int, int]]:
    """Broker, topic, partition, offset and size of every fetch."""
    return [
        (b.node, r.topics[0].topic, p.partition, p.fetch_offset, p.partition_max_bytes)
        for b in cluster.brokers.values()
        for r in b.asked_of(FetchRequest)
        for p in r.topics[0].partitions
    ]


def logs(*, start: int = 0, ms: int = 5_000) -> dict[int, Log]:
    return {b: Log(0, start, 100, first_ms=ms + b) for b in (1, 2)}


def test_each_replica_is_read_one_byte_at_its_own_local_start(
    cluster: FakeCluster, ask: Asker
) -> None:
    own = {1: Log(0, 10, 100, first_ms=7_001), 2: Log(0, 90, 100, first_ms=9_002)}
    cluster.world.topics = {"a": Topic({3: Partition([1, 2], logs=own)})}
    assert ask() == {("a", 3, 1): 7_001, ("a", 3, 2): 9_002}
    assert sorted(fetched(cluster)) == [(1, "a", 3, 10, 1), (2, "a", 3, 90, 1)]


def test_it_is_read_again_only_when_the_local_start_moves(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1], logs=logs())})}
    ask()
    ask()
    assert len(fetched(cluster)) == 1
    log = cluster.world.topics["a"].partitions[0].logs[1]
    log.local_start, log.first_ms = 50, 6_000
    assert ask() == {("a", 0, 1): 6_000}
    assert [f[3] for f in fetched(cluster)] == [0, 50]


def test_an_empty_local_log_is_not_read(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1], logs={1: Log(0, 100, 100)})})}
    assert ask() == {("a", 0, 1): -1}
    assert fetched(cluster) == []


def test_what_was_read_is_kept_when_other_topics_come_and_go(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {"b": Topic({0: Partition([1, 2], logs=logs())})}
    ask()
    cluster.world.topics["a"] = Topic({0: Partition([2], logs=logs(ms=8_000))})
    timestamps = ask()
    assert timestamps == {("b", 0, 1): 5_001, ("b", 0, 2): 5_002, ("a", 0, 2): 8_002}
    del cluster.world.topics["a"]
    ask()
    assert len(fetched(cluster)) == 3


def test_a_recreated_topic_is_read_anew(cluster: FakeCluster, ask: Asker) -> None:
    for ms in (5_000, 6_000):
        cluster.world.topics = {"a": Topic({0: Partition([1], logs=logs(ms=ms))})}
        assert ask() == {("a", 0, 1): ms + 1}


def test_without_the_right_to_read_it_is_unknown_and_not_asked_again(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {
        "a": Topic({0: Partition([1], logs=logs())}),
        "b": Topic({0: Partition([1], logs=logs())}),
    }
    cluster.world.unreadable = {"a"}
    assert ask() == {("a", 0, 1): -1, ("b", 0, 1): 5_001}
    ask()
    assert [f[1] for f in fetched(cluster)].count("a") == 1
    (problem,) = ask.timestamps.problems
    assert problem.cause == ("local start timestamps", -1, "TopicAuthorizationFailed")
    assert problem.text.endswith("no READ right on such topics, their timestamps stay unknown (a)")


def test_a_right_that_was_given_is_noticed_after_a_while(
    cluster: FakeCluster,
    asker: Callable[..., Asker],
) -> None:
    ask = asker(retry_denied_ms=0)
    cluster.world.topics = {"a": Topic({0: Partition([1], logs=logs())})}
    cluster.world.unreadable = {"a"}
    assert ask() == {("a", 0, 1): -1}
    cluster.world.unreadable = set()
    assert ask() == {("a", 0, 1): 5_001}
    assert ask.timestamps.problems == ()


def test_a_replica_whose_record_may_not_be_seen_yet_is_asked_again(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1], logs=logs())})}
    real = cluster[1]._FetchRequest

    def nothing(request: Any, version: int) -> Any:
        response = real(request, version)
        response.responses[0].partitions[0].records = b""
        return response

    cluster[1].answers[FetchRequest.API_KEY] = nothing
    assert ask() == {("a", 0, 1): -1}
    cluster[1].answers.clear()
    assert ask() == {("a", 0, 1): 5_001}


def test_a_cycle_reads_a_bounded_number_and_the_next_goes_on(
    cluster: FakeCluster,
    asker: Callable[..., Asker],
) -> None:
    ask = asker(first=16, least=2, most=16)
    cluster.world.topics = {"a": Topic({p: Partition([1], logs=logs()) for p in range(50)})}
    counts = [sum(ms > 0 for ms in ask().values()) for _ in range(6)]
    assert counts[0] == 16
    assert counts == sorted(counts)
    assert counts[-1] == 50


def test_a_broker_in_a_hurry_is_asked_for_less(
    cluster: FakeCluster,
    asker: Callable[..., Asker],
) -> None:
    ask = asker(slow_ms=-1)
    cluster.world.topics = {"a": Topic({p: Partition([1], logs=logs()) for p in range(200)})}
    counts = []
    for _ in range(3):
        before = len(fetched(cluster))
        ask()
        counts.append(len(fetched(cluster)) - before)
    assert counts == [64, 16, 8]


@pytest.mark.parametrize("version", [11, 10, 4])
def test_followers_of_an_old_kafka_are_not_read(
    version: int, cluster: FakeCluster, asker: Callable[..., Asker]
) -> None:
    for broker in cluster.brokers.values():
        broker.highest[FetchRequest.API_KEY] = version
    cluster.world.topics = {"a": Topic({0: Partition([1], logs=logs())})}
    ask = asker()
    assert ask() == {("a", 0, 1): 5_001 if version >= 11 else -1}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (batch(0, 1_234), (1_234, BatchKind.PLAIN)),
        (batch(0, 1_234, largest_ms=9_999, attributes=0x08), (9_999, BatchKind.PLAIN)),
        (batch(0, 1_234, attributes=0x10), (1_234, BatchKind.TRANSACTIONAL)),
        (batch(0, 1_234, attributes=0x30), (1_234, BatchKind.CONTROL)),
        (batch(0, 1_234, attributes=0x40), (-1, BatchKind.PLAIN)),
        (batch(0, 1_234, magic=1), (-1, -1)),
        (batch(0, -1), (-1, BatchKind.PLAIN)),
        (batch(0, 1_234)[:20], (-1, -1)),
        (b"", (-1, -1)),
    ],
    ids=["create time", "log append time", "transaction", "end of a transaction", "delete horizon",
         "old format", "no timestamp", "cut", "empty"],
)  # fmt: skip
def test_timestamp_and_kind_are_read_from_the_batch_header(
    records: bytes, expected: tuple[int, int]
) -> None:
    assert first_batch(memoryview(records)) == expected
