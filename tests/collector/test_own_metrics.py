"""The metrics that the collector serves about itself while it polls brokers."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest

from streaming.bus.connection import BusError
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.metrics import CycleMetrics
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.cycle.program import collect
from streaming.collector.own_metrics import OWN
from streaming.collector.sources import ABOUT
from streaming.collector.sources.groups import GroupSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.lab.local_cluster import free_base_port
from streaming.runtime.config import ClusterConfig, CollectorConfig, Config
from streaming.runtime.program_metrics import served
from tests.collector.fake_broker import (
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.collector.fake_groups import Group
from tests.scraping import Scraped, assert_declared, judged, needs_promtool, scrape
from tests.waiting import patient_ms, until
from tests.web import get

INTERVAL_MS = 200
DEADLINE_MS = 500
"""On a quiet machine."""


class Bus:
    """Takes observations, unless it is full."""

    def __init__(self) -> None:
        self.is_full = False
        self.taken = 0

    def send(self, _: CycleResult) -> None:
        if self.is_full:
            raise BusError("bus topic x: it is full")
        self.taken += 1


class Running:
    """A collector that runs, what it asks and sends to, and what it serves."""

    def __init__(self, cluster: FakeCluster, bus: Bus, port: int) -> None:
        self.cluster, self.bus, self._port = cluster, bus, port

    def scrape(self) -> Scraped:
        return scrape(self._port)

    def health(self) -> tuple[int, str]:
        return get(f"http://127.0.0.1:{self._port}/healthz")

    def value(self, name: str, **labels: str) -> float:
        return self.scrape().value(f"collector_{name}", **labels)


@pytest.fixture
def running() -> Iterator[Running]:
    world = World(
        topics={"orders": Topic({0: Partition([1, 2], logs={1: Log(), 2: Log()})})},
        racks={1: "az-a", 2: "az-b"},
        groups={"readers": Group(1, {("orders", 0): 5})},
    )
    with fake_cluster(world, (1, 2)) as cluster, _collecting(cluster) as made:
        until(lambda: rounds(made) >= 1)
        until(lambda: all(v == 0 for _, v in made.scrape().series("collector_problems")))
        yield made


def rounds(running: Running) -> float:
    """The counter of rounds of the groups; 0 while its series does not exist."""
    series = running.scrape().series("collector_rounds_total")
    return sum(value for has, value in series if has["source"] == "groups")


@contextmanager
def _collecting(cluster: FakeCluster) -> Iterator[Running]:
    deadline_ms = patient_ms(DEADLINE_MS)  # by the load of now, not by that of the import
    section = CollectorConfig(
        interval_ms=INTERVAL_MS, deadline_ms=deadline_ms, groups_interval_ms=200
    )
    config = Config(cluster=ClusterConfig(name="c", bootstrap=cluster.bootstrap), collector=section)
    bus, port, stop = Bus(), free_base_port(span=1), threading.Event()
    metrics = CycleMetrics("c", INTERVAL_MS)
    with (
        BrokerConnections(cluster.bootstrap, {}, deadline_ms) as brokers,
        GroupSource(config, brokers.client_id) as groups,
        served(metrics.registry, "127.0.0.1", port, "x", metrics.why_unhealthy),
    ):
        collector = Collector(config, brokers, groups)
        thread = threading.Thread(
            target=collect, args=(config, collector, bus.send, stop, None, metrics)
        )
        thread.start()
        try:
            made = Running(cluster, bus, port)
            until(lambda: made.bus.taken)
            yield made
        finally:
            stop.set()
            thread.join(100)
            assert not thread.is_alive()


def test_it_serves_what_is_declared_and_cycles_are_counted(running: Running) -> None:
    assert_declared(running.scrape(), OWN)
    before, began_s = running.bus.taken, time.time()
    until(lambda: running.bus.taken >= before + 3)
    scraped = running.scrape()
    assert scraped.value("collector_cycles_total") >= before + 2
    assert running.bus.taken >= scraped.value("collector_cycle_duration_seconds_count")
    assert scraped.value("collector_cycle_duration_seconds_sum") > 0
    sent_at_s = scraped.value("collector_last_sent_timestamp_seconds")
    assert began_s <= sent_at_s <= time.time()
    assert scraped.value("collector_observations_unsent_total") == 0
    assert {labels["source"] for labels, _ in scraped.series("collector_problems")} == set(ABOUT)


def test_a_bus_that_takes_nothing_is_said_beside_the_bus(running: Running) -> None:
    until(lambda: running.health() == (200, "ok\n"))
    running.bus.is_full = True
    full = r"the bus has taken no observation since \S+ \S+ UTC: bus topic x: it is full\n"
    # On a busy machine a cycle may be so late that, for a moment, no broker has answered either.
    until(lambda: (it := running.health())[0] == 503 and re.fullmatch(full, it[1]))
    assert running.value("last_answer_timestamp_seconds") > time.time() - 10
    running.bus.is_full = False
    until(lambda: running.health() == (200, "ok\n"))


def test_a_cluster_of_which_no_broker_answers_is_said_beside_the_bus(running: Running) -> None:
    for broker in running.cluster.brokers.values():
        broker.silent = True
    _, why = until(lambda: (it := running.health())[0] == 503 and it)
    assert why.startswith("no broker has answered since ")
    was_s = running.value("last_answer_timestamp_seconds")
    for broker in running.cluster.brokers.values():
        broker.silent = False
    until(lambda: running.value("last_answer_timestamp_seconds") > was_s)
    until(lambda: running.health() == (200, "ok\n"))


@needs_promtool
def test_promtool_finds_nothing_to_say(running: Running) -> None:
    assert judged(running.scrape()) == ""


def test_problems_are_counted_by_source_until_they_are_over(running: Running) -> None:
    running.cluster.world.denied = {DescribeLogDirsRequest.API_KEY}
    until(lambda: running.value("problems", source="log dirs") == 2)
    running.cluster.world.denied = set()
    until(lambda: running.value("problems", source="log dirs") == 0)


def test_cycles_that_a_silent_broker_leaves_no_time_for_are_counted(running: Running) -> None:
    before = running.value("overruns_total")
    running.cluster[2].silent = True
    # A busy machine leaves no time for some cycles before the broker is silent.
    until(lambda: running.value("problems", source="broker") == 1)
    until(lambda: running.value("overruns_total") >= before + 2)
    until(lambda: slow_cycles(running.scrape()) > 0)


def slow_cycles(scraped: Scraped) -> float:
    """Cycles that took longer than a quarter of a second."""
    within = scraped.value("collector_cycle_duration_seconds_bucket", le="0.25")
    return scraped.value("collector_cycle_duration_seconds_count") - within


def test_observations_that_the_bus_does_not_take_are_counted(running: Running) -> None:
    running.bus.is_full = True
    until(lambda: running.value("observations_unsent_total") >= 2)
    assert running.value("problems", source="bus") == 1
    sent_at_s = running.value("last_sent_timestamp_seconds")
    running.bus.is_full = False
    until(lambda: running.value("last_sent_timestamp_seconds") > sent_at_s)
    until(lambda: running.value("problems", source="bus") == 0)
