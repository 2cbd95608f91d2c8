"""Forecasts about groups of consumers, compared with what then happens to them.

The leader of two partitions is killed once, by a fixture, which records what was predicted and what
a consumer then read from remote storage, by the broker's own count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from streaming.lab.local_cluster import LocalCluster
from streaming.query.remote_log.records import SegmentEvent
from streaming.runtime.deadline import Deadline
from tests.cluster.broker_client import EARLIEST_LOCAL, BrokerClient, await_in_sync
from tests.cluster.groups import commit, watching_groups
from tests.cluster.remote_log import remote_segments, size_of
from tests.cluster.topics import TIERED, make_cold_successor, produce
from tests.cluster.watching import Watch, keys
from tests.waiting import until
from tests.web import get
from twin.engine.shard_state import ShardState
from twin.rules.groups.group_forecasts import GroupForecasts
from twin.rules.groups.loss import GroupsIfLeaderLost
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.partitions.leaders import Leaders
from twin.tables.state import GroupOffsets

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.losses]

COLD, WARM, SLOW = "forecast-cold", "forecast-warm", "forecast-slow"
SEGMENT_BYTES: Final = 51_200
RECORD_BYTES: Final = 1_000
LEADER: Final = 4
UPLOADED: Final = 200
"""Records in remote storage that a group has not read."""

BEYOND: Final = 1 << 62


@dataclass(frozen=True)
class Replay:
    """A group whose leader was lost."""

    reads_from: int  # before the loss
    records: int  # that it would read remotely, as predicted
    bytes: float
    fetched_bytes: float  # from remote storage, as the new leader counted
    missing_records: int  # on the new leader's disk, that remote segments have
    missing_bytes: float
    uploaded_records: int  # in remote segments, of all that it had not read


@pytest.fixture(scope="module")
def replays(five_brokers: LocalCluster) -> Mapping[str, Replay]:
    """Groups in the middle of two partitions: one gets a cold leader, the other a warm one."""
    client = BrokerClient(five_brokers)
    await_in_sync(five_brokers)
    make_cold_successor(five_brokers, COLD)
    client.create(WARM, [[LEADER, 2]], TIERED | {"local.retention.bytes": "600000"})
    produce(five_brokers, WARM, 400)  # 4 and 2 have all of it on their disks
    middle = {
        topic: client.offset(LEADER, topic, 0, EARLIEST_LOCAL) + 100 for topic in (COLD, WARM)
    }
    for topic, offset in middle.items():
        commit(five_brokers.bootstrap, f"{topic}-group", {(topic, 0): offset})
    segments = {topic: uploaded(five_brokers, topic, middle[topic]) for topic in (COLD, WARM)}
    with watching_groups(five_brokers.bootstrap) as watch:
        state = watch.look_at_groups()
    five_brokers.kill(LEADER)
    try:
        successors = {COLD: 5, WARM: 2}
        for topic, broker in successors.items():
            until(lambda t=topic, b=broker: client.partition(2, t).leader == b, 60, topic)
        return {
            topic: Replay(
                int(state[GroupReads].reads_from[row]),
                int(state[GroupsIfLeaderLost].remote_records[row]),
                float(state[GroupsIfLeaderLost].remote_bytes[row]),
                replayed_bytes(five_brokers, broker, topic, middle[topic]),
                *size_of(
                    segments[topic],
                    middle[topic],
                    client.offset(broker, topic, 0, EARLIEST_LOCAL),
                ),
                size_of(segments[topic], middle[topic], BEYOND)[0],
            )
            for topic, broker in successors.items()
            for row in [row_of(state, topic)]
        }
    finally:
        five_brokers.start()
        await_in_sync(five_brokers)


def uploaded(cluster: LocalCluster, topic: str, offset: int) -> list[SegmentEvent]:
    """The remote segments, once they have enough records from that offset on."""

    def segments() -> list[SegmentEvent] | None:
        segments = remote_segments(cluster.bootstrap, topic)
        return segments if segments and segments[-1].end_offset >= offset + UPLOADED else None

    return until(segments, 30, f"{topic} is not in remote storage", pause_s=0.5)


def row_of(state: ShardState, topic: str) -> int:
    """The row of the only group in that topic."""
    partition = keys(state).index((topic, 0))
    (row,) = np.flatnonzero(state[GroupOffsets].row == partition).tolist()
    return int(row)


def replayed_bytes(cluster: LocalCluster, broker: int, topic: str, offset: int) -> float:
    """Read from there to the end; what the broker fetched from remote storage for that."""
    before = fetched_bytes(cluster, broker, topic)
    place = TopicPartition(topic, 0)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=None) as consumer:
        consumer.assign([place])
        consumer.seek(place, offset)
        end = consumer.end_offsets([place])[place]
        deadline = Deadline.after_s(60)
        while consumer.position(place) < end:
            assert not deadline.is_over, f"{topic} was read up to {consumer.position(place)}"
            consumer.poll(timeout_ms=500)
    return fetched_bytes(cluster, broker, topic) - before


def fetched_bytes(cluster: LocalCluster, broker: int, topic: str) -> float:
    """The broker's own count of the bytes of a topic that it read from remote storage."""
    status, page = get(cluster.layout.metrics_urls[broker], timeout_s=20)
    assert status == 200
    return sum(  # the series appears with the first read
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "kafka_topic_remote_fetch_bytes_total" and sample.labels["topic"] == topic
    )


def test_a_group_reads_remotely_what_a_cold_successor_lacks(replays: Mapping[str, Replay]) -> None:
    replay = replays[COLD]
    assert replay.reads_from == ReadsFrom.DISK
    assert replay.records > 300
    assert abs(replay.fetched_bytes - replay.bytes) <= SEGMENT_BYTES


def test_the_remote_segments_have_what_the_twin_foretells(replays: Mapping[str, Replay]) -> None:
    """Those that the brokers noted before the loss, up to the new leader's local log."""
    cold, warm = replays[COLD], replays[WARM]
    assert abs(cold.missing_bytes - cold.bytes) <= SEGMENT_BYTES
    assert abs(cold.missing_records - cold.records) <= SEGMENT_BYTES / RECORD_BYTES
    assert (warm.missing_records, warm.missing_bytes) == (0, 0.0)
    assert warm.uploaded_records >= UPLOADED  # it could have read them remotely


def test_a_group_of_a_warm_successor_reads_nothing_remotely(replays: Mapping[str, Replay]) -> None:
    replay = replays[WARM]
    assert replay.reads_from == ReadsFrom.DISK
    assert (replay.records, replay.bytes, replay.fetched_bytes) == (0, 0.0, 0.0)


# ---------------------------------------------------------------- how long

INTERVAL_S: Final = 2.0
RECORDS_PER_S: Final = 50
SLOW_PER_S: Final = 5
LOCAL_S, KEPT_S = 20, 45


def test_a_slow_group_falls_off_the_local_log_and_loses_records_when_the_twin_says(
    five_brokers: LocalCluster,
) -> None:
    await_in_sync(five_brokers)
    configs = TIERED | {"local.retention.ms": f"{LOCAL_S}000", "retention.ms": f"{KEPT_S}000"}
    BrokerClient(five_brokers).create(SLOW, [[1, 2]], configs)
    with writing(five_brokers), watching_groups(five_brokers.bootstrap) as watch:
        time.sleep(LOCAL_S + 10)  # until old segments are deleted from disk
        looks = follow(five_brokers, watch)
    assert_comes_true([(at, remote, source != ReadsFrom.DISK) for at, remote, _, source in looks])
    assert_comes_true([(at, loss, source == ReadsFrom.NOWHERE) for at, _, loss, source in looks])


def assert_comes_true(looks: list[tuple[float, float, bool]]) -> None:
    """Once the rate is settled, each forecast names the moment at which it came true."""
    happened_s = next(at for at, _, has_happened in looks if has_happened)
    foretold = [at + left for at, left, has_happened in looks[4:] if not has_happened]
    assert len(foretold) >= 3
    errors = [happened_s - moment for moment in foretold]
    assert max(map(abs, errors)) <= 2 * INTERVAL_S, errors


def follow(cluster: LocalCluster, watch: Watch) -> list[tuple[float, float, float, int]]:
    """Look until records are lost: when, seconds until remote and until loss, and the source."""
    began, committed, looks = time.monotonic(), 0.0, []
    deadline = Deadline.after_s(KEPT_S + 60)
    while not looks or looks[-1][3] != ReadsFrom.NOWHERE:
        assert not deadline.is_over, looks
        passed_s = time.monotonic() - began
        if not committed:
            first = watch.look()
            committed = float(first_end(first)) - 3 * RECORDS_PER_S
        offset = int(committed + SLOW_PER_S * passed_s)
        commit(cluster.bootstrap, "slow", {(SLOW, 0): offset})
        state = watch.look_at_groups()
        row, forecasts = row_of(state, SLOW), state[GroupForecasts]
        looks.append(
            (
                time.monotonic() - began,
                float(forecasts.until_remote_s[row]),
                float(forecasts.until_loss_s[row]),
                int(state[GroupReads].reads_from[row]),
            )
        )
        time.sleep(max(INTERVAL_S - (time.monotonic() - began - passed_s), 0))
    return looks


def first_end(state: ShardState) -> int:
    """The log end of the slow group's partition."""
    return int(state[Leaders].log_end_offset[keys(state).index((SLOW, 0))])


@contextmanager
def writing(cluster: LocalCluster) -> Iterator[None]:
    """Records of a kilobyte are written all the time, at an even pace."""
    stop = threading.Event()

    def write() -> None:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks=1, linger_ms=5) as producer:
            began, sent = time.monotonic(), 0
            while not stop.wait(0.05):
                due = int((time.monotonic() - began) * RECORDS_PER_S)
                for _ in range(due - sent):
                    producer.send(SLOW, bytes(1_000), partition=0)
                sent = due

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
