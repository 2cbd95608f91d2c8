"""Leader epoch histories, walked down entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from streaming.collector.context import CycleContext
from streaming.collector.sources.epochs import EpochSource, Histories
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import (
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.waiting import AMPLE_MS

LONG_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(World(), [1, 2]) as two:
        yield two


class Asker:
    """Lists, and gives the histories that became known by topic and partition."""

    def __init__(self, cluster: FakeCluster, reread_ms: int = LONG_MS, **limits: int) -> None:
        self.cluster = cluster
        self.brokers = BrokerConnections(cluster.bootstrap, {}, AMPLE_MS)
        self.topics = MetadataSource(Config(), "test")
        self.epochs = EpochSource("test", reread_ms, **limits)

    def __call__(
        self, *, tiered: bool = True, log_start: bool = True
    ) -> dict[tuple[str, int], tuple[tuple[int, int], ...]]:
        view = self.topics.read(self.brokers, Deadline.after_ms(AMPLE_MS))
        assert view is not None
        self.placement = place = view.listing.placement
        starts = [
            self.cluster.world.topics[place.topic[t]].partitions[n].logs[leader].log_start
            for t, n, leader in zip(place.topic_of.tolist(), place.partition.tolist(),
                                    view.listing.leader.tolist(), strict=True)
        ]  # fmt: skip
        self.histories = self.epochs.walk(
            CycleContext(self.brokers, self.topics.metadata_broker, AMPLE_MS),
            view.listing,
            np.full(len(place), tiered),
            np.array(starts) if log_start else np.full(len(place), -1),
        )
        return {
            (place.topic[place.topic_of[h.row]], int(place.partition[h.row])): h.epochs
            for h in self.histories
        }


@pytest.fixture
def ask(cluster: FakeCluster) -> Iterator[Asker]:
    asker = Asker(cluster)
    yield asker
    asker.brokers.close()


def a_partition(history: list[tuple[int, int]], epoch: int, start: int = 0) -> Partition:
    logs = {1: Log(log_start=start, log_end=1_000)}
    return Partition([1, 2], epoch=epoch, history=history, logs=logs)


def questions(cluster: FakeCluster) -> int:
    return sum(len(b.asked_of(OffsetForLeaderEpochRequest)) for b in cluster.brokers.values())


def test_histories_are_walked_down_to_the_log_start(cluster: FakeCluster, ask: Asker):
    cluster.world.topics = {
        "old": Topic({0: a_partition([(5, 100), (9, 200), (40, 700)], 40, start=100)}),
        "whole": Topic({0: a_partition([(0, 0), (1, 50)], 1), 1: a_partition([(0, 0)], 0)}),
        "empty": Topic({0: a_partition([], 3)}),
    }
    assert ask() == {
        ("old", 0): ((5, 100), (9, 200), (40, 700)),
        ("whole", 0): ((0, 0), (1, 50)),
        ("whole", 1): ((0, 0),),
    }


def test_without_a_log_start_the_end_shows_in_an_answer_that_does_not_go_down(
    cluster: FakeCluster, ask: Asker
):
    cluster.world.topics = {"t": Topic({0: a_partition([(5, 100), (9, 200)], 9, start=100)})}
    assert ask(log_start=False) == {("t", 0): ((5, 100), (9, 200))}


def test_a_history_is_read_again_only_when_the_leader_epoch_moved(cluster: FakeCluster, ask: Asker):
    cluster.world.topics = {"t": Topic({0: a_partition([(0, 0)], 0), 1: a_partition([(0, 0)], 0)})}
    assert len(ask()) == 2
    asked = questions(cluster)
    assert ask() == {}
    assert questions(cluster) == asked
    moved = cluster.world.topics["t"].partitions[1]
    moved.epoch, moved.history = 1, [(0, 0), (1, 80)]
    assert ask() == {("t", 1): ((0, 0), (1, 80))}
    cluster.world.topics["a"] = Topic({0: a_partition([(0, 0)], 0)})  # another placement
    assert set(ask()) == {("a", 0)}


def test_what_did_not_arrive_is_read_again(cluster: FakeCluster, ask: Asker):
    cluster.world.topics = {"t": Topic({0: a_partition([(0, 0)], 0)})}
    ask()
    ask.epochs.send_again(Histories(ask.placement, ask.histories))
    assert set(ask()) == {("t", 0)}


def test_it_is_read_again_after_a_while(cluster: FakeCluster):
    asker = Asker(cluster, reread_ms=0)
    cluster.world.topics = {"t": Topic({0: a_partition([(0, 0)], 0)})}
    assert set(asker()) == set(asker()) == {("t", 0)}
    asker.brokers.close()


def test_partitions_without_remote_storage_are_not_asked_for(cluster: FakeCluster, ask: Asker):
    cluster.world.topics = {"t": Topic({0: a_partition([(0, 0)], 0)})}
    assert ask(tiered=False) == {}
    assert questions(cluster) == 0


def test_a_leader_that_moved_meanwhile_is_asked_in_another_cycle(cluster: FakeCluster, ask: Asker):
    part = a_partition([(0, 0), (1, 70)], 1)
    cluster.world.topics = {"t": Topic({0: part})}
    for broker in cluster.brokers.values():
        broker.world.topics["t"].partitions[0].epoch = 1
    part.leader = 2  # broker 1 says so, broker 2 is asked, and broker 1 is not its leader
    part.logs[2] = Log(log_end=90)
    assert ask() == {("t", 0): ((0, 0), (1, 70))}


def test_a_missing_right_is_reported_and_not_asked_for_each_cycle(cluster: FakeCluster, ask: Asker):
    cluster.world.topics = {"t": Topic({0: a_partition([(0, 0)], 0)})}
    cluster.world.unreadable = {"t"}
    assert ask() == {}
    (problem,) = ask.epochs.problems
    assert problem.cause == ("leader epoch histories", -1, "TopicAuthorizationFailed")
    assert problem.text.endswith("(t)")
    asked = questions(cluster)
    ask()
    assert questions(cluster) == asked


def test_a_kafka_that_does_not_know_the_question_gives_none(cluster: FakeCluster, ask: Asker):
    cluster.world.topics = {"t": Topic({0: a_partition([(0, 0)], 0)})}
    for broker in cluster.brokers.values():
        broker.highest[OffsetForLeaderEpochRequest.API_KEY] = 1
    assert ask() == {}
    assert ask.epochs.problems == ()


def test_many_histories_are_read_over_several_cycles(cluster):
    ask = Asker(cluster, most_walks=3)
    cluster.world.topics = {"t": Topic({n: a_partition([(0, 0)], 0) for n in range(8)})}
    assert [len(ask()) for _ in range(4)] == [3, 3, 2, 0]
    ask.brokers.close()


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """Entries with ascending epochs and offsets, and a log start; the first may begin there."""
    numbers = sorted(draw(st.sets(st.integers(0, 60), min_size=1, max_size=8)))
    offsets = sorted(
        draw(st.sets(st.integers(0, 900), min_size=len(numbers), max_size=len(numbers)))
    )
    return list(zip(numbers, offsets, strict=True)), offsets[0]


@given(histories())
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_history_comes_out_as_it_is(cluster, drawn):
    history, start = drawn
    cluster.world.topics = {"t": Topic({0: a_partition(history, history[-1][0], start)})}
    asker = Asker(cluster)
    try:
        assert asker() == {("t", 0): tuple(history)}
    finally:
        asker.brokers.close()
