"""A twin that is not up names the program that it waits for: collector or query."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from kafka.errors import (
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
)
from kafka.protocol.metadata import MetadataRequest

from streaming.bus import bus_topics, connection
from streaming.bus.connection import BusError
from streaming.bus.reader import Reader
from streaming.exporter.intake.cluster_reading import ClusterReading
from streaming.exporter.intake.late_looks import LateLooks
from streaming.exporter.intake.looker import Looker
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.builders import Partition, a_state
from tests.collector.fake_broker import FakeCluster, Log, Topic, World, fake_cluster
from tests.collector.fake_broker import Partition as Stored
from twin.declarations.table import UNKNOWN
from twin.engine import codec

CLUSTER = "c"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def stored(newest_ms: int = -1) -> Topic:
    log = Log(0, 0, 5 if newest_ms >= 0 else 0, newest_ms=newest_ms)
    return Topic({0: Stored([1], logs={1: log})})


@pytest.fixture
def bus_brokers() -> Iterator[FakeCluster]:
    with fake_cluster(World(), [1]) as one:
        yield one


def why_not_up(
    brokers: FakeCluster,
    *,
    observations: Topic,
    observed_at_ms: int | None = None,
    snapshots: int = 1,
    then: Callable[[], None] = lambda: None,
    then_silent: bool = False,
) -> str:
    """The exporter's reason for not being up, given the newest observation and snapshot."""
    config = Config(
        cluster=ClusterConfig(name=CLUSTER, bootstrap=brokers.bootstrap), bus=BusConfig(shards=1)
    )
    names = bus_topics.topics(config)
    of_snapshots = Topic({number: stored().partitions[0] for number in range(snapshots)})
    brokers.world.topics = {names.observations: observations, names.snapshots: of_snapshots,
                            names.events: stored()}  # fmt: skip
    reading, looks = ClusterReading(config), LateLooks()
    if observed_at_ms is not None:
        state = a_state(Partition(), at_ms=observed_at_ms)
        reading._store.take_snapshot(f"{CLUSTER}/0".encode(), codec.encode(state))
        reading.publish(UNKNOWN)
    if not reading.view.is_late(now_ms()):
        return reading.view.why_not_up(now_ms())
    if not then_silent:
        then()
    looks.look(reading)
    if then_silent:
        brokers[1].silent = True
        looks.look(reading)
    looks.end()
    # A busy machine takes more than a second for this.
    return re.sub(r"\d+ s old", "N s old", reading.view.why_not_up(now_ms()))


def test_a_slow_query_is_not_taken_for_a_collector_that_does_not_run(
    bus_brokers: FakeCluster,
) -> None:
    why = why_not_up(bus_brokers, observations=stored(now_ms()), observed_at_ms=now_ms() - 75_000)
    assert why == (
        "the newest snapshot is N s old, and newer observations wait for the query: it is "
        "slow, or not running"
    )


def test_without_new_observations_the_collector_is_asked_about(bus_brokers: FakeCluster) -> None:
    old_ms = now_ms() - 75_000
    why = why_not_up(bus_brokers, observations=stored(old_ms), observed_at_ms=old_ms)
    assert why == (
        "the newest observation is N s old: is the collector running, and does the bus take its "
        "writes?"
    )


def test_before_the_first_snapshot_the_two_are_distinguished_as_well(
    bus_brokers: FakeCluster,
) -> None:
    why = why_not_up(bus_brokers, observations=stored(now_ms()))
    assert why.endswith("observations wait for the query: it is slow, or not running")
    why = why_not_up(bus_brokers, observations=stored())
    assert why.endswith("is the collector running, and does the bus take its writes?")


def test_a_look_asks_for_all_topics_once_and_then_for_its_own(bus_brokers: FakeCluster) -> None:
    config = Config(cluster=ClusterConfig(name=CLUSTER, bootstrap=bus_brokers.bootstrap))
    names = bus_topics.topics(config)
    bus_brokers.world.topics = {names.snapshots: stored()}

    def asked_for_all() -> int:
        return sum(request.topics is None for request in bus_brokers[1].asked_of(MetadataRequest))

    with closing(Looker(config)) as looker:
        bus_brokers.world.topics[names.observations] = stored(now_ms())
        assert looker.has_records_since(names.observations, 0)
        asked = asked_for_all()
        # The client forgets topics that it does not read whenever it refreshes its metadata.
        looker._consumer._cluster._partitions.pop(names.observations)
        assert looker.has_records_since(names.observations, 0)
        assert asked_for_all() == asked


@pytest.mark.parametrize(
    "error", [KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError, StaleMetadata]
)
def test_whatever_the_client_waited_for_in_vain_the_bus_does_not_answer(error: type) -> None:
    assert connection.failed(Config(), error("after 2 s")).unreachable


def test_a_partition_of_snapshots_that_nobody_leads_is_named(bus_brokers: FakeCluster) -> None:
    def loses_its_broker() -> None:
        name = bus_topics.topics(Config()).snapshots
        bus_brokers.world.topics[name].partitions[0].leader = -1

    old_ms = now_ms() - 75_000
    why = why_not_up(
        bus_brokers, observations=stored(old_ms), snapshots=2, observed_at_ms=old_ms,
        then=loses_its_broker,
    )  # fmt: skip
    assert why == (
        "nobody leads the bus partition kafka-twin.snapshots-0: is its broker away? With "
        "bus.replication_factor = 3 another one would lead; the newest observation is N s old"
    )


def test_a_reader_of_a_partition_that_nobody_leads_says_so_in_one_line(
    bus_brokers: FakeCluster,
) -> None:
    config = Config(cluster=ClusterConfig(name=CLUSTER, bootstrap=bus_brokers.bootstrap))
    name = bus_topics.topics(config).snapshots
    led = stored(now_ms()).partitions[0]
    bus_brokers.world.topics = {name: Topic({0: led, 1: Stored([9], leader=-1)})}
    with pytest.raises(BusError, match=rf"nobody leads {name}-1: is its broker away\?"):
        Reader(config, [name], "beginning")


def test_both_are_named_without_the_right_to_describe_observations(
    bus_brokers: FakeCluster,
) -> None:
    bus_brokers.world.hidden = {bus_topics.topics(Config()).observations}
    why = why_not_up(bus_brokers, observations=stored(now_ms()), observed_at_ms=now_ms() - 75_000)
    assert why == "the newest observation is N s old: are the collector and the query running?"


def test_a_twin_that_is_up_does_not_look(bus_brokers: FakeCluster) -> None:
    assert why_not_up(bus_brokers, observations=stored(), observed_at_ms=now_ms()) == ""


def test_a_bus_that_does_not_answer_is_named(bus_brokers: FakeCluster) -> None:
    began_ms = now_ms()
    why = why_not_up(
        bus_brokers, observations=stored(), observed_at_ms=now_ms() - 75_000, then_silent=True
    )
    found = re.fullmatch(
        r"the bus, which is on the watched cluster, has not answered since (.*) UTC; the newest "
        r"observation is N s old",
        why,
    )
    assert found is not None
    since = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert began_ms // 1000 <= since.timestamp() <= time.time()
