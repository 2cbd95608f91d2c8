from __future__ import annotations

import random
import string
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import msgspec
import pytest
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from structlog.testing import capture_logs

from streaming.bus.bus_topics import shard_of
from streaming.bus.connection import BusError
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.cycle_log import CycleLog, FixedRateSchedule
from streaming.collector.cycle.observation import (
    MOST_PROBLEMS,
    MOST_TEXT,
    PROBLEM_SHARD,
    CycleResult,
    ObservationEncoder,
    problems_table,
)
from streaming.collector.cycle.program import collect
from streaming.collector.groups.group_frames import GroupFrames
from streaming.collector.problem import NOT_OFFERED, Problem, timeout
from streaming.collector.sources.configs import TopicSettings
from streaming.collector.sources.groups import GroupSource
from streaming.collector.sources.jmx import MetricsSource, ScrapedMetrics
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from tests.collector.fake_broker import (
    Error,
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.collector.fake_groups import Group
from tests.waiting import patient_ms, until
from twin.builtin import CATALOG
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader
from twin.engine.merge import merge
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Roles
from twin.tables.enums import BatchKind, PendingUpload, ReplicaFlags
from twin.tables.state import Replicas

SHARDS = 4
DEADLINE_MS = patient_ms(1_000)
"""Brokers of this process answer in milliseconds, but for when the machine does other things."""

CONFIG = Config(
    bus=BusConfig(shards=SHARDS),
    collector=CollectorConfig(interval_ms=1_000, deadline_ms=DEADLINE_MS),
)


def log(**fields: Any) -> Log:
    return replace(Log(0, 30, 100, last_tiered=59, pending=60, size=700, first_ms=5_000), **fields)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    orders = {
        0: Partition([1, 2], logs={1: log(), 2: log(local_start=50, pending=-1, last_tiered=-1)}),
        1: Partition([2, 3], isr=[2], elr=[3], offline=[3], epoch=4, logs={2: log(), 3: log()}),
    }
    world = World(
        topics={
            "orders": Topic(orders, configs={"min.insync.replicas": "2"}),
            "plain": Topic({0: Partition([3], logs={3: log(last_tiered=-1, pending=-1)})}),
        },
        racks={1: "az-a", 2: "az-b", 3: "az-c"},
    )
    with fake_cluster(world) as three:
        yield three


class Asker:
    """Observes; gives the frames by shard and kind, as their reader decodes them."""

    def __init__(self, cluster: FakeCluster, config: Config = CONFIG) -> None:
        self.brokers = BrokerConnections(cluster.bootstrap, {}, config.collector.deadline_ms)
        self.collector = Collector(config, self.brokers)
        self.messages = ObservationEncoder()
        self.observation: CycleResult | None = None

    def __call__(self) -> dict[tuple[int, str], Frame]:
        self.observation = self.collector.observe()
        assert self.observation is not None
        by_kind = {}
        for shard, message in self.messages.encode(self.observation):
            for frame in frames.decode(message).frames:
                assert frame.header.shard == shard
                by_kind[shard, frame.header.kind] = frame
        return by_kind

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [
            row
            for (_, k), frame in sorted(self().items())
            for row in frame.rows.to_pylist()
            if k == kind
        ]


@pytest.fixture
def ask(cluster: FakeCluster) -> Iterator[Asker]:
    asker = Asker(cluster)
    yield asker
    asker.brokers.close()


def by_replica(rows: list[dict[str, Any]]) -> dict[tuple[str, int, int], dict[str, Any]]:
    return {(r["topic"], r["partition"], r["broker"]): r for r in rows}


def test_an_observation_says_of_each_replica_what_it_said_itself(
    cluster: FakeCluster, ask: Asker
) -> None:
    rows = by_replica(ask.rows("replicas"))
    assert set(rows) == {
        ("orders", 0, 1), ("orders", 0, 2), ("orders", 1, 2), ("orders", 1, 3), ("plain", 0, 3)
    }  # fmt: skip
    assert rows["orders", 0, 1] == {
        "topic": "orders",
        "topic_id": cluster.world.topics["orders"].topic_id.bytes,
        "partition": 0,
        "broker": 1,
        "log_start_offset": 0,
        "local_log_start_offset": 30,
        "log_end_offset": 100,
        "last_tiered_offset": 59,
        "pending_upload_offset": 60,
        "pending_upload": PendingUpload.KNOWN,
        "pending_upload_leader_epoch": 3,
        "last_stable_offset": 100,
        "high_watermark": 100,
        "local_log_bytes": 700,
        "local_start_timestamp_ms": 5_000,
        "local_start_batch": BatchKind.PLAIN,
        "error_code": 0,
    }
    follower = rows["orders", 0, 2]
    assert follower["local_log_start_offset"] == 50
    assert follower["last_tiered_offset"] == -1
    assert follower["pending_upload"] == PendingUpload.LEARNING
    assert ask.collector.problems == ()


def test_an_observation_says_of_each_partition_what_the_controller_says(ask: Asker) -> None:
    rows = {(r["topic"], r["partition"]): r for r in ask.rows("partitions")}
    assert {k: (r["leader"], r["leader_epoch"], r["replicas"]) for k, r in rows.items()} == {
        ("orders", 0): (1, 0, [1, 2]),
        ("orders", 1): (2, 4, [2, 3]),
        ("plain", 0): (3, 0, [3]),
    }
    assert rows["orders", 1]["replica_flags"] == [
        ReplicaFlags.IN_ISR,
        ReplicaFlags.IN_ELR | ReplicaFlags.OFFLINE,
    ]
    assert rows["orders", 1]["elr_known"]


def test_every_shard_receives_all_brokers_and_its_whole_listing(ask: Asker) -> None:
    observation = ask()
    for shard in range(SHARDS):
        assert observation[shard, "brokers"].rows.column("broker").to_pylist() == [1, 2, 3]
        assert observation[shard, "partitions"].header.complete
        topics = set(observation[shard, "partitions"].rows.column("topic").to_pylist())
        assert topics == {t for t in ("orders", "plain") if shard_of(t, SHARDS) == shard}
        assert ((shard, "replicas") in observation) == bool(topics)


def test_all_frames_of_a_cycle_carry_one_time_and_the_next_cycle_a_later_one(ask: Asker) -> None:
    before_ms = int(time.time() * 1_000)
    stamps = [{(f.header.observed_at_ms, f.header.cycle) for f in ask().values()} for _ in range(2)]
    (first,), (second,) = stamps
    assert before_ms <= first[0] < second[0] <= time.time() * 1_000
    assert second[1] == first[1] + 1


def test_broker_rows_say_where_they_are_and_that_they_answered(ask: Asker) -> None:
    rows = ask()[0, "brokers"].rows.to_pylist()
    assert [(r["broker"], r["rack"], r["fenced"], r["answered"]) for r in rows] == [
        (1, "az-a", 0, True),
        (2, "az-b", 0, True),
        (3, "az-c", 0, True),
    ]
    assert all(r["host"].startswith("127.0.0.1:") for r in rows)
    assert all(0 <= r["answered_in_ms"] < DEADLINE_MS for r in rows)
    assert {(r["log_dir_total_bytes"], r["log_dir_usable_bytes"]) for r in rows} == {(1_000, 400)}


def test_a_silent_broker_has_no_replica_rows_and_did_not_answer(
    cluster: FakeCluster, ask: Asker
) -> None:
    ask()
    silent = 2 if ask.collector.metadata_broker != 2 else 3
    cluster[silent].silent = True
    observation = ask()
    answered = dict(
        zip(
            *(observation[0, "brokers"].rows.column(c).to_pylist() for c in ("broker", "answered")),
            strict=True,
        )
    )
    assert answered == {b: b != silent for b in (1, 2, 3)}
    assert all(f.header.complete for f in observation.values())
    rows = [r for (_, k), f in observation.items() if k == "replicas" for r in f.rows.to_pylist()]
    assert rows
    assert silent not in {r["broker"] for r in rows}
    assert timeout("broker", silent) in ask.collector.problems


def test_a_broker_that_does_not_describe_its_disks_still_answers_with_its_offsets(
    cluster: FakeCluster, ask: Asker
) -> None:
    for broker in cluster.brokers.values():
        broker.silent = {DescribeLogDirsRequest.API_KEY}
    rows = by_replica(ask.rows("replicas"))
    assert rows["orders", 0, 1]["log_end_offset"] == 100
    assert rows["orders", 0, 1]["local_log_bytes"] == -1


def test_missing_rights_are_said_and_their_values_unknown(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.denied = {DescribeLogDirsRequest.API_KEY}
    cluster.world.unreadable = {"orders"}
    rows = by_replica(ask.rows("replicas"))
    assert {r["local_log_bytes"] for r in rows.values()} == {-1}
    assert rows["orders", 0, 1]["local_start_timestamp_ms"] == -1
    assert rows["plain", 0, 3]["local_start_timestamp_ms"] == 5_000
    assert {p.place for p in ask.collector.problems} == {
        *(("log dirs", b) for b in (1, 2, 3)),
        ("local start timestamps", -1),
        ("epoch ends", -1),
    }
    brokers = ask()[0, "brokers"].rows
    assert set(brokers.column("log_dir_total_bytes").to_pylist()) == {-1}


def test_problems_are_in_one_shard_of_each_cycle_also_when_there_are_none(
    cluster: FakeCluster, ask: Asker
) -> None:
    def listed() -> tuple[list[dict[str, Any]], bool]:
        [(shard, frame)] = [(s, f) for (s, kind), f in ask().items() if kind == "problems"]
        assert shard == PROBLEM_SHARD
        return frame.rows.to_pylist(), frame.header.complete

    assert listed() == ([], True)
    cluster.world.unreadable = {"orders"}
    cluster.world.denied = {DescribeLogDirsRequest.API_KEY}
    rows, complete = listed()
    assert complete
    assert rows == [asdict(problem) for problem in ask.collector.problems]
    assert {(r["source"], r["broker"]) for r in rows} >= {("log dirs", b) for b in (1, 2, 3)}
    cluster.world.unreadable, cluster.world.denied = set(), set()
    until(lambda: listed() == ([], True))


def test_more_problems_than_a_frame_holds_are_cut_off(ask: Asker) -> None:
    ask()
    assert ask.observation is not None
    many = [
        Problem("log dirs", broker, "Timeout", "x" * 2 * MOST_TEXT)
        for broker in range(MOST_PROBLEMS + 1)
    ]
    for problems, complete in ((many, False), (many[:-1], True)):
        observation = replace(ask.observation, problems=problems)
        [frame] = [
            frame
            for _, message in ObservationEncoder().encode(observation)
            for frame in frames.decode(message).frames
            if frame.header.kind == "problems"
        ]
        assert (frame.rows.num_rows, frame.header.complete) == (MOST_PROBLEMS, complete)
        assert {len(text) for text in frame.rows.column("text").to_pylist()} == {MOST_TEXT}


def test_a_full_list_of_problems_fits_into_a_frame() -> None:
    words = random.Random(1)
    texts = ["".join(words.choices(string.printable, k=MOST_TEXT)) for _ in range(MOST_PROBLEMS)]
    rows = problems_table([Problem("groups", i, "Timeout", text) for i, text in enumerate(texts)])
    header = FrameHeader("problems", "c", 0, 1, 1, 1)
    assert len(frames.encode_parts(Frame(header, rows))) == 1


def test_a_replica_that_answers_with_an_error_is_a_row_with_its_code(
    cluster: FakeCluster, ask: Asker
) -> None:
    failed = Error(56)
    cluster.world.topics["plain"].partitions[0].logs[3] = Log(
        failed, failed, failed, failed, failed
    )
    row = by_replica(ask.rows("replicas"))["plain", 0, 3]
    assert row["error_code"] == 56
    assert row["log_end_offset"] == -1


def test_a_kafka_of_long_ago_gives_what_it_knows(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.highest |= {ListOffsetsRequest.API_KEY: 5, DescribeLogDirsRequest.API_KEY: 1,
                           FetchRequest.API_KEY: 10, 60: None, 75: None, 46: None, 3: 8,
                           32: 1, 18: 2}  # fmt: skip
    asker = Asker(cluster)
    rows = by_replica(asker.rows("replicas"))
    asker.brokers.close()
    assert rows["orders", 0, 1] | {"topic_id": b""} == {
        "topic": "orders",
        "topic_id": b"",
        "partition": 0,
        "broker": 1,
        "log_start_offset": 0,
        "local_log_start_offset": -1,
        "log_end_offset": 100,
        "last_tiered_offset": -1,
        "pending_upload_offset": -1,
        "pending_upload": PendingUpload.ABSENT,
        "pending_upload_leader_epoch": -1,
        "last_stable_offset": 100,
        "high_watermark": 100,
        "local_log_bytes": 700,
        "local_start_timestamp_ms": -1,
        "local_start_batch": -1,
        "error_code": 0,
    }
    problems = asker.collector.problems
    assert {problem.error for problem in problems} == {NOT_OFFERED}
    assert {problem.source for problem in problems} == {
        "reassignments",
        "eligible leader replicas",
        "local start timestamps",
    }


def test_a_topic_that_answers_with_an_error_makes_the_listing_partial(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics["plain"].error = 5
    observation = ask()
    assert not any(
        f.header.complete for (_, kind), f in observation.items() if kind == "partitions"
    )
    assert all(f.header.complete for (_, kind), f in observation.items() if kind != "partitions")


def test_a_cluster_without_topics_is_a_complete_observation(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {}
    observation = ask()
    kinds = {"brokers", "controller_quorum", "problems", "partitions", "configs"}
    assert {kind for _, kind in observation} == kinds
    assert all(f.rows.num_rows == 0 for (_, kind), f in observation.items() if kind == "partitions")
    assert all(f.header.complete for f in observation.values())


def test_with_nobody_to_list_the_cluster_its_brokers_did_not_answer_and_nothing_is_gone(
    cluster: FakeCluster, ask: Asker
) -> None:
    ask()
    for broker in cluster.brokers.values():
        broker.silent = True
    observation = ask()
    assert set(observation[0, "brokers"].rows.column("answered").to_pylist()) == {False}
    assert not any(
        f.header.complete for (_, kind), f in observation.items() if kind == "partitions"
    )
    assert not any(kind == "replicas" for _, kind in observation)
    assert "cluster" in {p.source for p in ask.collector.problems}
    for broker in cluster.brokers.values():
        broker.silent = False
    until(lambda: set(ask()[0, "brokers"].rows.column("answered").to_pylist()) == {True})
    assert ask.collector.problems == ()


def test_configs_are_sent_when_they_were_read(ask: Asker) -> None:
    first, second = ask(), ask()
    assert {shard for shard, kind in first if kind == "configs"} == set(range(SHARDS))
    assert not any(kind == "configs" for _, kind in second)


def test_what_has_not_arrived_is_sent_with_the_next_cycle(cluster: FakeCluster, exporter) -> None:
    """Settings, metrics and groups are read at intervals of their own: nothing repeats them."""
    cluster.world.groups = {"readers": Group(1, {("orders", 0): 5})}
    section = CollectorConfig(interval_ms=1, deadline_ms=DEADLINE_MS, metrics_url=exporter().url)
    config = Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        bus=BusConfig(shards=SHARDS),
        collector=section,
    )
    sent: list[CycleResult] = []

    def send(observation: CycleResult) -> None:
        sent.append(observation)
        if len(sent) <= 2:
            raise BusError("bus topic x: it is full")

    with (
        BrokerConnections(cluster.bootstrap, {}, DEADLINE_MS) as brokers,
        MetricsSource(section, background=False) as metrics,
        GroupSource(config, brokers.client_id, background=False) as groups,
    ):
        collector = Collector(config, brokers, metrics, groups)
        collector.observe()  # which brokers there are
        collector.on_send_failed()
        metrics.read_now()
        groups.read_now()
        collect(config, collector, send, threading.Event(), cycles=4)
    first, second, arrived, after = sent
    assert first.readings[GroupFrames].round.group == ("readers",)
    for repeated in (second, arrived):
        assert repeated.readings[ScrapedMetrics].rows is first.readings[ScrapedMetrics].rows
        assert repeated.readings[GroupFrames].round is first.readings[GroupFrames].round
        assert repeated.readings[TopicSettings].by_shard.keys() == set(range(SHARDS))
    assert after.readings.get(ScrapedMetrics) is None
    assert after.readings.get(GroupFrames) is None
    assert after.readings[TopicSettings].by_shard == {}


def test_the_twin_merges_what_the_collector_sends(ask: Asker) -> None:
    for observation in (ask(), ask()):
        for shard in range(SHARDS):
            state = ShardState.empty(CATALOG, "kafka", shard, SHARDS)
            for (s, _), frame in observation.items():
                if s == shard:
                    state = merge(state, frame)
            assert state.partitions == observation[shard, "partitions"].rows.num_rows
            sampled_at_ms = state[Replicas].sampled_at_ms
            assert (sampled_at_ms[state[Roles].is_assigned] > 0).all()


def test_topic_and_id_have_the_same_dictionary_indices(ask: Asker) -> None:
    for (_, kind), frame in ask().items():
        if kind in ("partitions", "replicas"):
            topic, identity = (frame.rows.column(c).combine_chunks() for c in ("topic", "topic_id"))
            assert topic.indices.to_pylist() == identity.indices.to_pylist()
            assert len(topic.dictionary) == len(identity.dictionary)


def test_frames_are_joined_as_far_as_they_fit() -> None:
    encoded = [b"aa", b"bb", b"c", b"dddd", b"e"]
    assert list(frames.batch_messages(encoded, 5)) == [b"aabbc", b"dddde"]
    assert list(frames.batch_messages([b"aaaaaa", b"b"], 5)) == [b"aaaaaa", b"b"]
    assert list(frames.batch_messages([], 5)) == []


# ---------------------------------------------------------------- pace and log


def test_a_cycle_in_time_misses_nothing() -> None:
    pace = FixedRateSchedule(interval_s=5.0, due_s=100.0)
    assert pace.cycle_ended(101.0) == 0
    assert pace.due_s == 105.0


def test_a_cycle_that_ends_exactly_at_the_next_tick_is_in_time() -> None:
    pace = FixedRateSchedule(interval_s=5.0, due_s=100.0)
    assert pace.cycle_ended(105.0) == 0
    assert pace.due_s == 105.0


def test_missed_ticks_are_counted_and_the_next_cycle_starts_on_its_own() -> None:
    pace = FixedRateSchedule(interval_s=5.0, due_s=100.0)
    assert pace.cycle_ended(112.0) == 2
    assert pace.due_s == 115.0


SILENT = timeout("broker", 2)
REFUSED = replace(SILENT, error="KafkaConnection", text="ECONNREFUSED")


def logged(*cycles: list[Problem]) -> list[tuple[str, ...]]:
    """Event and error of each line."""
    cycle_log = CycleLog()
    with capture_logs() as lines:
        for problems in cycles:
            cycle_log.cycle(problems, 10.0, None)
    assert all((line["source"], line["broker"]) == ("broker", 2) for line in lines)
    return [tuple(line[k] for k in ("event", "error") if k in line) for line in lines]


def test_a_cause_is_logged_once_and_once_more_when_it_is_over() -> None:
    assert logged([SILENT], [SILENT], [], []) == [("unavailable", "Timeout"), ("recovered",)]


def test_a_cause_whose_text_changes_is_not_logged_again() -> None:
    assert logged([SILENT], [replace(SILENT, text="the same in other words")]) == [
        ("unavailable", "Timeout")
    ]


def test_another_cause_at_the_same_place_is_no_recovery() -> None:
    assert logged([SILENT], [REFUSED], []) == [
        ("unavailable", "Timeout"),
        ("unavailable", "KafkaConnection"),
        ("recovered",),
    ]


def test_the_minutes_line_counts_cycles_overruns_and_failures(ask: Asker) -> None:
    ask()
    cycle_log = CycleLog(summed_up_at_s=time.monotonic() - 61)
    cycle_log.overruns = 3
    with capture_logs() as lines:
        cycle_log.cycle([SILENT, Problem("bus", -1, "SendFailed", "full")], 10.0, ask.observation)
    line = lines[-1]
    assert line["event"] == "cycles"
    assert (line["cycles"], line["overruns"], line["failures"]) == (1, 3, {"broker 2": 1})
    assert (line["partitions"], line["replicas"]) == (3, 5)


def test_timestamps_can_be_switched_off(cluster: FakeCluster) -> None:
    without = msgspec.structs.replace(
        CONFIG, collector=CollectorConfig(timestamps=False, deadline_ms=DEADLINE_MS)
    )
    asker = Asker(cluster, without)
    assert {r["local_start_timestamp_ms"] for r in asker.rows("replicas")} == {-1}
    asker.brokers.close()
    assert not any(b.asked_of(FetchRequest) for b in cluster.brokers.values())
