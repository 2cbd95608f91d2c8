"""What the twin says that survivors will carry, against what they then measure.

Producers and a consumer go on at a steady pace while a broker is killed. The twin predicts by its
own rates, without JMX; each survivor's own counters say what it carried before and after.
``LOST="1 2 3 4 5"`` loses each in turn.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from streaming.collector.scraping.scrape import scrape_all
from streaming.collector.scraping.signals import Scrape, signals_of
from streaming.lab.local_cluster import LocalCluster
from tests.asking import answered
from tests.cluster.broker_client import BrokerClient, await_in_sync
from tests.cluster.groups import watching_groups
from tests.waiting import patience, until
from twin.declarations.table import KAFKA
from twin.rules.partitions.growth import WEIGHT

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.losses]

TOPIC: Final = "load"
BROKERS: Final = (1, 2, 3, 4, 5)
LOST: Final = [int(each) for each in os.environ.get("LOST", "5").split()]
REPLICAS: Final = ((5, 1), (5, 2), (5, 2), (4, 5), (1, 3), (2, 4), (3, 5))
RECORDS_A_TICK: Final = (2, 3, 1, 2, 3, 2, 3)
"""Records that each partition gets ten times a second: broker 2 takes the most of broker 5."""

RECORD_BYTES: Final = 5_000
TICK_S: Final = 0.1
LOOKS: Final = 8
MEASURED_S: Final = 10
WITHIN: Final = 0.15
SMALL_BYTES_PER_S: Final = 15_000
"""Less is commits of offsets, and what the collector reads."""

COUNTED: Final = {
    "bytes_in_per_s": "bytes_in_per_s",
    "bytes_out_per_s": "bytes_out_per_s",
    "replication_in_per_s": "replication_bytes_in_per_s",
    "replication_out_per_s": "replication_bytes_out_per_s",
}
"""Amounts of the answer, and the metrics of brokers that measure them."""


@dataclass(frozen=True)
class Played:
    """A loss: the answer before it, and what brokers measured before and after, by broker."""

    lost: int
    answer: Mapping[str, Any]
    before: Mapping[int, Mapping[str, float]]
    after: Mapping[int, Mapping[str, float]]
    pace_before: float  # records sent a second, over the average while the twin watched
    pace_after: float


class Traffic:
    """A producer that keeps its pace as well as the machine lets it, and a consumer that reads all.

    What is late is not made up for, so the pace is steady on a busy machine too.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self.sent = self.read = 0  # records
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._write, self._read)
        ]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def await_read(self) -> None:
        """Wait until the consumer has what was sent but for three ticks.

        The producer sends what it had kept for the lost broker to those that lead then: a hundred
        records more would be 50 kB/s of what they count.
        """
        until(lambda: self.sent - self.read < 3 * sum(RECORDS_A_TICK), 60, "all is read")

    def _write(self) -> None:
        value = np.random.default_rng(1).bytes(RECORD_BYTES)
        with KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=5) as producer:
            while not self._over.is_set():
                due_s = time.monotonic() + TICK_S
                for partition, records in enumerate(RECORDS_A_TICK):
                    for _ in range(records):
                        producer.send(TOPIC, value, partition=partition)
                        self.sent += 1
                self._over.wait(max(due_s - time.monotonic(), 0))

    def _read(self) -> None:
        with KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id="load-group",
            auto_commit_interval_ms=200,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([TopicPartition(TOPIC, n) for n in range(len(REPLICAS))])
            while not self._over.is_set():
                self.read += sum(map(len, consumer.poll(200).values()))


def prefer_first_replicas(cluster: LocalCluster) -> None:
    """Give leaderships back after another loss."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        of_topic = {TOPIC: list(range(len(REPLICAS)))}
        admin.elect_leaders(0, of_topic, raise_errors=False)  # preferred ones


def measured(
    cluster: LocalCluster, brokers: tuple[int, ...], traffic: Traffic
) -> tuple[dict[int, dict[str, float]], float]:
    """What these brokers count a second over some seconds, and the records sent a second."""
    urls = {broker: cluster.layout.metrics_urls[broker] for broker in brokers}

    def scrape() -> tuple[float, int, dict[int, Scrape]]:
        at_s, sent = time.monotonic(), traffic.sent
        scraped = scrape_all(urls, 20 * patience())
        return at_s, sent, {b: Scrape(at_s, each.samples) for b, each in scraped.items()}

    began_s, was_sent, first = scrape()
    time.sleep(MEASURED_S)
    ended_s, sent, second = scrape()
    signals = {broker: signals_of(second[broker], first[broker]) for broker in brokers}
    counted = {b: {name: each[own] for name, own in COUNTED.items()} for b, each in signals.items()}
    return counted, (sent - was_sent) / (ended_s - began_s)


@pytest.fixture(scope="module", params=LOST)
def played(five_brokers: LocalCluster, request: pytest.FixtureRequest) -> Played:
    """A broker is killed once under traffic."""
    lost: int = request.param
    others = tuple(broker for broker in BROKERS if broker != lost)
    client = BrokerClient(five_brokers)
    await_in_sync(five_brokers)
    if TOPIC in client.topics(others[0]):
        prefer_first_replicas(five_brokers)
    else:
        client.create(TOPIC, REPLICAS, {"min.insync.replicas": "1"})
    with Traffic(five_brokers.bootstrap) as traffic:
        with watching_groups(five_brokers.bootstrap) as watch:
            until(lambda: traffic.read > 100, 60, "nothing is read")
            pace = 0.0
            at_s, was_sent = time.monotonic(), traffic.sent
            for n in range(LOOKS):
                time.sleep(1.5)
                state = watch.look_at_groups()
                now_s, sent = time.monotonic(), traffic.sent
                latest = (sent - was_sent) / (now_s - at_s)
                pace += (WEIGHT if n else 1.0) * (latest - pace)  # the average of the twin
                at_s, was_sent = now_s, sent
            before, pace_before = measured(five_brokers, BROKERS, traffic)
        answer = answered("load", state, broker=[lost]).data
        five_brokers.kill(lost)
        try:
            leaders = {n: r[1] if r[0] == lost else r[0] for n, r in enumerate(REPLICAS)}

            def others_lead() -> bool:
                now = client.leaders(others[0])
                return all(now[TOPIC, n] == leader for n, leader in leaders.items())

            until(others_lead, 60)
            time.sleep(3)  # producer and consumer learn of them
            traffic.await_read()
            after, pace_after = measured(five_brokers, others, traffic)
        finally:
            five_brokers.start()
            await_in_sync(five_brokers)
    return Played(lost, answer, before, after, pace_before / pace, pace_after / pace)


def differences(
    said: Mapping[int, Mapping[str, Any]], counted: Mapping[int, Mapping[str, float]], pace: float
) -> dict[tuple[int, str], tuple[float, float]]:
    """Amounts that are not within 15 % of what brokers counted, or that are unknown.

    ``pace``: how much faster records were sent meanwhile: a busy machine slows the producer down.
    """
    return {
        (broker, name): (said[broker][name]["value"], each)
        for broker, amounts in counted.items()
        for name, each in amounts.items()
        if said[broker][name]["value"] is None
        or abs(pace * said[broker][name]["value"] - each) > max(WITHIN * each, SMALL_BYTES_PER_S)
    }


def test_what_brokers_carry_now_is_what_they_count(played: Played) -> None:
    said = {each["broker"]: each["now"] for each in played.answer["brokers"]}
    assert differences(said, played.before, played.pace_before) == {}


def test_what_survivors_carry_after_the_loss_is_what_was_predicted(played: Played) -> None:
    said = {each["broker"]: each["now"] for each in played.answer["brokers"]}
    said |= {each["broker"]: each["then"][KAFKA] for each in played.answer["loads"]}
    assert differences(said, played.after, played.pace_after) == {}


def test_the_largest_growth_is_on_the_broker_that_took_most(played: Played) -> None:
    grown = {
        broker: each["bytes_in_per_s"] - played.before[broker]["bytes_in_per_s"]
        for broker, each in played.after.items()
    }
    largest = played.answer["largest"]["bytes_in_per_s"]
    assert largest["broker"] == max(grown, key=lambda broker: grown[broker])
    assert played.lost != 5 or largest["broker"] == 2
