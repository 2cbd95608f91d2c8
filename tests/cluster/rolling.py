"""Load on a real cluster while its brokers are restarted, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from prometheus_client.parser import text_string_to_metric_families

from streaming.bus import bus_topics, record
from streaming.bus.connection import BusError
from streaming.bus.sender import Sender
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import Config
from tests.cluster.broker_client import BrokerClient, Key
from tests.cluster.watching import watching
from tests.soak.background import Background
from tests.web import get
from twin.engine import codec
from twin.engine.shard_state import ShardState

BETWEEN_RECORDS_S = 0.02
BETWEEN_LOOKS_S = 0.05
BETWEEN_READS_S = 0.1
BETWEEN_COUNTS_S = 1.0
BETWEEN_CYCLES_S = 1.0
_REQUESTS = "kafka_topic_remote_fetch_requests_total"
CLOSE_S = 20
"""For what was sent before; where it cannot be written, kafka-python would wait without end."""


@dataclass(kw_only=True)
class Producer(Background):
    """Writes with acks=all to every partition in turn; an error is one that a user would get.

    Kafka's default is to try again for two minutes; without retries the first answer counts.
    """

    cluster: LocalCluster
    topics: dict[str, int]  # number of partitions by name
    has_retries: bool
    written: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        places = [
            (topic, number) for topic, count in self.topics.items() for number in range(count)
        ]
        once = {} if self.has_retries else {"retries": 0, "enable_idempotence": False}
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap, acks="all", request_timeout_ms=5_000, **once
        )
        while not self.over.wait(BETWEEN_RECORDS_S):
            topic, number = places[self.written % len(places)]
            try:
                sent = producer.send(topic, bytes(500), partition=number)
                sent.add_errback(self._failed)
            except KafkaError as error:
                self._failed(error)
            self.written += 1
        try:
            producer.close(timeout=CLOSE_S)
        except KafkaError as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.errors[type(error).__name__] += 1


@dataclass(kw_only=True)
class Reader(Background):
    """Reads every partition of a topic from its first record on, again and again."""

    cluster: LocalCluster
    topic: str
    partitions: int
    records: int = 0

    def run(self) -> None:
        places = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        with KafkaConsumer(bootstrap_servers=self.cluster.bootstrap) as consumer:
            consumer.assign(places)
            while not self.over.wait(BETWEEN_READS_S):
                consumer.seek_to_beginning(*places)
                with suppress(KafkaError):
                    self.records += sum(map(len, consumer.poll(500).values()))


@dataclass(kw_only=True)
class Observer(Background):
    """Asks whichever broker answers for leaders and ISRs, many times a second."""

    cluster: LocalCluster
    topics: Collection[str]
    min_isr: int
    offline: set[Key] = field(default_factory=set)
    under_min_isr: set[Key] = field(default_factory=set)
    fewest: dict[Key, int] = field(default_factory=dict)  # replicas in sync
    looks: int = 0

    def run(self) -> None:
        client = BrokerClient(self.cluster)
        brokers = list(self.cluster.layout.ids)
        while not self.over.wait(BETWEEN_LOOKS_S):
            try:
                states = client.partitions(brokers[0], list(self.topics), timeout_s=1)
            except (OSError, AssertionError):
                brokers.append(brokers.pop(0))
                continue
            self.looks += 1
            for key, state in states.items():
                self.fewest[key] = min(len(state.isr), self.fewest.get(key, len(state.isr)))
                if state.leader == -1:
                    self.offline.add(key)
                if len(state.isr) < self.min_isr:
                    self.under_min_isr.add(key)


@dataclass(kw_only=True)
class RemoteReads(Background):
    """Counts consumers' reads from remote storage by what the brokers measure, over restarts."""

    cluster: LocalCluster
    topic: str
    requests: float = 0
    _last: dict[int, float] = field(default_factory=dict)

    def run(self) -> None:
        while not self.over.wait(BETWEEN_COUNTS_S):
            self.count()

    def count(self) -> float:
        """All requests so far; a counter that is lower than before began anew."""
        for broker, url in self.cluster.layout.metrics_urls.items():
            status, text = get(f"{url}?name[]={_REQUESTS}", timeout_s=2)
            if status != 200:
                continue
            now = sum(
                sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
                if sample.name == _REQUESTS and sample.labels["topic"] == self.topic
            )
            before = self._last.get(broker, 0.0)
            self.requests += now - before if now >= before else now
            self._last[broker] = now
        return self.requests


@dataclass(kw_only=True)
class LiveTwin(Background):
    """A twin without Spark: each cycle of the collector is stepped, and its snapshot sent."""

    config: Config
    cycles: int = 0
    state: ShardState | None = None
    failure: BaseException | None = None

    def run(self) -> None:
        try:
            topic = bus_topics.topics(self.config).snapshots
            with watching(self.config.cluster.bootstrap) as watch, Sender(self.config) as sender:
                while not self.over.wait(BETWEEN_CYCLES_S):
                    self.state = watch.look()
                    message = codec.encode(self.state)
                    sender.send(topic, record.key(self.config.cluster.name, 0), message)
                    with suppress(BusError):  # brokers of the bus are restarted as well
                        sender.flush(5_000)
                        self.cycles += 1
        except BaseException as error:
            self.failure = error

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        assert self.failure is None, self.failure
