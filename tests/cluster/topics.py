"""Topics with records, for tests on real brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    BrokerClient,
)
from tests.waiting import until

TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "file.delete.delay.ms": "100",
}
"""Configs of a topic whose segments are small, and go to remote storage."""


@contextmanager
def steadily_written(
    bootstrap: str, records: Mapping[TopicPartition, int], size: int, tick_s: float = 0.1
) -> Iterator[None]:
    """Write so many records of that size each tick; what is late is not made up for."""
    over = threading.Event()
    value = np.random.default_rng(7).bytes(size)

    def write() -> None:
        with KafkaProducer(bootstrap_servers=bootstrap, acks=1) as producer:
            while not over.wait(tick_s):
                for of, count in records.items():
                    for _ in range(count):
                        producer.send(of.topic, value, partition=of.partition)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def produce(
    cluster: LocalCluster,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    size: int = 1_000,
    first_ms: int | None = None,
) -> None:
    """Write records of random bytes, some to a batch; record i has time ``first_ms + i``."""
    value = np.random.default_rng(count).bytes(size)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", linger_ms=5) as producer:
        sent = [
            producer.send(
                topic,
                value,
                key=str(i).encode(),
                partition=partition,
                timestamp_ms=None if first_ms is None else first_ms + i,
            )
            for i in range(count)
        ]
        for future in sent:
            future.get(60)


def make_cold_successor(five: LocalCluster, topic: str) -> None:
    """A tiered partition on 4 and 2, reassigned so that a broker with next to nothing is between.

    With KIP-1023 the newcomer starts at the first offset that is not in remote storage yet.
    """
    tiered = {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "51200",
        "local.retention.bytes": "600000",
        "min.insync.replicas": "1",
    }
    admin = KafkaAdminClient(bootstrap_servers=five.bootstrap)
    admin.create_topics(
        {topic: {"assignments": {0: [4, 2]}, "configs": tiered}},
        timeout_ms=20_000,
        wait_for_metadata=True,
    )
    producer = KafkaProducer(
        bootstrap_servers=five.bootstrap, acks=1, enable_idempotence=False, batch_size=8_000
    )
    for _ in range(1_500):
        producer.send(topic, bytes(1_000), partition=0)
    producer.close(timeout=60)
    client = BrokerClient(five)

    def is_tiered() -> bool:
        local, pending, end = (
            client.offset(4, topic, 0, kind)
            for kind in (EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST)
        )
        return local > 0 and end - pending < 100

    until(is_tiered, 60, "the log is not in remote storage")
    admin.alter_partition_reassignments({TopicPartition(topic, 0): [4, 5, 2]})
    admin.close()
    until(lambda: client.partition(4, topic).isr == {2, 4, 5}, 60, "broker 5 is not in sync")
