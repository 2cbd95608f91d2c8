"""The collector against real brokers: its numbers are those an independent client reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient

from streaming.bus import bus_topics, record
from streaming.bus.reader import Reader
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.cycle.program import run
from streaming.collector.wire.connections import BrokerConnections
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import (
    BusConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
    EligibilityConfig,
    TopicThreshold,
)
from tests.cluster.broker_client import (
    BROKER_RESOURCE,
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    TOPIC_RESOURCE,
    BrokerClient,
)
from tests.cluster.topics import TIERED, produce
from tests.waiting import until
from twin.engine import frames
from twin.engine.frames import Frame
from twin.tables.enums import PendingUpload, ReplicaFlags

pytestmark = pytest.mark.cluster

FIRST_MS = int(time.time() * 1_000) - 3_600_000
"""An hour ago: past the local retention of a topic, well within the retention of all."""

DEADLINE_MS = 1_500


@pytest.fixture(scope="module")
def topics(cluster: LocalCluster, client: BrokerClient) -> dict[str, str]:
    """Topics in each state a replica can be in, by what is special about them."""
    layouts: dict[str, tuple[list[list[int]], dict[str, str]]] = {
        "c-tiered": ([[1, 2], [2, 3]], TIERED | {"local.retention.bytes": "32768"}),
        "c-all-tiered": ([[1, 2]], TIERED | {"local.retention.ms": "2000"}),
        "c-plain": ([[3], [1], [2]], {"min.insync.replicas": "1"}),
        "c-compacted": ([[2, 1]], {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
        "c-empty": ([[1, 2, 3]], {}),
    }
    for name, (assignment, configs) in layouts.items():
        client.create(name, assignment, configs)
    for name, (assignment, _) in layouts.items():
        for partition in range(len(assignment) if name != "c-empty" else 0):
            produce(cluster, name, 90 + partition, partition=partition, first_ms=FIRST_MS)

    def settled() -> bool:
        """Every replica knows what is tiered, and has let go of what it need not keep."""
        tiered = [client.offsets_by_kind(n, "c-tiered", p) for n, p in ((1, 0), (2, 0), (3, 1))]
        idle = [client.offsets_by_kind(n, "c-all-tiered", 0) for n in (1, 2)]
        local_start = tiered[0][EARLIEST_LOCAL]
        return (
            local_start > 0
            and all(o[LATEST_TIERED] > 0 and o[EARLIEST_LOCAL] == local_start for o in tiered[:2])
            and all(o[EARLIEST_LOCAL] == o[LATEST] == o[LATEST_TIERED] + 1 for o in idle)
        )

    until(settled, 60)
    return {name: configs.get("cleanup.policy", "") for name, (_, configs) in layouts.items()}


def configured(cluster: LocalCluster, only: str = "c-.*", **collector: Any) -> Config:
    return Config(
        cluster=ClusterConfig(name="real", bootstrap=cluster.bootstrap),
        bus=BusConfig(shards=4, replication_factor=3, prefix="twin-test"),
        collector=CollectorConfig(
            interval_ms=500, deadline_ms=DEADLINE_MS, include_topics=only, **collector
        ),
        eligibility=EligibilityConfig(
            local_log_ms=60_000, topics=[TopicThreshold(pattern="c-t.*", local_log_bytes=9)]
        ),
    )


class Asker:
    """Observes; gives frames by shard and kind, and rows by kind."""

    def __init__(self, config: Config) -> None:
        self.brokers = BrokerConnections(config.cluster.bootstrap, {}, DEADLINE_MS)
        self.collector = Collector(config, self.brokers)
        self.messages = ObservationEncoder()
        self._min_isr: dict[str, int] = {}

    def min_isr(self, topic: str) -> int:
        """A topic's row of the newest configs frame."""
        return self._min_isr[topic]

    def frames(self) -> dict[tuple[int, str], Frame]:
        observation = self.collector.observe()
        assert observation is not None
        return {
            (shard, frame.header.kind): frame
            for shard, message in self.messages.encode(observation)
            for frame in frames.decode(message).frames
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for (_, kind), frame in self.frames().items():
            by_kind.setdefault(kind, []).extend(frame.rows.to_pylist())
        for row in by_kind.get("configs", ()):
            self._min_isr[row["topic"]] = row["min_insync_replicas"]
        return by_kind


@pytest.fixture
def ask(cluster: LocalCluster, topics: dict[str, str]) -> Iterator[Asker]:
    asker = Asker(configured(cluster))
    asker.rows()
    yield asker
    asker.brokers.close()


def test_every_number_of_a_replica_is_what_an_independent_client_reads_from_it(
    ask: Asker, client: BrokerClient, topics: dict[str, str]
) -> None:
    rows = ask.rows()["replicas"]
    assert len(rows) == 4 + 2 + 3 + 2 + 3
    size = {node: client.log_dirs(node).size_bytes for node in (1, 2, 3)}
    for row in rows:
        topic, partition, broker = row["topic"], row["partition"], row["broker"]
        assert {
            LATEST: row["log_end_offset"],
            EARLIEST: row["log_start_offset"],
            EARLIEST_LOCAL: row["local_log_start_offset"],
            LATEST_TIERED: row["last_tiered_offset"],
            EARLIEST_PENDING_UPLOAD: row["pending_upload_offset"],
        } == client.offsets_by_kind(broker, topic, partition), row
        assert row["local_log_bytes"] == size[broker][topic, partition]
        assert row["error_code"] == 0


def test_the_states_of_tiering_are_distinguished(ask: Asker) -> None:
    means: dict[str, set[int]] = {}
    for row in ask.rows()["replicas"]:
        means.setdefault(row["topic"], set()).add(row["pending_upload"])
    assert means == {
        "c-tiered": {PendingUpload.KNOWN},
        "c-all-tiered": {PendingUpload.ALL_TIERED},
        "c-plain": {PendingUpload.NOTHING_TIERED},
        "c-compacted": {PendingUpload.NOTHING_TIERED},
        "c-empty": {PendingUpload.NOTHING_TIERED},
    }


def test_the_earliest_local_timestamp_is_that_of_the_batch_at_the_local_start(
    ask: Asker,
) -> None:
    rows = ask.rows()["replicas"]
    assert {r["topic"] for r in rows if r["local_start_timestamp_ms"] > 0} == {
        "c-tiered",
        "c-plain",
        "c-compacted",
    }
    for row in rows:
        start_ms = row["local_start_timestamp_ms"] - FIRST_MS
        if row["topic"] in ("c-plain", "c-compacted"):
            assert start_ms == 0
        elif row["topic"] == "c-tiered":
            # Record i was written at FIRST_MS + i; the batch begins at the local start.
            assert start_ms == row["local_log_start_offset"] > 0
        else:
            assert row["local_start_timestamp_ms"] == -1


def test_every_partition_row_is_what_a_broker_describes(
    ask: Asker, client: BrokerClient, topics: dict[str, str]
) -> None:
    rows = ask.rows()["partitions"]
    described = client.partitions(2, list(topics))
    assert {(r["topic"], r["partition"]) for r in rows} == set(described)
    for row in rows:
        state = described[row["topic"], row["partition"]]
        assert row["topic_id"] == state.topic_id
        assert row["leader"] == state.leader
        assert row["leader_epoch"] == state.epoch
        assert row["replicas"] == list(state.replicas)
        in_isr = [b in state.isr for b in state.replicas]
        assert [bool(s & ReplicaFlags.IN_ISR) for s in row["replica_flags"]] == in_isr
        assert row["elr_known"]


def test_broker_rows_are_the_cluster(ask: Asker, cluster: LocalCluster) -> None:
    rows = ask.frames()[0, "brokers"].rows.to_pylist()
    assert [(r["broker"], r["rack"], r["host"], r["fenced"], r["answered"]) for r in rows] == [
        (n, f"az-{'abc'[n - 1]}", f"127.0.0.1:{cluster.layout.port(n)}", 0, True) for n in (1, 2, 3)
    ]
    assert all(r["log_dir_total_bytes"] > r["log_dir_usable_bytes"] > 0 for r in rows)


def test_configs_are_the_topics_own_and_the_clusters(
    cluster: LocalCluster, topics: dict[str, str]
) -> None:
    asker = Asker(configured(cluster))
    rows = {r["topic"]: r for r in asker.rows()["configs"]}
    asker.brokers.close()
    assert set(rows) == {"", *topics}
    tiered = rows["c-tiered"]
    assert (tiered["remote_storage"], tiered["local_retention_bytes"]) == (1, 32_768)
    assert tiered["local_retention_ms"] == 7 * 24 * 3_600_000  # derived from retention.ms
    assert (tiered["eligible_local_log_ms"], tiered["eligible_local_log_bytes"]) == (-2, 9)
    assert rows["c-all-tiered"]["local_retention_ms"] == 2_000
    assert (rows["c-compacted"]["compacted"], rows["c-plain"]["compacted"]) == (1, 0)
    assert rows["c-compacted"]["min_insync_replicas"] == 2
    assert rows["c-plain"]["eligible_local_log_bytes"] == -2
    whole_cluster = rows[""]
    assert whole_cluster["replica_lag_time_max_ms"] == 30_000
    assert whole_cluster["elr_enabled"] == 1
    assert whole_cluster["last_tiered_fetch"] == 1
    assert whole_cluster["eligible_local_log_ms"] == 60_000


def test_a_topic_deleted_and_created_again_has_a_new_id_and_new_offsets(
    cluster: LocalCluster, client: BrokerClient
) -> None:
    asker = Asker(configured(cluster, only="again"))
    incarnations = []
    for count in (30, 7):
        client.create("again", [[1, 2]], {"min.insync.replicas": str(count % 6 + 1)})
        produce(cluster, "again", count, first_ms=FIRST_MS + count)

        def readable() -> bool:
            """A follower serves a record once it knows a high watermark above it."""
            rows = asker.rows()["replicas"]
            return len(rows) == 2 and all(r["local_start_timestamp_ms"] > 0 for r in rows)

        until(readable)
        rows = asker.rows()
        incarnations.append(
            (
                rows["partitions"][0]["topic_id"],
                {r["log_end_offset"] for r in rows["replicas"]},
                {r["local_start_timestamp_ms"] for r in rows["replicas"]},
                asker.min_isr("again"),
            )
        )
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
            admin.delete_topics(["again"])

        def gone() -> bool:
            return not asker.rows()["partitions"]

        until(gone)
    asker.brokers.close()
    (first_id, *first), (second_id, *second) = incarnations
    assert first_id != second_id
    assert first == [{30}, {FIRST_MS + 30}, 1]
    assert second == [{7}, {FIRST_MS + 7}, 2]


def test_no_topics_are_a_complete_listing(cluster: LocalCluster) -> None:
    asker = Asker(configured(cluster, only="nothing-is-called-so"))
    observation = asker.frames()
    asker.brokers.close()
    kinds = {"brokers", "controller_quorum", "partitions", "configs", "problems"}
    assert {kind for _, kind in observation} == kinds
    assert all(f.header.complete for f in observation.values())
    assert not any(f.rows.num_rows for (_, kind), f in observation.items() if kind == "partitions")


@pytest.mark.parametrize("node", [1, 2])
def test_a_paused_broker_did_not_answer_and_the_cycle_goes_on_without_it(
    node: int, whole: LocalCluster, ask: Asker
) -> None:
    whole.pause(node)
    observation = ask.frames()
    answered = {r["broker"]: r["answered"] for r in observation[0, "brokers"].rows.to_pylist()}
    assert answered == {b: b != node for b in (1, 2, 3)}
    rows = [r for (_, k), f in observation.items() if k == "replicas" for r in f.rows.to_pylist()]
    assert {r["broker"] for r in rows} == {1, 2, 3} - {node}
    assert all(f.header.complete for f in observation.values())
    whole.resume(node)

    def answers_again() -> bool:
        return all(r["answered"] for r in ask.frames()[0, "brokers"].rows.to_pylist())

    until(answers_again)


def test_a_killed_broker_is_fenced_and_its_replica_eligible_to_lead(
    whole: LocalCluster, client: BrokerClient
) -> None:
    client.create("elr", [[3, 1]], {"min.insync.replicas": "2"})
    asker = Asker(configured(whole, only="elr"))
    asker.rows()
    whole.kill(3)

    def fenced() -> bool:
        return asker.frames()[0, "brokers"].rows.to_pylist()[2]["fenced"] == 1

    until(fenced, 40)
    rows = asker.rows()
    broker = rows["brokers"][2]
    assert (broker["broker"], broker["rack"], broker["answered"]) == (3, "az-c", False)
    (row,) = rows["partitions"]
    assert (row["leader"], row["replicas"], row["elr_known"]) == (1, [3, 1], True)
    assert row["replica_flags"] == [ReplicaFlags.IN_ELR | ReplicaFlags.OFFLINE, ReplicaFlags.IN_ISR]
    asker.brokers.close()


def test_a_replica_on_its_way_is_marked_until_it_has_arrived(
    cluster: LocalCluster, client: BrokerClient
) -> None:
    client.create("moving", [[1, 2]], {})
    produce(cluster, "moving", 300, size=10_000)
    client.configure(TOPIC_RESOURCE, "moving", follower_replication_throttled_replicas="*",
                     leader_replication_throttled_replicas="*")  # fmt: skip
    client.configure(BROKER_RESOURCE, "", leader_replication_throttled_rate="100000",
                     follower_replication_throttled_rate="100000")  # fmt: skip
    asker = Asker(configured(cluster, only="moving"))
    asker.rows()
    client.reassign("moving", 0, [3, 1])

    def moves() -> bool:
        return len(asker.rows()["partitions"][0]["replicas"]) == 3

    until(moves)
    row = asker.rows()["partitions"][0]
    assert row["replicas"] == [3, 1, 2]
    assert row["replica_flags"] == [
        ReplicaFlags.ADDING,
        ReplicaFlags.IN_ISR,
        ReplicaFlags.IN_ISR | ReplicaFlags.REMOVING,
    ]
    client.configure(BROKER_RESOURCE, "", leader_replication_throttled_rate="1000000000",
                     follower_replication_throttled_rate="1000000000")  # fmt: skip

    def arrived() -> bool:
        row = asker.rows()["partitions"][0]
        return bool(row["replicas"] == [3, 1] and row["replica_flags"] == [ReplicaFlags.IN_ISR] * 2)

    until(arrived, 60)
    asker.brokers.close()


def test_what_runs_arrives_on_the_bus_under_its_shards_key(
    cluster: LocalCluster, topics: dict[str, str]
) -> None:
    config = configured(cluster)
    bus_topics.ensure_topics(config)
    name = bus_topics.topics(config).observations
    with Reader(config, [name], "end") as reader:
        run(config, cycles=3)
        records = []

        def all_there() -> bool:
            records.extend(reader.poll(300))
            return len(records) >= 3 * config.bus.shards

        until(all_there)
    cycles: dict[int, set[int]] = {}
    for sent in records:
        for frame in frames.decode(sent.value or b"").frames:
            assert sent.key == record.key("real", frame.header.shard)
            cycles.setdefault(frame.header.cycle, set()).add(frame.header.shard)
    assert cycles == {cycle: set(range(4)) for cycle in (1, 2, 3)}
    assert bus_topics.recorded_shards(config) == 4


def test_a_program_that_is_terminated_ends_its_cycle_and_leaves(
    cluster: LocalCluster, topics: dict[str, str]
) -> None:
    environment = os.environ | {
        "KAFKA_TWIN_CLUSTER_BOOTSTRAP": cluster.bootstrap,
        "KAFKA_TWIN_CLUSTER_NAME": "real",
        "KAFKA_TWIN_BUS_PREFIX": "twin-test",
        "KAFKA_TWIN_BUS_SHARDS": "4",
        "KAFKA_TWIN_COLLECTOR_INTERVAL_MS": "300",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "streaming", "collector"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        assert "running" in program.stderr.readline()
        time.sleep(1)
        program.send_signal(signal.SIGTERM)
        output = program.stderr.read()
        assert program.wait(100) == 0
    assert "cycles=" in output
    assert "stopped" in output
    assert "Traceback" not in output
