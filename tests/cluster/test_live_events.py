"""Events between polls, on real brokers: taps, remote segments, brokers' own measurements.

Brokers 4 and 5 can be paused and killed without the bus or the controllers noticing. A follower is
removed from the ISR after 3 s, well before a frozen broker is fenced after 9 s.

What several tests are about is played once, by fixtures of the module; each test can run alone.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.supervise import Child
from streaming.tap.request_log_level import CHECK_EVERY_S, ENABLED, level
from tests.cluster.broker_client import (
    LATEST_TIERED,
    BrokerClient,
    Key,
    await_agreement,
    await_in_sync,
)
from tests.cluster.conftest import running
from tests.cluster.debugger import AGENT, stopped, stopped_in
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.cluster.topics import TIERED, produce
from tests.waiting import patience, until
from twin.rules.replication.catching_up import STUCK_AFTER_MS

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.alone, pytest.mark.losses]

LAG_S = 3
FETCH_S = 0.6
"""A follower's fetch waits half a second at the most, on a quiet machine."""

SOON_S = 40
"""A tap may not know a new topic for 10 s; the twin judges in one cycle and a batch."""

PARTITIONS = range(3)
"""Partitions of the tiered topic."""

FAULT, READS, BEHIND, LOG = "live-fault", "live-reads", "live-behind", "live-log"
EXAMPLE = "live-example"
LOST, GONE = "live-lost", "live-gone"


@pytest.fixture(scope="module")
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("live")
    settings = {
        "replica.lag.time.max.ms": str(LAG_S * 1_000),
        "auto.leader.rebalance.enable": "false",
    }
    local = LocalCluster(
        home, brokers=2, base_port=free_base_port(), settings=settings, java_opts=(AGENT,)
    )
    with running(local, request.session) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def programs(brokers: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """The three programs, and a tap of all five brokers' logs."""
    pipeline = Pipeline(brokers, tmp_path_factory.mktemp("live-pipeline"))
    pipeline.create_bus()
    client = BrokerClient(brokers)
    client.create(LOG, [[4, 5], [5, 4], [4, 5]], TIERED | {"local.retention.bytes": "20000"})
    client.create(GONE, [[4, 5]], TIERED | {"local.retention.bytes": "20000"})
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    client.create(LOST, [[4, 5]], TIERED | unclean)
    logs = [f"{node}={log}" for node in brokers.layout.ids for log in brokers.layout.logs(node)]
    config = str(pipeline.folder / "twin.toml")
    command = [sys.executable, "-m", "streaming", "--config", config, "tap", "follow", "--enable",
               *logs]  # fmt: skip
    pipeline.programs["tap"] = Child("tap", command, log_file=pipeline.folder / "tap.log")
    try:
        pipeline.start("collector", "query", "exporter", "tap")
        yield pipeline
    finally:
        pipeline.end()


@pytest.fixture
def twin(programs: Pipeline) -> Iterator[Pipeline]:
    """All programs and brokers as they should be, before the test and after it."""
    with whole(programs):
        yield programs


@contextmanager
def whole(programs: Pipeline) -> Iterator[None]:
    """Before: the twin is live, and every request log enabled. After: all replicas are in sync."""
    programs.start(*(name for name in programs.programs if not programs.alive(name)))
    until(programs.is_live, STARTS_WITHIN_S, "the twin is not live")
    # The request log of a broker that was restarted is enabled again within CHECK_EVERY_S.
    until(
        lambda: logs_are_enabled(programs.cluster), 2 * CHECK_EVERY_S, "a request log is disabled"
    )
    try:
        yield
    finally:
        for node in programs.cluster.status():
            if node.state == "paused":
                programs.cluster.resume(node.id)
        programs.cluster.start()
        await_in_sync(programs.cluster)


def logs_are_enabled(cluster: LocalCluster) -> bool:
    """The request log of every broker is enabled."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        return all(level(admin, node) == ENABLED for node in cluster.layout.ids)


def _producer(cluster: LocalCluster) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=cluster.bootstrap, acks=1, linger_ms=0, enable_idempotence=False
    )


@contextmanager
def written_to(cluster: LocalCluster, topic: str) -> Iterator[None]:
    """A record each 20 ms, acks=1."""
    stop = threading.Event()

    def write() -> None:
        producer = _producer(cluster)
        while not stop.wait(0.02):
            with suppress(KafkaError):
                producer.send(topic, b"x" * 100, partition=0)
        producer.close(timeout=5)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def led_by_4(twin: Pipeline, topic: str) -> None:
    """A new topic, since others have lost replicas before; 5 follows."""
    BrokerClient(twin.cluster).create(topic, [[4, 5]], {"min.insync.replicas": "1"})
    until(lambda: twin.partition(topic, 0), SOON_S, "the twin does not know the topic")


def shrinks(twin: Pipeline, topic: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = twin.partition(topic, 0).get("isr_shrinks", [])
    return listed


def judged(twin: Pipeline, topic: str) -> list[dict[str, Any]] | None:
    """The shrinks, once both logs are read: that of the shrink and that of the slow fetch.

    Brokers log a request as they answer it. Until the time of the shrink is known from a log, a
    fetch that was taken meanwhile may have been pending or queued.
    """
    listed = shrinks(twin, topic)
    known = all(shrink["fetch_was_pending"] is not None for shrink in listed)
    return listed if known else None


def would_have_stayed(twin: Pipeline, topic: str) -> list[bool | None]:
    """Whether solution 1 of KIP-501 would have kept the replica of each shrink."""
    return [shrink["would_have_stayed"] for shrink in twin.partition(topic, 0)["kip501"]]


def explained(twin: Pipeline, topic: str) -> list[str]:
    return [e["text"] for e in twin.events()
            if e["kind"] == "isr_shrink_explained" and e.get("topic") == topic]  # fmt: skip


def error_s(twin: Pipeline) -> float:
    """How far the twin's caught-up times are from those that leaders stated."""
    errors: list[float | None] = []

    def is_served() -> bool:
        errors.append(twin.metrics().value("caught_up_error_seconds"))
        return errors[-1] is not None

    until(is_served, SOON_S, "no error is served")
    print(f"caught-up error: {errors[-1]} s")
    return errors[-1] or 0.0


@dataclass(frozen=True)
class Orphan:
    """Remote segments that do not belong to the log of an unclean leader."""

    remote_segments: dict[str, Any]  # as the API has them
    orphan_bytes: int  # by the metric


@pytest.fixture(scope="module")
def orphan(programs: Pipeline) -> Orphan:
    """Broker 5 misses what 4 uploads, and leads once 4 is lost: its history leaves that out."""
    with whole(programs):
        cluster, client = programs.cluster, BrokerClient(programs.cluster)

        def is_tiered(records: int) -> bool:
            return client.offset(4, LOST, 0, LATEST_TIERED) > records

        produce(cluster, LOST, 200)
        await_in_sync(cluster)
        until(lambda: is_tiered(180), 30, "4 uploads nothing")
        cluster.kill(5)
        until(lambda: client.partition(1, LOST).isr == {4}, 30, "5 is in the ISR")
        produce(cluster, LOST, 200)
        until(lambda: is_tiered(360), 30, "4 uploads nothing more")
        cluster.kill(4)
        await_agreement(cluster, lost=[4, 5])
        cluster.start([5])
        until(lambda: client.partition(1, LOST).leader == 5, 60, "5 does not lead")
        produce(cluster, LOST, 200)
        until(
            lambda: (programs.metrics().value("orphan_segments") or 0) > 0, 60, "there is no orphan"
        )
        segments = dict(programs.partition(LOST, 0)["remote_segments"])
        print(segments)
        return Orphan(segments, programs.metrics().by_partition("orphan_bytes")[LOST, 0])


@pytest.fixture(scope="module")
def orphan_risk(programs: Pipeline, orphan: Orphan) -> dict[str, Any]:
    """The event that opens the risk of the orphan: after a minute."""

    def opened() -> list[dict[str, Any]]:
        return [e for e in programs.events() if e["kind"] == "risk_opened"
                and e.get("detail") == "orphan_segments" and e.get("topic") == LOST]  # fmt: skip

    return until(opened, 120, "no risk is opened")[0]


@pytest.fixture(scope="module")
def tiered_log(programs: Pipeline) -> dict[Key, int]:
    """Records in each partition of a tiered topic; bytes in remote storage once all agree."""
    with whole(programs):
        for n in PARTITIONS:
            produce(programs.cluster, LOG, 300 + 40 * n, partition=n)
        until(lambda: remote_ends_agree(programs), 60, "remote ends differ")
        return programs.metrics().by_partition("remote_log_bytes")


def test_an_unclean_leader_leaves_an_orphan(orphan: Orphan) -> None:
    assert orphan.remote_segments["orphan_segments"] > 0
    assert orphan.orphan_bytes == orphan.remote_segments["orphan_bytes"] > 0


def asked_by_5(twin: Pipeline, topic: str, leader_stops: AbstractContextManager[None]) -> None:
    """Broker 5 asks its leader 4 for all records while that stands still, and leaves the ISR."""
    with standing_still(twin, topic, leader_stops):
        pass


@contextmanager
def standing_still(
    twin: Pipeline, topic: str, leader_stops: AbstractContextManager[None]
) -> Iterator[None]:
    """The same, and the leader goes on standing still until the end."""
    led_by_4(twin, topic)
    client = BrokerClient(twin.cluster)

    def isr() -> frozenset[int]:
        return client.partition(1, topic).isr

    with closing(_producer(twin.cluster)) as producer:
        for _ in range(10):
            producer.send(topic, b"x", partition=0).get(SOON_S)
        # The leader gets a record that the follower asks for only once the leader stands still.
        twin.cluster.pause(5)
        producer.send(topic, b"x", partition=0).get(SOON_S)
    with leader_stops:
        assert isr() == {4, 5}
        twin.cluster.resume(5)
        until(lambda: isr() == {4}, 3 * LAG_S, "5 is still in the ISR")
        yield


def test_a_fetch_in_the_request_queue_would_not_have_kept_its_follower(twin: Pipeline) -> None:
    """KIP-501: solution 1 does not help a fetch that no request handler has taken."""
    stdout = twin.cluster.layout.folder(4) / "stdout.log"
    asked_by_5(twin, FAULT, stopped(stdout, "data-plane-kafka-request-handler"))
    [shrink] = until(lambda: judged(twin, FAULT), SOON_S, "the twin does not judge the shrink")
    print(json.dumps(shrink))
    assert (shrink["leader"], shrink["broker"]) == (4, 5)
    assert shrink["verdict"] == "frozen_leader", "since it did not answer the collector either"
    assert "fetch_was_queued" in shrink["evidence"]
    assert would_have_stayed(twin, FAULT) == [False]
    assert twin.partition(FAULT, 0)["handover_kip501"]["leader"] is None
    metrics = twin.metrics()
    assert metrics.value("isr_shrinks_preventable", would_have_stayed="no") >= 1
    assert metrics.value("isr_shrinks_recent", verdict=shrink["verdict"]) >= 1
    texts = until(lambda: explained(twin, FAULT), SOON_S, "no event")
    assert any("KIP-501 would not have kept it" in text for text in texts)
    assert error_s(twin) <= FETCH_S * patience(lately=True)


def test_a_fetch_that_the_leader_works_on_would_have_kept_its_follower(twin: Pipeline) -> None:
    """KIP-501: a request handler has taken the fetch when the leader's reads stand still."""
    stdout = twin.cluster.layout.folder(4) / "stdout.log"
    asked_by_5(twin, READS, stopped_in(stdout, "kafka.server.ReplicaManager", "readFromLog"))
    # First, since it ends SLOW_FETCH_KEPT_MS after the fetch, which the rest may outlast.
    until(lambda: twin.partition(READS, 0)["handover_kip501"]["leader"] == 5, SOON_S,
          "a leader that took longer than the limit would not hand over")  # fmt: skip
    [shrink] = until(lambda: judged(twin, READS), SOON_S, "the twin does not judge the shrink")
    print(json.dumps(shrink))
    assert (shrink["leader"], shrink["broker"]) == (4, 5)
    assert shrink["verdict"] == "slow_leader", "it answered the collector all the time"
    assert "fetch_was_pending" in shrink["evidence"]
    assert would_have_stayed(twin, READS) == [True]
    assert twin.metrics().value("isr_shrinks_preventable", would_have_stayed="yes") >= 1
    texts = until(lambda: explained(twin, READS), SOON_S, "no event")
    assert any("KIP-501 would have kept it" in text for text in texts)
    assert error_s(twin) <= FETCH_S * patience(lately=True)


def test_the_example_of_kip_501_is_a_slow_leader_that_would_hand_over(twin: Pipeline) -> None:
    """The leader works on a fetch for several times the limit, and is alone in the ISR."""

    def risks() -> set[str]:
        return set(twin.partition(EXAMPLE, 0)["risks"])

    def lasts() -> bool:
        """The shrink is old enough for a replica that does not move to be called stuck."""
        partition = twin.partition(EXAMPLE, 0)
        assert "bootstrap_stuck" not in partition["risks"], partition["catching_up"]
        left = partition["isr_shrinks"]
        return (
            bool(left) and partition["observed_at_ms"] - left[0]["at_ms"] > STUCK_AFTER_MS + 5_000
        )

    stdout = twin.cluster.layout.folder(4) / "stdout.log"
    reads = stopped_in(stdout, "kafka.server.ReplicaManager", "readFromLog")
    with standing_still(twin, EXAMPLE, reads):
        until(lasts, SOON_S, "the twin does not see the shrink")
    not_slow = {"leader": 5, "is_cold": None, "is_slow": False}  # by its own measurements
    # First, as above.
    until(lambda: twin.partition(EXAMPLE, 0)["handover_kip501"] == not_slow, SOON_S)
    until(lambda: "slow_leader" in risks(), SOON_S, "no risk names the leader")
    [handover] = until(
        lambda: [
            e for e in twin.events() if e["kind"] == "kip501_handover" and e.get("topic") == EXAMPLE
        ],
        SOON_S,
        "no event reports the handover",
    )
    print(json.dumps(handover))
    assert (handover["broker"], handover["after"]) == (4, [5])
    assert twin.partition(EXAMPLE, 0)["kip501_ping_pong"] is None
    assert "bootstrap_stuck" not in risks()


def test_a_follower_that_stood_still_is_a_slow_follower(twin: Pipeline) -> None:
    led_by_4(twin, BEHIND)
    with written_to(twin.cluster, BEHIND):
        time.sleep(2)
        twin.cluster.pause(5)
        time.sleep(2 * LAG_S)  # thrown out after 3 to 4.5 s; fenced, it would be dead after 8.5 s
        twin.cluster.resume(5)
        until(lambda: shrinks(twin, BEHIND), SOON_S, "the twin knows of no shrink")
        until(lambda: shrinks(twin, BEHIND)[0]["rejoined_at_ms"], SOON_S, "it does not come back")
        until(lambda: explained(twin, BEHIND), SOON_S, "no event")
    [shrink] = shrinks(twin, BEHIND)
    print(json.dumps(shrink))
    assert (shrink["verdict"], shrink["leader"], shrink["broker"]) == ("slow_follower", 4, 5)
    assert would_have_stayed(twin, BEHIND) != [True]
    assert "it did not keep up" in explained(twin, BEHIND)[-1]
    assert error_s(twin) <= FETCH_S * patience(lately=True)


def remote_ends_agree(twin: Pipeline) -> bool:
    """The twin has the end of the remote log of each partition that its leader has."""
    client = BrokerClient(twin.cluster)
    leader = client.partitions(1, [LOG])
    kafka = {
        (LOG, n): client.offset(leader[LOG, n].leader, LOG, n, LATEST_TIERED) for n in PARTITIONS
    }
    ours = twin.metrics().by_partition("highest_remote_offset")
    return all(end > 0 and ours.get(key) == end for key, end in kafka.items())


def test_remote_segments_of_a_real_topic_end_where_its_leaders_say(
    twin: Pipeline, tiered_log: dict[Key, int]
) -> None:
    assert all(tiered_log[LOG, n] > 0 for n in PARTITIONS)
    until(lambda: twin.partition(LOG, 0)["remote_segments"]["gap_start_offset"] is None, 5, "a gap")

    # Deletion moves the log start, and remote segments below it go.
    admin = KafkaAdminClient(bootstrap_servers=twin.cluster.bootstrap)
    admin.delete_records({TopicPartition(LOG, 0): 150}, timeout_ms=20_000)
    admin.close()
    until(
        lambda: twin.metrics().by_partition("remote_log_bytes")[LOG, 0] < tiered_log[LOG, 0],
        60,
        "deleted segments still count",
    )
    until(lambda: remote_ends_agree(twin), 30, "remote ends differ after a deletion")


def test_a_consumer_of_old_records_is_seen_at_the_broker_that_reads_them(
    twin: Pipeline, tiered_log: dict[Key, int]
) -> None:
    def rate(broker: int) -> float | None:
        return twin.metrics().value("broker_remote_fetch_requests_per_second", broker=broker)

    leader = BrokerClient(twin.cluster).partition(1, LOG, 1).leader
    until(lambda: rate(leader) == 0, SOON_S, "its reads from remote storage are not known")
    consumer = KafkaConsumer(bootstrap_servers=twin.cluster.bootstrap, group_id=None,
                             auto_offset_reset="earliest", max_poll_records=20)  # fmt: skip
    place = TopicPartition(LOG, 1)
    consumer.assign([place])

    def read() -> bool:
        consumer.seek_to_beginning(place)
        consumer.poll(timeout_ms=500)
        return (rate(leader) or 0) > 0

    until(read, 40, "no reads from remote storage are seen")
    consumer.close(autocommit=False)
    others = {1, 2, 3, 4, 5} - {leader}
    assert {rate(broker) for broker in others} == {0}
    expected = {("remote_reads_began", leader), ("remote_reads_ended", leader)}
    until(
        lambda: {(e["kind"], e["broker"]) for e in twin.events() if "remote_reads" in e["kind"]}
        >= expected, 60, "there are no events",
    )  # fmt: skip


def test_the_risk_of_an_orphan_is_opened_once_it_has_lasted(orphan_risk: dict[str, Any]) -> None:
    assert (orphan_risk["topic"], orphan_risk["partition"]) == (LOST, 0)


def test_a_topic_that_is_deleted_takes_its_remote_segments_along(
    twin: Pipeline, orphan_risk: dict[str, Any]
) -> None:
    def counted() -> set[str]:
        return {topic for topic, _ in twin.metrics().by_partition("remote_log_bytes")}

    produce(twin.cluster, GONE, 200)
    until(lambda: {GONE, LOST} <= counted(), 60, "their segments are not counted")
    admin = KafkaAdminClient(bootstrap_servers=twin.cluster.bootstrap)
    admin.delete_topics([GONE, LOST], timeout_ms=20_000)
    admin.close()
    until(lambda: not {GONE, LOST} & counted(), 30, "their segments are still counted")
    assert twin.metrics().value("orphan_segments") == 0
    assert twin.metrics().total("observations_refused_total") == 0


def test_the_tap_leaves_the_request_logs_as_they_were(twin: Pipeline, orphan: Orphan) -> None:
    """The tap is ended as by Ctrl-C. Broker 5 was restarted for the orphan."""
    tap = twin.process("tap")
    before = len(twin.log("tap"))
    tap.send_signal(signal.SIGINT)
    assert tap.wait(200) == 0
    log = twin.log("tap")
    assert log[before:].count("request log restored") == 5
    assert log.count("broker=5 was=WARN") > 1, "it was restarted, and enabled again"
    assert "Traceback" not in log
