"""Topics with records, for tests on real brokers."""

from __future__ import annotations

from typing import Final

import numpy as np
from kafka import KafkaProducer

from streaming.lab.cluster import LocalCluster

TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "file.delete.delay.ms": "100",
}
"""Configs of a topic whose segments are small, and go to remote storage."""


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
