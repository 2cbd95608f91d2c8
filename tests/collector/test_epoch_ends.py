"""Where the epoch of a former leader ends: asked once, of the leader that follows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.sources.epoch_ends import EpochEndSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import BusConfig, CollectorConfig, Config
from tests.collector.fake_broker import FakeCluster, Log, Partition, Topic, World, fake_cluster
from tests.waiting import AMPLE_MS
from twin.builtin import CATALOG
from twin.engine import frames

CONFIG = Config(bus=BusConfig(shards=2), collector=CollectorConfig(deadline_ms=AMPLE_MS))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    logs = {1: Log(log_end=120), 2: Log(log_end=90)}
    topics = {
        name: Topic({0: Partition([1, 2], epoch=4, history=[(0, 0), (4, 50)], logs=logs)})
        for name in ("a", "b")
    }
    with fake_cluster(World(topics), [1, 2]) as two:
        yield two


COLUMNS = ("leader_epoch", "prev_epoch", "found_epoch", "end_offset")


class Watcher:
    """Observes, and gives the answers by topic: leader epoch, epoch before, end offset."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.brokers = BrokerConnections(cluster.bootstrap, {}, AMPLE_MS)
        self.collector = Collector(CONFIG, self.brokers, retry_denied_ms=0)

    def __call__(self) -> dict[str, tuple[int, ...]]:
        observation = self.collector.observe()
        assert observation is not None
        return {
            row["topic"]: tuple(row[name] for name in COLUMNS)
            for _, message in ObservationEncoder().encode(observation)
            for frame in frames.decode(message, CATALOG.observations).frames
            if frame.header.kind == "epoch_ends"
            for row in frame.rows.to_pylist()
        }

    def start(self) -> None:
        """Observe until leaders were asked what they are asked at the start, and forget that."""
        while self():
            pass
        for broker in self.cluster.brokers.values():
            broker.asked.clear()

    def elect(self, leader: int, epoch: int, start: int, topic: str = "a") -> None:
        """A leader that begins its epoch at that offset."""
        partition = self.cluster.world.topics[topic].partitions[0]
        partition.leader, partition.epoch = leader, epoch
        kept = [e for e in partition.history if e[1] < start]
        partition.history = [*kept, (epoch, start)]


@pytest.fixture
def watch(cluster: FakeCluster) -> Iterator[Watcher]:
    watcher = Watcher(cluster)
    yield watcher
    watcher.brokers.close()


def requests(cluster: FakeCluster) -> int:
    return sum(len(b.asked_of(OffsetForLeaderEpochRequest)) for b in cluster.brokers.values())


def test_a_new_leader_is_asked_once_where_the_epoch_before_ends(cluster, watch):
    watch.start()
    watch.elect(2, epoch=5, start=90)
    assert watch() == {"a": (5, 4, 4, 90)}
    assert (watch(), requests(cluster)) == ({}, 1)


def test_at_the_start_each_leader_is_asked_once_about_the_epoch_before_its_own(cluster, watch):
    """It may have changed while the collector was away."""
    before = (4, 3, 0, 50)
    assert watch() == {"a": before, "b": before}
    assert (watch(), watch(), requests(cluster)) == ({}, {}, 1)


def test_at_the_start_a_leader_in_its_first_epoch_is_not_asked(cluster, watch):
    cluster.world.topics["a"].partitions[0].epoch = 0
    assert list(watch()) == ["b"]


def test_at_the_start_those_that_are_alone_in_their_isr_are_asked_first(cluster, watch):
    source = EpochEndSource("test", retry_denied_ms=0, most_partitions=1)
    watch.collector = Collector(CONFIG, watch.brokers, source)
    cluster.world.topics["b"].partitions[0].isr = [1]
    assert [list(watch()), list(watch()), list(watch())] == [["b"], ["a"], []]


def test_at_the_start_a_change_that_was_seen_comes_before_those_that_were_not(cluster, watch):
    source = EpochEndSource("test", retry_denied_ms=0, most_partitions=1)
    watch.collector = Collector(CONFIG, watch.brokers, source)
    assert list(watch()) == ["a"]
    watch.elect(2, epoch=5, start=90)
    assert watch() == {"a": (5, 4, 4, 90)}
    assert list(watch()) == ["b"]


def test_a_leader_that_does_not_answer_at_the_start_is_not_asked_again(cluster, watch):
    cluster.world.unreadable.add("a")
    assert list(watch()) == ["b"]
    cluster.world.unreadable.clear()
    assert watch() == {}


def test_a_topic_that_is_created_later_has_no_leader_before(cluster, watch):
    watch.start()
    cluster.world.topics["c"] = Topic({0: Partition([2, 1], epoch=9, history=[(9, 0)])})
    assert (watch(), requests(cluster)) == ({}, 0)


def test_a_partition_without_a_leader_is_asked_when_it_has_one(cluster, watch):
    watch.start()
    watch.elect(-1, epoch=5, start=1_000)
    assert (watch(), requests(cluster)) == ({}, 0)
    watch.elect(1, epoch=6, start=0)
    assert watch() == {"a": (6, 4, 4, 0)}, "of the last leader's epoch"


def test_a_leader_without_a_history_answers_that_it_does_not_know(cluster, watch):
    watch.start()
    watch.elect(2, epoch=5, start=90)
    cluster.world.topics["a"].partitions[0].history = []
    assert watch() == {"a": (5, 4, -1, -1)}


def test_of_many_partitions_some_follow_in_later_cycles(cluster, watch):
    source = EpochEndSource("test", retry_denied_ms=0, most_partitions=1)
    watch.collector = Collector(CONFIG, watch.brokers, source)
    watch.start()
    for topic in ("a", "b"):
        watch.elect(2, epoch=5, start=90, topic=topic)
    assert [len(watch()), len(watch()), len(watch())] == [1, 1, 0]


def test_what_did_not_arrive_is_sent_again(watch):
    watch.start()
    watch.elect(2, epoch=5, start=90)
    watch()
    watch.collector.on_send_failed()
    assert watch() == {"a": (5, 4, 4, 90)}


def test_a_leader_that_does_not_answer_is_asked_again(cluster, watch):
    watch.start()
    watch.elect(2, epoch=5, start=90)
    cluster.world.unreadable.add("a")
    assert watch() == {}
    assert "epoch ends" in {p.source for p in watch.collector.problems}
    cluster.world.unreadable.clear()
    assert watch() == {"a": (5, 4, 4, 90)}
    assert "epoch ends" not in {p.source for p in watch.collector.problems}


def test_a_topic_that_comes_or_goes_changes_nothing_for_the_others(cluster, watch):
    watch.start()
    del cluster.world.topics["b"]
    cluster.world.topics["c"] = Topic({0: Partition([2, 1], epoch=9, history=[(9, 0)])})
    watch.elect(2, epoch=5, start=90)
    assert watch() == {"a": (5, 4, 4, 90)}


def test_a_leader_that_changed_while_the_listing_was_incomplete_is_asked(cluster, watch):
    watch.start()
    topic = cluster.world.topics["a"]
    topic.error = 5
    assert watch() == {}
    topic.error = 0
    watch.elect(2, epoch=5, start=90)
    assert watch() == {"a": (5, 4, 4, 90)}
