"""Reports of operators, reproduced on real brokers: what the twin says against what Kafka does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.cluster.broker_client import (
    BROKER_RESOURCE,
    EARLIEST,
    LATEST,
    LATEST_TIERED,
    TOPIC_RESOURCE,
    BrokerClient,
)
from tests.cluster.topics import TIERED, produce
from tests.cluster.watching import keys, watching
from tests.logins.far import far_away
from tests.reading import conditions
from tests.waiting import until
from twin.declarations.table import UNKNOWN
from twin.engine.changes import changes
from twin.engine.shard_state import ShardState
from twin.questions.min_isr import cleared_elrs, with_min_isr
from twin.rules.reading.open_transactions import OpenTransactions
from twin.rules.reading.out_of_range import OutOfRangeWindows
from twin.rules.replication.caught_up import InSync, Lag
from twin.rules.replication.high_watermark import HighWatermarks, HighWatermarkSource
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.upload import UploadLag
from twin.tables.state import Replicas

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

ALL, ONE = 100, 50
"""Records that are written with acks=all, and with acks=1 once the ISR is below its minimum."""


LATE = {"isr_shrink_near", "slow_leader", "out_of_range_window", "transaction_open", "isr_thrash"}
"""Risks of partitions of which a replica is late, or whose records wait for one."""

MIB = 1 << 20


def row_of(state: ShardState, topic: str) -> int:
    return keys(state).index((topic, 0))


def watermark(state: ShardState, topic: str) -> int:
    """The twin's high watermark, which is the leader's own."""
    table, row = state[HighWatermarks], row_of(state, topic)
    assert table.high_watermark_source[row] == HighWatermarkSource.LEADER
    return int(table.high_watermark[row])


def kafkas_watermark(consumer: KafkaConsumer, topic: str) -> int:
    """The end that Kafka tells a consumer."""
    place = TopicPartition(topic, 0)
    return int(consumer.end_offsets([place])[place])


def write(producer: KafkaProducer, topic: str, count: int) -> None:
    for future in [producer.send(topic, b"x" * 100, partition=0) for _ in range(count)]:
        future.get(30)


def test_the_high_watermark_stands_below_min_isr_and_no_transaction_is_open(
    whole: LocalCluster,
) -> None:
    """KAFKA-15583; and while a frozen follower is in the ISR, it holds the high watermark."""
    client, topic = BrokerClient(whole), "stands-still"
    client.create(topic, [[1, 2]], {"min.insync.replicas": "2"})
    with (
        watching(whole.bootstrap) as watch,
        closing(KafkaConsumer(bootstrap_servers=whole.bootstrap)) as consumer,
        closing(
            KafkaProducer(bootstrap_servers=whole.bootstrap, acks=1, enable_idempotence=False)
        ) as producer,
    ):
        write(producer, topic, ALL)
        until(lambda: kafkas_watermark(consumer, topic) == ALL, 20, "it is not replicated")
        assert watermark(watch.look(), topic) == ALL
        whole.pause(2)
        write(producer, topic, ONE)
        state = watch.look()
        assert watermark(state, topic) == kafkas_watermark(consumer, topic) == ALL
        assert state[Lag].lag_records[row_of(state, topic)].tolist()[:2] == [0, ONE]
        until(lambda: client.partition(1, topic).isr == {1}, 60, "the ISR does not shrink")
        write(producer, topic, ONE)
        for _ in range(3):
            state = watch.look()
            assert watermark(state, topic) == kafkas_watermark(consumer, topic) == ALL
            table = state[OpenTransactions]
            assert row_of(state, topic) not in table.row.tolist()
        assert client.offset(1, topic, 0, LATEST) == ALL + 2 * ONE
        whole.resume(2)

        def is_whole() -> bool:
            state = watch.look()
            sync = state[InSync].in_sync[row_of(state, topic)].tolist()[:2]
            return sync == [1, 1] and watermark(state, topic) == ALL + 2 * ONE

        until(is_whole, 60, "the high watermark does not move")


def test_a_follower_that_only_the_twin_does_not_reach_is_not_called_late(
    whole: LocalCluster,
) -> None:
    """It fetches and stays in the ISR, so it holds up nobody, whatever its last answer was."""
    client, topic, tunnel = BrokerClient(whole), "out-of-sight", free_base_port(span=1)
    client.create(topic, [[1, 2]], {"min.insync.replicas": "2"})
    elsewhere = {"broker_addresses": f"2=127.0.0.1:{tunnel}"}
    with (
        closing(KafkaConsumer(bootstrap_servers=whole.bootstrap)) as consumer,
        closing(KafkaProducer(bootstrap_servers=whole.bootstrap, acks="all")) as producer,
        ExitStack() as reached,
    ):
        reached.enter_context(far_away(tunnel, whole.bootstrap.split(",")[1], round_trip_s=0))
        with watching(whole.bootstrap, **elsewhere) as watch:
            write(producer, topic, ALL)
            state = watch.look()
            assert state[Replicas].log_end_offset[row_of(state, topic)].tolist()[:2] == [ALL, ALL]
            reached.close()
            is_silent_for_s = time.monotonic() + 30
            while time.monotonic() < is_silent_for_s:
                write(producer, topic, ONE)
                state = watch.look()
                row = row_of(state, topic)
                assert watermark(state, topic) == kafkas_watermark(consumer, topic)
                assert state[Replicas].log_end_offset[row, 1] == ALL
                assert state[Lag].lag_records[row].tolist()[:2] == [0, 0]  # by the watermark
                assert state[InSync].in_sync[row].tolist()[:2] == [1, 1]
                assert row not in state[OpenTransactions].row.tolist()
                assert state[OutOfRangeWindows].out_of_range[row, 1] == 0
                assert conditions(state, row).isdisjoint(LATE)
            assert client.partition(1, topic).isr == {1, 2}
            assert any(each.broker == 2 for each in watch.problems)


def test_uploads_that_never_worked_are_late_by_the_whole_log(cluster: LocalCluster) -> None:
    """An open transaction at the start of the log keeps every segment from its upload."""
    client, topic = BrokerClient(cluster), "never-uploaded"
    sizes = {"segment.bytes": str(MIB), "local.retention.bytes": str(2 * MIB)}
    client.create(topic, [[1, 2]], {"remote.storage.enable": "true"} | sizes)
    with closing(
        KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="first", acks="all")
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x", partition=0)
        producer.flush()
        produce(cluster, topic, 30 * ALL)
        time.sleep(3)  # uploads begin each half second
        assert client.offset(1, topic, 0, LATEST_TIERED) == UNKNOWN
        with watching(cluster.bootstrap) as watch:
            watch.look()
            state = watch.look()
            row = row_of(state, topic)
            assert state[TierStates].tier_state[row] == TierState.NOTHING_UPLOADED
            assert state[UploadLag].upload_lag_records[row] == 30 * ALL + 1
            assert "upload_lag_vs_local_retention" in conditions(state, row)
        producer.abort_transaction()


def test_copies_that_are_disabled_on_purpose_are_no_risk(cluster: LocalCluster) -> None:
    """KAFKA-17236: what is written from then on is not uploaded, and retention does not wait."""
    client, topic = BrokerClient(cluster), "no-more-copies"
    client.create(topic, [[1, 2]], TIERED)
    produce(cluster, topic, ALL)
    until(lambda: client.offset(1, topic, 0, LATEST_TIERED) > 0, 30, "nothing is uploaded")
    same = {"local.retention.ms": "-2", "local.retention.bytes": "-2"}
    client.configure(2, topic, **{"remote.log.copy.disable": "true"}, **same)
    produce(cluster, topic, 2 * ALL)
    with watching(cluster.bootstrap) as watch:
        watch.look()

        def is_disabled() -> bool:
            state = watch.look()
            return state[TierStates].tier_state[row_of(state, topic)] == TierState.COPIES_DISABLED

        until(is_disabled, 30, "the setting is not read")
        state = watch.look()
        row = row_of(state, topic)
        assert state[UploadLag].upload_lag_records[row] == UNKNOWN
        assert conditions(state, row).isdisjoint({"upload_lag_vs_local_retention", "tier_disorder"})


def test_records_that_are_deleted_by_request_are_no_contradiction(cluster: LocalCluster) -> None:
    """The log begins above what is uploaded then; the next upload begins there."""
    client, topic = BrokerClient(cluster), "deleted-by-request"
    client.create(topic, [[1, 2]], TIERED)
    produce(cluster, topic, ALL)
    until(lambda: client.offset(1, topic, 0, LATEST_TIERED) > 0, 30, "nothing is uploaded")
    with watching(cluster.bootstrap) as watch:
        watch.look()
        end = client.offset(1, topic, 0, LATEST)
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            admin.delete_records({TopicPartition(topic, 0): end - 1}, timeout_ms=20_000)
        for _ in range(3):
            state = watch.look()
            row = row_of(state, topic)
            assert state[TierStates].tier_state[row] == TierState.BEGINS_AGAIN
            assert state[UploadLag].upload_lag_records[row] == 1
            assert "tier_disorder" not in conditions(state, row)


def test_a_timestamp_in_the_future_keeps_a_segment_beyond_its_retention(
    cluster: LocalCluster,
) -> None:
    """KAFKA-13421 and others: a segment is as old as its newest timestamp."""
    client, now_ms, day_ms = BrokerClient(cluster), int(time.time() * 1_000), 86_400_000
    configs = {
        "retention.ms": "60000",
        "segment.ms": "60000",
        "internal.segment.bytes": "16384",
        "message.timestamp.after.max.ms": str(2 * day_ms),
    }
    for topic, ahead_ms in (("kept-too-long", day_ms), ("not-kept", -day_ms)):
        client.create(topic, [[1, 2]], configs)
        produce(cluster, topic, 1, first_ms=now_ms + ahead_ms)
        produce(cluster, topic, ALL, first_ms=now_ms - day_ms)
    until(lambda: client.offset(1, "not-kept", 0, EARLIEST) > 1, 30, "retention does not work")
    with watching(cluster.bootstrap) as watch:

        def is_overdue(topic: str) -> bool:
            row = row_of(watch.state, topic)
            return "kept_beyond_retention" in conditions(watch.state, row)

        # First timestamps are looked up in rounds.
        until(lambda: watch.look() and is_overdue("kept-too-long"), 60, "it is not found")
        assert client.offset(1, "kept-too-long", 0, EARLIEST) == 0
        until(lambda: watch.look() and not is_overdue("not-kept"), 60, "nothing is deleted")
        assert is_overdue("kept-too-long")


@contextmanager
def inherited_min_isr(client: BrokerClient, value: str) -> Iterator[None]:
    """Topics without a min.insync.replicas of their own have that one meanwhile."""
    client.configure(BROKER_RESOURCE, "", min_insync_replicas=value)
    try:
        yield
    finally:
        client.configure(BROKER_RESOURCE, "", min_insync_replicas="1")


@pytest.mark.parametrize("least", [1, 2, 3])
def test_another_min_isr_clears_the_elr_and_the_twin_says_what_it_costs(
    whole: LocalCluster, least: int
) -> None:
    """KAFKA-20237, KAFKA-17952: also where the same value was inherited before."""
    client, topic = BrokerClient(whole), f"elr-cleared-{least}"
    with inherited_min_isr(client, "2"), watching(whole.bootstrap) as watch:
        client.create(topic, [[1, 3]], {})
        watch.look()
        whole.stop([3])
        until(lambda: client.partition(1, topic).elr == {3}, 60, "broker 3 is not in the ELR")
        now = watch.look()
        row, then = row_of(now, topic), with_min_isr(now, least)
        costs = cleared_elrs(now, then)
        client.configure(TOPIC_RESOURCE, topic, min_insync_replicas=str(least))
        time.sleep(2)
        is_cleared = client.partition(1, topic).elr == frozenset()
        assert costs.is_cleared[row] == is_cleared
        before, state = watch.state, watch.look()
        events = [each.kind for each in changes(before, state) if each.topic == topic]
        assert ("elr_lost" in events) == is_cleared
