"""Every number of the twin is the one that the broker it is about gives when asked directly."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from streaming.collector.wire.connections import BrokerConnections
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime import config
from tests.cluster.broker_client import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    BrokerClient,
    Key,
    await_agreement,
    await_in_sync,
)
from tests.cluster.watching import Watch, assert_agrees, is_present, keys
from tests.waiting import until
from twin.engine.shard_state import ShardState
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.replication.caught_up import Lag
from twin.tables.enums import PendingUpload
from twin.tables.state import (
    Assignment,
    Brokers,
    Configs,
    PartitionIndex,
    Partitions,
    Replicas,
    Topics,
)

pytestmark = pytest.mark.cluster

KINDS: Final = {
    "log_end_offset": LATEST,
    "log_start_offset": EARLIEST,
    "local_log_start_offset": EARLIEST_LOCAL,
    "last_tiered_offset": LATEST_TIERED,
    "pending_upload_offset": EARLIEST_PENDING_UPLOAD,
}
RECORDS: Final = 60
RECORD_BYTES: Final = 1_000
DELETED: Final = 7
"""Records deleted from the front of partition 0 of each topic with this done to it."""

TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "local.retention.bytes": "20000",
    "min.insync.replicas": "2",
}
TOPICS: Final = {
    "numbers-tiered": {"num_partitions": 3, "replication_factor": 3, "configs": TIERED},
    "numbers-plain": {
        "assignments": {0: [3, 1], 1: [2, 3], 2: [1, 2]},
        "configs": {"min.insync.replicas": "1", "internal.segment.bytes": "16384"},
    },
    "numbers-idle": {
        "num_partitions": 1,
        "replication_factor": 2,
        # Closes the active segment as well: nothing is left on disk.
        "configs": TIERED | {"local.retention.bytes": "-2", "local.retention.ms": "2000"},
    },
    "numbers-compacted": {
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": {"cleanup.policy": "compact", "unclean.leader.election.enable": "true"},
    },
}

Numbers = dict[tuple[str, int, int], tuple[int, ...]]  # by topic, partition and broker


@pytest.fixture(scope="module")
def first_ms(cluster: LocalCluster) -> int:
    """Quiet topics; the timestamp of each partition's first record, the next is 1 ms later."""
    first_ms = time.time_ns() // 1_000_000 - 3_600_000
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics(TOPICS, timeout_ms=20_000, wait_for_metadata=True)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    # The admin client waits for one broker; a busy one may know of the topics later.
    placed = [key for key in await_agreement(cluster) if key[0] in TOPICS]
    for topic, number in placed:
        # The idle topic goes by age: its records have to be young.
        start = first_ms if topic != "numbers-idle" else time.time_ns() // 1_000_000
        for n in range(RECORDS + number):
            producer.send(
                topic, bytes(RECORD_BYTES), b"key", partition=number, timestamp_ms=start + n
            )
    producer.close(timeout=30)
    admin.delete_records(
        {TopicPartition(t, 0): DELETED for t in ("numbers-tiered", "numbers-plain")}
    )
    admin.close()
    return first_ms


@pytest.fixture(scope="module")
def quiet(cluster: LocalCluster, first_ms: int) -> Numbers:
    """Every broker's answers about its replicas once all is tiered and nothing changes any more."""
    until(lambda: is_tiered(cluster), 60, "the topics are not in remote storage")
    previous: Numbers = {}

    def stays() -> bool:
        nonlocal previous
        now, before = asked(cluster), previous
        previous = now
        time.sleep(0.5)
        return now == before

    until(lambda: all(stays() for _ in range(5)), 60, "the numbers do not stay")
    return previous


def asked(cluster: LocalCluster) -> Numbers:
    """Offsets of every kind and the size of every replica, by its own broker."""
    client = BrokerClient(cluster)
    states = client.partitions(1, list(TOPICS))
    numbers: Numbers = {}
    for broker in cluster.layout.ids:
        mine: dict[str, list[int]] = {}
        for topic, number in (key for key, state in states.items() if broker in state.replicas):
            mine.setdefault(topic, []).append(number)
        offsets = [client.offsets(broker, mine, kind) for kind in KINDS.values()]
        size = client.log_dirs(broker).size_bytes
        for key in offsets[0]:
            numbers[(*key, broker)] = (*(offset[key] for offset in offsets), size[key])
    return numbers


def is_tiered(cluster: LocalCluster) -> bool:
    numbers = asked(cluster)
    return all(
        local > 0 and tiered > 0 and (pending > 0 or local == end)
        for (topic, *_), (end, _, local, tiered, pending, _) in numbers.items()
        if topic in ("numbers-tiered", "numbers-idle")
    )


def kept(state: ShardState) -> Numbers:
    """The same numbers as the twin has them."""
    columns = [getattr(state[Replicas], name) for name in (*KINDS, "local_log_bytes")]
    numbers: Numbers = {}
    for row, key in enumerate(keys(state)):
        for slot in range(int(state[Partitions].assigned[row])) if key[0] in TOPICS else ():
            broker = int(state[Assignment].broker[row, slot])
            numbers[(*key, broker)] = tuple(int(column[row, slot]) for column in columns)
    return numbers


def test_every_offset_and_size_is_what_its_broker_says(
    cluster: LocalCluster, quiet: Numbers, watch: Watch
) -> None:
    state = watch.look()
    assert asked(cluster) == quiet, "the topics are not quiet"
    assert kept(state) == quiet
    ours = np.isin(state.topic_names(), list(TOPICS))[:, None] & is_present(state)
    assert (state[Replicas].error_code[ours] == 0).all()
    assert (state[Replicas].sampled_at_ms[ours] == state.observed_at_ms).all()
    assert (state[Lag].lag_records[ours] == 0).all()
    # And they are no trivial numbers: parts are deleted, tiered, gone from disk.
    assert quiet["numbers-tiered", 0, 1][1] == DELETED
    assert all(n[2] > n[1] for (topic, *_), n in quiet.items() if topic == "numbers-tiered")


def test_pending_uploads_are_distinguished_by_why_there_are_none(
    quiet: Numbers, watch: Watch
) -> None:
    state = watch.look()
    why = {
        "numbers-tiered": PendingUpload.KNOWN,
        "numbers-idle": PendingUpload.ALL_TIERED,
        "numbers-plain": PendingUpload.NOTHING_TIERED,
        "numbers-compacted": PendingUpload.NOTHING_TIERED,
    }
    pending, present = state[Replicas].pending_upload, is_present(state)
    for row, (topic, _) in enumerate(keys(state)):
        if topic in why:
            assert set(pending[row][present[row]]) == {why[topic]}, topic


def test_the_first_timestamp_on_disk_is_that_of_the_record_at_the_local_start(
    first_ms: int, quiet: Numbers, watch: Watch
) -> None:
    state = watch.look()
    replicas = state[Replicas]
    for row, (topic, _) in enumerate(keys(state)):
        if topic not in TOPICS:
            continue
        for slot in range(int(state[Partitions].assigned[row])):
            start = int(replicas.local_log_start_offset[row, slot])
            timestamp_ms = int(replicas.local_start_timestamp_ms[row, slot])
            if topic == "numbers-idle":
                assert timestamp_ms == -1  # no record is left on disk
            else:
                # A log that begins inside a batch is read from the start of that batch.
                inside = DELETED if start == DELETED else 0
                assert first_ms + start - inside <= timestamp_ms <= first_ms + start, (topic, slot)


def test_leaders_and_in_sync_replicas_are_those_of_describe_topic_partitions(
    cluster: LocalCluster, quiet: Numbers, watch: Watch
) -> None:
    assert_agrees(watch.look(), await_in_sync(cluster))
    state = watch.look()
    topic_id: dict[Key, bytes] = dict(
        zip(
            keys(state),
            state[Topics].topic_id[state[PartitionIndex].topic_index],
            strict=True,
        )
    )
    states = BrokerClient(cluster).partitions(2, list(TOPICS))
    assert {key: topic_id[key] for key in states} == {k: s.topic_id for k, s in states.items()}


def test_brokers_and_configs_are_what_the_cluster_was_given(
    cluster: LocalCluster, quiet: Numbers, watch: Watch
) -> None:
    state = watch.look()
    brokers = state[Brokers]
    assert brokers.broker.tolist() == [1, 2, 3]
    assert brokers.rack.tolist() == [node.rack for node in cluster.status()]
    assert brokers.host.tolist() == [f"127.0.0.1:{node.port}" for node in cluster.status()]
    assert brokers.fenced.tolist() == [0, 0, 0]
    assert brokers.answered.all()
    for broker, total, usable in zip(
        brokers.broker, brokers.log_dir_total_bytes, brokers.log_dir_usable_bytes, strict=True
    ):
        log_dirs = BrokerClient(cluster).log_dirs(int(broker))
        assert total == log_dirs.total_bytes
        assert usable == pytest.approx(log_dirs.usable_bytes, rel=0.05)  # others write as well

    def settings(topic: str) -> list[int]:
        row = keys(state).index((topic, 0))
        names = (
            "min_insync_replicas", "unclean_leader_election", "remote_storage", "compacted",
            "local_retention_bytes",
        )  # fmt: skip
        return [int(getattr(state[TopicConfigs], name)[row]) for name in names]

    assert settings("numbers-tiered") == [2, 0, 1, 0, 20_000]
    assert settings("numbers-plain")[:4] == [1, 0, 0, 0]
    assert settings("numbers-compacted")[:4] == [1, 1, 0, 1]
    configs = state[Configs]
    assert configs.cluster_wide("elr_enabled") == 1
    assert configs.cluster_wide("last_tiered_fetch") == 1
    assert configs.cluster_wide("replica_lag_time_max_ms") == 30_000


def test_a_cluster_without_topics_still_has_brokers(cluster: LocalCluster) -> None:
    nothing = config.Config(
        cluster=config.ClusterConfig(name="real", bootstrap=cluster.bootstrap),
        bus=config.BusConfig(shards=1),
        collector=config.CollectorConfig(exclude_topics=".*"),
    )
    with BrokerConnections(cluster.bootstrap, {}, nothing.collector.deadline_ms) as brokers:
        state = Watch(nothing, brokers).look()
    assert state.partitions == 0
    assert state[Brokers].answered.tolist() == [True] * 3
    assert state.listing.whole_at_ms == state.observed_at_ms
