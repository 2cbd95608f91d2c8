"""Where nobody sets the number of shards, it follows from the size of the cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streaming.bus import bus_topics
from streaming.bus.shards import await_shards, shards_for, why_unfit
from streaming.collector.cycle.program import choose_shards
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import CollectorConfig, Config
from streaming.runtime.configuration.loading import load
from tests.collector.fake_broker import FakeCluster, Log, Partition, Topic, World, fake_cluster
from tests.waiting import AMPLE_MS, until


@pytest.mark.parametrize(
    ("replicas", "shards"),
    [
        (0, 1), (1_300, 1), (2_500, 1), (2_501, 2), (9_000, 4), (40_000, 16), (300_000, 16),
        (640_000, 16), (640_001, 17), (2_800_000, 70), (1_000_000_000, 4_096),
    ],
)  # fmt: skip
def test_a_small_cluster_has_one_shard_and_a_large_one_what_fits_into_messages(replicas, shards):
    assert shards_for(replicas) == shards
    assert why_unfit(shards_for(replicas), min(replicas, 100_000_000)) == ""


def test_a_cluster_may_grow_to_sixteen_times_its_size_before_it_is_too_large():
    assert why_unfit(1, 40_000) == ""
    assert why_unfit(1, 40_001).startswith("too few for 40001 replicas: 16 would fit; ")


def test_four_times_the_shards_that_fit_are_left_alone_and_more_are_said():
    assert why_unfit(4, 1_300) == ""
    assert why_unfit(5, 1_300).startswith("more than needed for 1300 replicas: 1 would fit; ")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    logs = {1: Log(log_end=120), 2: Log(log_end=90)}
    topics = {f"t{n}": Topic({0: Partition([1, 2], logs=logs)}) for n in range(1_300)}
    with fake_cluster(World(topics), [1, 2]) as two:
        yield two


def test_the_collector_chooses_by_the_replicas_that_it_lists(cluster: FakeCluster) -> None:
    config = Config(collector=CollectorConfig(deadline_ms=AMPLE_MS))
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        chosen = choose_shards(config, brokers, threading.Event())
    assert chosen is not None
    assert chosen.bus.shards == 2  # of 2 600 replicas


def test_a_collector_that_is_stopped_before_it_could_choose_ends(cluster: FakeCluster) -> None:
    stop = threading.Event()
    stop.set()
    with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
        assert choose_shards(Config(), brokers, stop) is None


def test_who_waits_for_the_number_says_so_and_can_be_stopped(cluster: FakeCluster) -> None:
    config = load(None, {"KAFKA_TWIN_CLUSTER_BOOTSTRAP": cluster.bootstrap})
    cluster.world.topics = {name: Topic({0: Partition([1])}) for name in bus_topics.topics(config)}
    stop, looked = threading.Event(), []
    waiting = threading.Thread(
        target=lambda: await_shards(config, stop, lambda: looked.append(True))
    )
    waiting.start()
    try:
        until(lambda: len(looked) > 1)
    finally:
        stop.set()
        waiting.join()
    assert not waiting.is_alive()


def test_a_configuration_of_a_person_leaves_the_number_open_unless_it_is_set():
    assert load(None, {}).bus.shards == 0
    assert load(None, {"KAFKA_TWIN_BUS_SHARDS": "3"}).bus.shards == 3
