"""Groups of consumers, a transaction that stays open, and traffic, as an ordinary cluster has."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.cluster.groups import commit
from tests.soak.background import Background
from tests.strangers.kinds import KINDS, kind
from tests.strangers.setup import RECORD, Stranger

AHEAD_RECORDS: Final = 1_000
TRANSACTION_MS: Final = 900_000
"""Kafka's own limit, transaction.max.timeout.ms: the transaction outlives the test."""

_POLL_MS: Final = 500

RECORDS_PER_S: Final = 0.125
"""Of each partition that is written. A record in a while is enough to move every offset."""

_LINGER_MS: Final = 2_000
"""A producer sends each broker one request in this time. Followers fetch after every request, so a
request for each record costs the brokers half a core."""

_FETCHES: Final = {"fetch_min_bytes": 65_536, "fetch_max_wait_ms": _POLL_MS}
"""Two fetches a second of each broker, and not one for each record: they cost brokers and the test
most of their CPU time."""


@dataclass(kw_only=True)
class LiveGroup(Background):
    """A group with one member, which reads and commits, or stays where it began."""

    bootstrap: str
    group: str
    topics: Collection[str]
    stays: bool = False
    is_assigned: bool = False
    records: int = 0

    def run(self) -> None:
        with KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest",
            enable_auto_commit=not self.stays, auto_commit_interval_ms=1_000,
            **_FETCHES,
        ) as consumer:  # fmt: skip
            consumer.subscribe(list(self.topics))
            while not self.over.is_set():
                with suppress(KafkaError):
                    polled = consumer.poll(_POLL_MS)
                    self.records += 0 if self.stays else sum(map(len, polled.values()))
                    if consumer.assignment() and not self.is_assigned:
                        self._begin(consumer)

    def _begin(self, consumer: KafkaConsumer) -> None:
        if self.stays:
            places = consumer.assignment()
            consumer.pause(*places)
            consumer.commit({place: OffsetAndMetadata(0, "", -1) for place in places})
        self.is_assigned = True


@dataclass(kw_only=True)
class Writer(Background):
    """Writes with acks=all to every partition of some topics in turn; keeps what was written."""

    bootstrap: str
    topics: Mapping[str, int]  # number of partitions
    records_per_s: float
    acknowledged: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # offsets
    errors: list[str] = field(default_factory=list)

    def run(self) -> None:
        places = [(topic, n) for topic, count in self.topics.items() for n in range(count)]
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=_LINGER_MS)
        number = 0
        began_s = time.monotonic()
        while not self.over.wait(max(began_s + number / self.records_per_s - time.monotonic(), 0)):
            topic, partition = places[number % len(places)]
            number += 1
            try:
                sent = producer.send(
                    topic, RECORD, key=str(number % 7).encode(), partition=partition
                )
                sent.add_callback(self._written)
                sent.add_errback(self._failed)
            except KafkaError as error:
                self._failed(error)
        with suppress(KafkaError):
            producer.close(timeout=60)

    def _written(self, record: object) -> None:
        key = (record.topic, record.partition)  # type: ignore[attr-defined]
        self.acknowledged.setdefault(key, set()).add(record.offset)  # type: ignore[attr-defined]

    def _failed(self, error: BaseException) -> None:
        self.errors.append(repr(error))

    def lost(self) -> dict[tuple[str, int], int]:
        """Acknowledged records that are not in the log any more, by partition; read to the end."""
        places = [TopicPartition(*key) for key in self.acknowledged]
        with KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign(places)
            first = consumer.beginning_offsets(places)
            ends = consumer.end_offsets(places)
            for place in places:
                consumer.seek(place, max(min(self.acknowledged[place]), first[place]))
            found: dict[tuple[str, int], set[int]] = {}
            while any(consumer.position(place) < ends[place] for place in places):
                for place, records in consumer.poll(1_000).items():
                    found.setdefault(tuple(place), set()).update(r.offset for r in records)
        missing = {
            key: len(
                {o for o in offsets if o >= first[TopicPartition(*key)]} - found.get(key, set())
            )
            for key, offsets in self.acknowledged.items()
        }
        return {key: count for key, count in missing.items() if count}


@contextmanager
def open_transaction(bootstrap: str, topic: str) -> Iterator[None]:
    """A transaction that has written to partition 0 and stays open for the block."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        transactional_id=f"of-{topic}",
        transaction_timeout_ms=TRANSACTION_MS,
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, RECORD, partition=0)
    producer.flush(60)
    try:
        yield
    finally:
        with suppress(KafkaError):
            producer.abort_transaction()
            producer.close(timeout=10)


@dataclass(frozen=True)
class Clients:
    """Those whose work is counted."""

    writer: Writer
    members: list[LiveGroup]

    @property
    def read(self) -> int:
        """Records that the groups have read."""
        return sum(member.records for member in self.members)


@contextmanager
def life(stranger: Stranger) -> Iterator[Clients]:
    """Traffic, groups of every sort and an open transaction, for the block."""
    bootstrap, topics = stranger.cluster.bootstrap, stranger.topics
    written = [name for each in KINDS if each.is_written for name in each.names()]
    places = {topic: topics[topic] for topic in written if topic in topics}
    far_behind = kind("read from remote storage").names()
    too_late = kind("read too late").names()
    [in_transaction] = kind("open transaction").names()
    with ExitStack() as stack:
        writer = stack.enter_context(
            Writer(
                bootstrap=bootstrap,
                topics=places,
                records_per_s=sum(places.values()) * RECORDS_PER_S,
            )
        )
        members = [
            LiveGroup(bootstrap=bootstrap, group="live", topics=written),
            LiveGroup(bootstrap=bootstrap, group="far-behind", topics=far_behind, stays=True),
            LiveGroup(bootstrap=bootstrap, group="too-late", topics=too_late, stays=True),
        ]
        for member in members:
            stack.enter_context(member)
        stack.enter_context(open_transaction(bootstrap, in_transaction))
        commit(bootstrap, "empty", {("idle-00", 0): 30})
        commit(bootstrap, "behind-and-gone", {("idle-01", 0): 0})
        commit(bootstrap, "ahead-of-the-log", {("idle-02", 0): 30 + AHEAD_RECORDS})
        commit(bootstrap, "deleted", {("idle-03", 0): 30})
        with stranger.admin() as admin:
            admin.delete_groups(["deleted"])
        stranger.until(
            lambda: all(member.is_assigned for member in members), 120, "a group has no member"
        )
        yield Clients(writer, members)
