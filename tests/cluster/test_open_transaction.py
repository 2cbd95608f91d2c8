"""A transaction that nobody ends, on real brokers: what stands still, and what the twin says."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import LATEST, LATEST_TIERED, BrokerClient
from tests.cluster.topics import TIERED, produce
from tests.cluster.watching import Watch, keys
from tests.waiting import until
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Leaders
from twin.rules.reading.open_transactions import (
    OpenTransactions,
    TransactionHolders,
    open_transaction_field,
)
from twin.tables.state import Partitions

pytestmark = pytest.mark.cluster

TOPIC = "open-transaction"
COMMITTED, OPEN, LATER = 100, 10, 200
"""Records before the transaction, in it, and after it began; a segment holds 16."""

UPLOADS_S = 4
"""Uploads begin each half second; in this time they would have gone on."""


def transactions(state: ShardState) -> list[dict[str, int]]:
    table, row = state[OpenTransactions], keys(state).index((TOPIC, 0))
    here = table.pick(table.row == row)
    return [{c.name: int(getattr(here, c.name)[i]) for c in here.columns} for i in range(len(here))]


def open_transaction(state: ShardState) -> dict[str, Any]:
    """The field of the API."""
    tables = (state[t] for t in (OpenTransactions, TransactionHolders, Partitions))
    field = open_transaction_field(*tables)[keys(state).index((TOPIC, 0))]
    assert field is not None
    return field


def stable_offset(state: ShardState) -> int:
    return int(state[Leaders].last_stable_offset[keys(state).index((TOPIC, 0))])


def read_committed_end(cluster: LocalCluster) -> int:
    """The end of Kafka's own answer to a consumer with read_committed."""
    place = TopicPartition(TOPIC, 0)
    with closing(
        KafkaConsumer(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed")
    ) as consumer:
        return int(consumer.end_offsets([place])[place])


def test_an_open_transaction_holds_back_uploads_and_consumers(
    cluster: LocalCluster, watch: Watch
) -> None:
    client = BrokerClient(cluster)
    client.create(TOPIC, [[1, 2, 3]], TIERED)
    produce(cluster, TOPIC, COMMITTED)
    with closing(
        KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="open", acks="all")
    ) as producer:
        producer.init_transactions()
        began_ms = int(time.time() * 1_000)
        producer.begin_transaction()
        for _ in range(OPEN):
            producer.send(TOPIC, b"x" * 1_000, partition=0)
        producer.flush()
        produce(cluster, TOPIC, LATER)
        until(lambda: client.offset(1, TOPIC, 0, LATEST_TIERED) > 0, 30, "nothing is uploaded")
        time.sleep(UPLOADS_S)

        [first] = transactions(watch.look())
        assert first["stable_offset"] == COMMITTED == read_committed_end(cluster)
        assert first["records_held"] == OPEN + LATER
        assert first["held_ms"] == 0, "one sample proves nothing"
        [second] = transactions(watch.look())
        assert second["since_ms"] == first["since_ms"]
        assert second["held_ms"] > 0
        watch.look()
        holder = open_transaction(watch.state)
        assert holder["transactional_id"] == "open"
        assert holder["producer_id"] >= 0
        assert began_ms <= holder["began_at_ms"] <= first["since_ms"]
        assert watch.problems == ()
        tiered = client.offset(1, TOPIC, 0, LATEST_TIERED)
        assert tiered < COMMITTED, "a segment beyond the last stable offset is uploaded"
        assert client.offset(1, TOPIC, 0, LATEST) == COMMITTED + OPEN + LATER

        producer.commit_transaction()

        def is_stable() -> bool:
            """The marker of the commit is written, too, which comes after the producer's answer."""
            stable = stable_offset(watch.look())
            return stable == client.offset(1, TOPIC, 0, LATEST) == read_committed_end(cluster)

        until(is_stable, 20, "the last stable offset stays")
        assert transactions(watch.state) == []
        until(
            lambda: client.offset(1, TOPIC, 0, LATEST_TIERED) > COMMITTED,
            30,
            "uploads do not go on",
        )
