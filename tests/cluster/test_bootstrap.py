"""Empty followers of real brokers against what the twin says they will do (KIP-1023)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, TopicPartition

from streaming.lab.cluster import LocalCluster
from tests.cluster.direct import TIERED, Direct, eventually, produce
from tests.cluster.watching import Watch, keys, watching
from twin.fleet import Fleet
from twin.rules.bootstrap import bootstrap
from twin.rules.joining import active
from twin.rules.risks import Risk
from twin.tables import UNKNOWN, JoinPath, StuckReason

pytestmark = pytest.mark.cluster

RECORDS = 400
FEATURE = "follower_fetch_last_tiered_offset_enable"


@pytest.fixture(scope="module")
def direct(cluster: LocalCluster) -> Direct:
    return Direct(cluster)


@pytest.fixture
def watch(cluster: LocalCluster) -> Iterator[Watch]:
    with watching(cluster.bootstrap) as twin:
        yield twin


def row_of(fleet: Fleet, topic: str) -> int:
    return keys(fleet).index((topic, 0))


def settled(direct: Direct, topic: str, what: str) -> dict[int, int]:
    """The leader's offsets once its local start has moved and its uploads have ended."""
    told: list[dict[int, int]] = [{}, {}]

    def quiet() -> bool:
        told.append(direct.offsets(1, topic, 0))
        end, local, tiered = told[-1][-1], told[-1][-4], told[-1][-5]
        moved = local == end if what == "all tiered" else 0 < local < tiered
        return moved and told[-1] == told[-2] == told[-3]

    eventually(quiet, 60, 0.4)
    return told[-1]


def in_sync(direct: Direct, topic: str) -> bool:
    part = direct.partitions(1, [topic])[topic, 0][1]
    return set(part.replica_nodes) == {1, 3} == set(part.isr_nodes)


@pytest.mark.parametrize(
    ("feature", "path"),
    [("true", JoinPath.FROM_PENDING_UPLOAD), ("false", JoinPath.FROM_LOCAL_START)],
)
def test_a_joining_replica_starts_where_the_twin_says(
    cluster: LocalCluster, direct: Direct, watch: Watch, feature: str, path: JoinPath
) -> None:
    topic = f"join-{feature}"
    direct.configure(4, "", **{FEATURE: feature})
    try:
        direct.create(topic, [[1, 2]], TIERED | {"local.retention.bytes": "60000"})
        produce(cluster, topic, RECORDS)
        settled(direct, topic, "partly tiered")
        fleet = watch.look()
        row = row_of(fleet, topic)
        predicted = bootstrap(fleet, feature == "true")
        assert predicted.path[row] == path
        assert fleet.setting("last_tiered_fetch") == (feature == "true")

        direct.reassign(topic, 0, [3, 1])
        eventually(lambda: in_sync(direct, topic))
        assert direct.offsets(3, topic, 0)[-4] == predicted.start_offset[row]
    finally:
        direct.configure(4, "", **{FEATURE: "true"})


def test_a_stuck_idle_partition_is_told_before_flagged_and_freed_by_one_record(
    cluster: LocalCluster, direct: Direct, watch: Watch
) -> None:
    topic = "join-idle"
    direct.create(topic, [[1, 2]], TIERED | {"local.retention.ms": "2000"})
    produce(cluster, topic, RECORDS)
    settled(direct, topic, "all tiered")
    fleet = watch.look()
    row = row_of(fleet, topic)
    assert bootstrap(fleet, True).path[row] == JoinPath.STUCK_IDLE
    assert not fleet.risks[row] & Risk.BOOTSTRAP_STUCK

    direct.reassign(topic, 0, [3, 1])
    for _ in range(3):
        time.sleep(1)
        fleet = watch.look()
    assert reasons(fleet, topic) == [StuckReason.STUCK_IDLE]
    assert fleet.risks[row] & Risk.BOOTSTRAP_STUCK
    assert not in_sync(direct, topic)

    produce(cluster, topic, 1)
    eventually(lambda: in_sync(direct, topic))
    assert not watch.look().risks[row] & Risk.BOOTSTRAP_STUCK


def test_a_log_start_above_the_tier_keeps_every_newcomer_out(
    cluster: LocalCluster, direct: Direct, watch: Watch
) -> None:
    """KIP-1023 says to truncate and copy what the leader has; Kafka 4.3.1 fails each second."""
    topic = "join-below"
    large = {"remote.storage.enable": "true", "internal.segment.bytes": "10000000"}
    direct.create(topic, [[1, 2]], large)
    produce(cluster, topic, 200)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 50})
    fleet = watch.look()
    row = row_of(fleet, topic)
    assert bootstrap(fleet, True).path[row] == JoinPath.NOTHING_TIERED_YET
    assert bootstrap(fleet, False).start_offset[row] == 50

    direct.reassign(topic, 0, [3, 1])
    for _ in range(3):
        time.sleep(1.5)  # longer than a fetcher backs off
        fleet = watch.look()
    assert reasons(fleet, topic) == [StuckReason.NOTHING_TIERED_YET]
    assert direct.offsets(3, topic, 0)[-1] == 0

    direct.configure(4, "", **{FEATURE: "false"})
    try:
        eventually(lambda: in_sync(direct, topic))
        assert direct.offsets(3, topic, 0)[-4] == 50
    finally:
        direct.configure(4, "", **{FEATURE: "true"})


def reasons(fleet: Fleet, topic: str) -> list[int]:
    """Why replicas of the partition do not move."""
    table = active(fleet)
    here = table.row == row_of(fleet, topic)
    return [reason for reason in table.stuck[here].tolist() if reason != UNKNOWN]
