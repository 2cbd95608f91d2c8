"""Empty followers of real brokers against what the twin says they will do (KIP-1023)."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaAdminClient, TopicPartition

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import (
    BROKER_RESOURCE,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    TOPIC_RESOURCE,
    BrokerClient,
)
from tests.cluster.topics import TIERED, produce
from tests.cluster.watching import Watch, keys
from tests.reading import open_risks
from tests.waiting import until
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.replication.catching_up import CatchingUp, StuckReason
from twin.rules.tiering.bootstrap import BootstrapOff, BootstrapOn, BootstrapPath
from twin.tables.state import Configs

pytestmark = pytest.mark.cluster

RECORDS = 400
FEATURE = "follower_fetch_last_tiered_offset_enable"
STILL_LOOKS = 6
"""Uploads of a busy machine pause: offsets have ended if they are the same for two seconds."""


def row_of(state: ShardState, topic: str) -> int:
    return keys(state).index((topic, 0))


def settled(client: BrokerClient, topic: str, what: str) -> dict[int, int]:
    """The leader's offsets once its local start has moved and its uploads have ended."""
    looks: list[dict[int, int]] = []

    def quiet() -> bool:
        looks.append(client.offsets_by_kind(1, topic, 0))
        last = looks[-1]
        end, local, tiered = last[LATEST], last[EARLIEST_LOCAL], last[LATEST_TIERED]
        moved = local == end if what == "all tiered" else 0 < local < tiered
        return (
            moved and len(looks) >= STILL_LOOKS and looks[-STILL_LOOKS:].count(last) == STILL_LOOKS
        )

    until(quiet, 60, pause_s=0.4)
    return looks[-1]


def in_sync(client: BrokerClient, topic: str) -> bool:
    state = client.partition(1, topic)
    return set(state.replicas) == {1, 3} == state.isr


@pytest.mark.parametrize(
    ("feature", "path"),
    [("true", BootstrapPath.FROM_PENDING_UPLOAD), ("false", BootstrapPath.FROM_LOCAL_START)],
)
def test_a_joining_replica_starts_where_the_twin_says(
    cluster: LocalCluster, client: BrokerClient, watch: Watch, feature: str, path: BootstrapPath
) -> None:
    topic = f"join-{feature}"
    client.configure(BROKER_RESOURCE, "", **{FEATURE: feature})
    try:
        client.create(topic, [[1, 2]], TIERED | {"local.retention.bytes": "60000"})
        produce(cluster, topic, RECORDS)
        settled(client, topic, "partly tiered")
        state = watch.look()
        row = row_of(state, topic)
        predicted = state[BootstrapOn if feature == "true" else BootstrapOff]
        assert predicted.path[row] == path
        assert state[Configs].cluster_wide("last_tiered_fetch") == (feature == "true")

        client.reassign(topic, 0, [3, 1])
        until(lambda: in_sync(client, topic), 30, "it is not in sync")
        assert client.offset(3, topic, 0, EARLIEST_LOCAL) == predicted.start_offset[row]
    finally:
        client.configure(BROKER_RESOURCE, "", **{FEATURE: "true"})


def test_a_stuck_idle_partition_is_predicted_then_flagged_and_freed_by_one_record(
    cluster: LocalCluster, client: BrokerClient, watch: Watch
) -> None:
    topic = "join-idle"
    client.create(topic, [[1, 2]], TIERED | {"local.retention.ms": "2000"})
    produce(cluster, topic, RECORDS)
    settled(client, topic, "all tiered")
    state = watch.look()
    row = row_of(state, topic)
    assert state[BootstrapOn].path[row] == BootstrapPath.STUCK_IDLE
    assert "bootstrap_stuck" not in open_risks(state, row)

    client.reassign(topic, 0, [3, 1])
    for _ in range(3):
        time.sleep(1)
        state = watch.look()
    assert reasons(state, topic) == [StuckReason.STUCK_IDLE]
    assert "bootstrap_stuck" in open_risks(state, row)
    assert not in_sync(client, topic)

    produce(cluster, topic, 1)
    until(lambda: in_sync(client, topic), 30, "it is not in sync")
    assert "bootstrap_stuck" not in open_risks(watch.look(), row)


def test_a_log_start_above_the_tier_keeps_every_newcomer_out(
    cluster: LocalCluster, client: BrokerClient, watch: Watch
) -> None:
    """KIP-1023 says to truncate and copy what the leader has; Kafka 4.3.1 fails each second."""
    topic = "join-below"
    large = {"remote.storage.enable": "true", "internal.segment.bytes": "10000000"}
    client.create(topic, [[1, 2]], large)
    produce(cluster, topic, 200)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 50})
    state = watch.look()
    row = row_of(state, topic)
    assert state[BootstrapOn].path[row] == BootstrapPath.NOTHING_TIERED_YET
    assert state[BootstrapOff].start_offset[row] == 50

    client.reassign(topic, 0, [3, 1])
    for _ in range(3):
        time.sleep(1.5)  # longer than a fetcher backs off
        state = watch.look()
    assert reasons(state, topic) == [StuckReason.NOTHING_TIERED_YET]
    assert client.offset(3, topic, 0, LATEST) == 0

    # Nobody uploads any more, so there is no upload to wait for.
    client.configure(TOPIC_RESOURCE, topic, **{"remote.log.copy.disable": "true"})
    waits = [StuckReason.COPIES_DISABLED]
    until(lambda: reasons(watch.look(), topic) == waits, 30, "the setting is not read")
    assert "bootstrap_stuck" in open_risks(watch.look(), row)
    assert client.offset(3, topic, 0, LATEST) == 0

    client.configure(BROKER_RESOURCE, "", **{FEATURE: "false"})
    try:
        until(lambda: in_sync(client, topic), 30, "it is not in sync")
        assert client.offset(3, topic, 0, EARLIEST_LOCAL) == 50
    finally:
        client.configure(BROKER_RESOURCE, "", **{FEATURE: "true"})


def reasons(state: ShardState, topic: str) -> list[int]:
    """Why replicas of the partition do not move."""
    rows = state[CatchingUp]
    here = rows.row == row_of(state, topic)
    return [reason for reason in rows.stuck[here].tolist() if reason != UNKNOWN]
