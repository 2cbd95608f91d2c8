"""The demo's topics and their traffic: tiered and plain topics, and one replica that is cold.

A cold replica is made as in practice: a tiered partition with data is reassigned to a broker
without a replica. With KIP-1023 the new replica starts at the first offset not yet uploaded.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from streaming.runtime.deadline import Deadline

RECORD_BYTES: Final = 1_000
RECORDS_PER_SECOND: Final = 40
LINGER_MS: Final = 250
"""A few large requests, in place of one for each record: a demo should not heat a laptop."""

HISTORY_RECORDS: Final = 3_000
"""Records that the partition with the cold replica has at first: 3 MB, nearly all of it tiered."""

FIRST_RECORDS: Final = 400
"""Records that each partition of the other tiered topics has at first, so that it is warm."""

ENOUGH_BYTES: Final = 262_144
"""The demo's threshold of KIP-1303: below FIRST_RECORDS, above what a new replica has to copy."""

_GIVES_UP: Final = {"request_timeout_ms": 3_000, "delivery_timeout_ms": 4_000}
CLOSE_S: Final = 5.0
"""By then every record is written or dropped. A producer that is closed earlier reports an error
later, when it is deleted."""

COLD_TOPIC: Final = "ledger"
COLD_ASSIGNMENT: Final = {"before": [1, 2], "after": [1, 3, 2]}

TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "102400",  # the public segment.bytes has a floor of 1 MiB
    "local.retention.bytes": "2097152",
    "file.delete.delay.ms": "1000",
    "min.insync.replicas": "2",
}
"""Configs of a topic with small segments, which go to remote storage at once."""

TOPICS: Final[dict[str, dict[str, Any]]] = {
    "orders": {"num_partitions": 6, "replication_factor": 3, "configs": TIERED},
    "payments": {"num_partitions": 3, "replication_factor": 3, "configs": TIERED},
    COLD_TOPIC: {
        "assignments": {0: COLD_ASSIGNMENT["before"]},
        "configs": TIERED | {"min.insync.replicas": "1"},
    },
    "clicks": {"num_partitions": 8, "replication_factor": 2, "configs": {}},
    "audit": {
        "num_partitions": 2,
        "replication_factor": 3,
        "configs": {"cleanup.policy": "compact", "min.insync.replicas": "2"},
    },
    "scratch": {"num_partitions": 1, "replication_factor": 1, "configs": {}},
}

STEADY: Final = tuple(name for name in TOPICS if name != COLD_TOPIC)
"""Topics with continuous traffic. The cold topic has none, so that its replica stays cold."""


class Traffic:
    """Creates the topics and writes to them until stopped, also while brokers are lost."""

    def __init__(self, bootstrap: str, topics: Sequence[str] = STEADY) -> None:
        """Write to ``topics``; ``prepare`` creates the demo's topics in any case."""
        self._bootstrap = bootstrap
        self._topics = topics
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._steady, name="traffic", daemon=True)

    def prepare(self) -> None:
        """Create the topics; give one partition a history, and a replica with little of it.

        A cluster that has all of the topics is left as it is.

        Raises:
            KafkaError: the cluster refused, or did not finish in time.
        """
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            existing = set(admin.list_topics())
            missing = {name: topic for name, topic in TOPICS.items() if name not in existing}
            if not missing:
                return
            admin.create_topics(missing, timeout_ms=20_000, wait_for_metadata=True)
            producer = self._producer()
            record = os.urandom(RECORD_BYTES)
            for _ in range(HISTORY_RECORDS):
                producer.send(COLD_TOPIC, record, partition=0)
            for topic in ("orders", "payments"):
                for partition in range(TOPICS[topic]["num_partitions"]):
                    for _ in range(FIRST_RECORDS):
                        producer.send(topic, record, partition=partition)
            producer.flush(timeout=60)
            producer.close()
            self._await_tiered(admin)
            place = TopicPartition(COLD_TOPIC, 0)
            admin.alter_partition_reassignments({place: COLD_ASSIGNMENT["after"]})
        finally:
            admin.close()

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    def writing(self) -> bool:
        """The thread that writes is running."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop writing; returns within CLOSE_S, and mostly at once."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _await_tiered(self, admin: Any) -> None:
        """Wait until the history is in remote storage and old segments are deleted from disk."""
        place = TopicPartition(COLD_TOPIC, 0)
        deadline = Deadline.after_s(30)
        while not deadline.is_over:
            local, tiered = (
                admin.list_partition_offsets({place: spec})[place].offset
                for spec in (OffsetSpec.EARLIEST_LOCAL, OffsetSpec.LATEST_TIERED)
            )
            if local > 0 and tiered > HISTORY_RECORDS * 0.95:
                return
            self._stop.wait(0.5)

    def _producer(self, **settings: Any) -> Any:
        return KafkaProducer(
            bootstrap_servers=self._bootstrap, acks=1, linger_ms=LINGER_MS,
            # kafka-python's idempotent producer never sends again once a message has expired,
            # which happens when a broker is lost.
            enable_idempotence=False, **settings,
        )  # fmt: skip

    def _steady(self) -> None:
        record = os.urandom(RECORD_BYTES)
        producer = None
        turn = 0
        while not self._stop.wait(1 / RECORDS_PER_SECOND):
            turn += 1
            topic = self._topics[turn % len(self._topics)]
            # The demo loses brokers on purpose: records that cannot be written are dropped.
            with contextlib.suppress(KafkaError, OSError, AssertionError):
                producer = producer or self._producer(**_GIVES_UP)
                producer.send(topic, record, key=str(turn % 97).encode())
        with contextlib.suppress(KafkaError):
            if producer is not None:
                producer.close(timeout=CLOSE_S)
