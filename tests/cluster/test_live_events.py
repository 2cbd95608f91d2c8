"""What happens between polls, on real brokers: taps, remote segments, brokers' own measurements.

Brokers 4 and 5 can be paused and killed without the bus or the controllers noticing. A follower is
thrown out of the ISR after 3 s, well before a frozen broker is fenced after 9 s.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from streaming.lab.cluster import LocalCluster, free_base_port
from streaming.runtime.supervise import Child
from streaming.tap.request_log_level import CHECK_EVERY_S, ENABLED, level
from tests.cluster import asking
from tests.cluster.asking import until
from tests.cluster.conftest import running
from tests.cluster.debugger import AGENT, stopped
from tests.cluster.direct import TIERED, Direct, produce
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LAG_S = 3
FETCH_S = 0.6
"""A follower's fetch waits half a second at the most."""

SOON_S = 20
FAULT, BEHIND, LOG, LOST = "live-fault", "live-behind", "live-log", "live-lost"


@pytest.fixture(scope="module")
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("live")
    settings = {
        "replica.lag.time.max.ms": str(LAG_S * 1_000),
        "auto.leader.rebalance.enable": "false",
    }
    local = LocalCluster(home, brokers=2, base_port=free_base_port(), settings=settings,
                         java_opts=(AGENT,))  # fmt: skip
    with running(local, request.session) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def programs(brokers: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """The three programs, and a tap of all five brokers' logs."""
    pipeline = Pipeline(brokers, tmp_path_factory.mktemp("live-pipeline"))
    pipeline.create_bus()
    direct = Direct(brokers)
    direct.create(LOG, [[4, 5], [5, 4], [4, 5]], TIERED | {"local.retention.bytes": "20000"})
    direct.create(LOST, [[4, 5]], TIERED | {"unclean.leader.election.enable": "true",
                                            "min.insync.replicas": "1"})  # fmt: skip
    logs = [
        f"{node}={brokers.layout.folder(node) / name}"
        for node in brokers.layout.ids
        for name in ("request.log", "server.log")
    ]
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
    until(lambda: programs.metrics().is_live, STARTS_WITHIN_S, "the twin is not live")
    # A broker that the test before has restarted is enabled again within CHECK_EVERY_S.
    until(lambda: all_tell(programs.cluster), 2 * CHECK_EVERY_S, "a request log is not on")
    yield programs
    for node in programs.cluster.status():
        if node.state == "paused":
            programs.cluster.resume(node.id)
    programs.cluster.start()
    asking.whole(programs.cluster)


def all_tell(cluster: LocalCluster) -> bool:
    """The request log of every broker is on."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        return all(level(admin, node) == ENABLED for node in cluster.layout.ids)


def _producer(cluster: LocalCluster) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap, acks=1, linger_ms=0,
                         enable_idempotence=False)  # fmt: skip


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
    Direct(twin.cluster).create(topic, [[4, 5]], {"min.insync.replicas": "1"})
    until(lambda: twin.partition(topic, 0), SOON_S, "the twin does not know the topic")


def shrinks(twin: Pipeline, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = twin.partition(topic, 0).get("isr_shrinks", [])
    return found


def judged(twin: Pipeline, topic: str) -> list[dict[str, Any]] | None:
    """The shrinks, once a fetch that waited is known: brokers log a request as they answer it."""
    found = shrinks(twin, topic)
    return found if any("fetch_was_pending" in s["evidence"] for s in found) else None


def explained(twin: Pipeline, topic: str) -> list[str]:
    return [e["text"] for e in twin.events()
            if e["kind"] == "isr_shrink_explained" and e.get("topic") == topic]  # fmt: skip


def error_s(twin: Pipeline) -> float:
    """How far the twin's caught-up times are from those that leaders stated."""
    told: list[float | None] = []

    def known() -> bool:
        told.append(twin.metrics().value("caught_up_error_seconds"))
        return told[-1] is not None

    until(known, SOON_S, "no error is served")
    print(f"caught-up error: {told[-1]} s")
    return told[-1] or 0.0


def test_an_unclean_leader_leaves_an_orphan(twin: Pipeline) -> None:
    """Broker 5 misses what 4 uploads, and leads once 4 is lost: its history leaves that out.

    First of all: what it risks is told after a minute, in which the other tests run.
    """
    direct = Direct(twin.cluster)

    def tiered(enough: int) -> bool:
        return asking.offsets(twin.cluster.layout.port(4), {LOST: [0]}, -5)[LOST, 0] > enough

    produce(twin.cluster, LOST, 200)
    asking.whole(twin.cluster)
    until(lambda: tiered(180), 30, "4 uploads nothing")
    twin.cluster.kill(5)
    until(lambda: direct.partitions(1, [LOST])[LOST, 0][1].isr_nodes == [4], 30, "5 is in the ISR")
    produce(twin.cluster, LOST, 200)
    until(lambda: tiered(360), 30, "4 uploads nothing more")
    twin.cluster.kill(4)
    asking.settled(twin.cluster, lost=[4, 5])
    twin.cluster.start([5])
    until(lambda: direct.partitions(1, [LOST])[LOST, 0][1].leader_id == 5, 60, "5 does not lead")
    produce(twin.cluster, LOST, 200)
    until(lambda: (twin.metrics().value("orphan_segments") or 0) > 0, 60, "no orphan is found")
    found = twin.partition(LOST, 0)["remote_segments"]
    print(found)
    assert found["orphan_segments"] > 0
    assert twin.metrics().by_partition("orphan_bytes")[LOST, 0] == found["orphan_bytes"] > 0


def test_a_leader_that_stood_still_threw_out_a_healthy_follower(twin: Pipeline) -> None:
    """KIP-501: the follower's fetch has reached a leader whose request handlers stand still."""
    led_by_4(twin, FAULT)
    direct = Direct(twin.cluster)

    def isr() -> list[int]:
        found: list[int] = direct.partitions(1, [FAULT])[FAULT, 0][1].isr_nodes
        return found

    with closing(_producer(twin.cluster)) as producer:
        for _ in range(10):
            producer.send(FAULT, b"x", partition=0).get(SOON_S)
        # The leader gets a record that the follower asks for only once nobody handles requests.
        twin.cluster.pause(5)
        producer.send(FAULT, b"x", partition=0).get(SOON_S)
    stdout = twin.cluster.layout.folder(4) / "stdout.log"
    with stopped(stdout, "data-plane-kafka-request-handler"):
        assert isr() == [4, 5]
        twin.cluster.resume(5)
        until(lambda: isr() == [4], 3 * LAG_S, "5 is still in the ISR")
    [shrink] = until(lambda: judged(twin, FAULT), SOON_S, "the twin does not judge the shrink")
    print(json.dumps(shrink))
    assert (shrink["leader"], shrink["broker"]) == (4, 5)
    assert shrink["verdict"] == "frozen_leader", "since it did not answer the collector either"
    assert "fetch_was_pending" in shrink["evidence"]
    assert shrink["kip501"]["kept_by_solution_1"] is True
    until(lambda: twin.partition(FAULT, 0)["kip501"]["hands_over_to"] == 5, SOON_S,
          "a leader that took longer than the limit would not hand over")  # fmt: skip
    metrics = twin.metrics()
    assert metrics.value("isr_shrinks_preventable", kept="yes") >= 1
    assert metrics.value("isr_shrinks_recent", verdict=shrink["verdict"]) >= 1
    told = until(lambda: explained(twin, FAULT), SOON_S, "no event")
    assert any("KIP-501 would have kept it" in text for text in told)
    assert error_s(twin) <= FETCH_S


def test_a_follower_that_stood_still_is_a_slow_follower(twin: Pipeline) -> None:
    led_by_4(twin, BEHIND)
    with written_to(twin.cluster, BEHIND):
        time.sleep(2)
        twin.cluster.pause(5)
        time.sleep(2 * LAG_S)  # thrown out after 3 to 4.5 s; fenced, it would be dead after 8.5 s
        twin.cluster.resume(5)
        until(lambda: shrinks(twin, BEHIND), SOON_S, "the twin knows of no shrink")
        until(lambda: shrinks(twin, BEHIND)[0]["back_at_ms"], SOON_S, "it does not come back")
        until(lambda: explained(twin, BEHIND), SOON_S, "no event")
    [shrink] = shrinks(twin, BEHIND)
    print(json.dumps(shrink))
    assert (shrink["verdict"], shrink["leader"], shrink["broker"]) == ("slow_follower", 4, 5)
    assert shrink["kip501"]["kept_by_solution_1"] is not True
    assert "it did not keep up" in explained(twin, BEHIND)[-1]
    assert error_s(twin) <= FETCH_S


def tiered_ends(cluster: LocalCluster, topic: str, numbers: range) -> dict[asking.Key, int]:
    """ListOffsets -5 of each partition's leader."""
    said = asking.partitions(cluster.layout.port(1), [topic])
    return {
        (topic, n): asking.offsets(cluster.layout.port(said[topic, n].leader), {topic: [n]}, -5)[
            topic, n
        ]
        for n in numbers
    }


def test_remote_segments_of_a_real_topic_end_where_its_leaders_say(twin: Pipeline) -> None:
    numbers = range(3)
    for n in numbers:
        produce(twin.cluster, LOG, 300 + 40 * n, partition=n)

    def agree() -> bool:
        kafka = tiered_ends(twin.cluster, LOG, numbers)
        ours = twin.metrics().by_partition("highest_remote_offset")
        return all(kafka[k] > 0 and ours.get(k) == kafka[k] for k in kafka)

    until(agree, 60, "tiered ends differ")
    known = twin.metrics().by_partition("remote_log_bytes")
    assert all(known[LOG, n] > 0 for n in numbers)
    until(lambda: twin.partition(LOG, 0)["remote_segments"]["gap_start_offset"] is None, 5, "a gap")

    # Deletion moves the log start, and remote segments below it go.
    admin = KafkaAdminClient(bootstrap_servers=twin.cluster.bootstrap)
    admin.delete_records({TopicPartition(LOG, 0): 150}, timeout_ms=20_000)
    admin.close()
    until(
        lambda: twin.metrics().by_partition("remote_log_bytes")[LOG, 0] < known[LOG, 0], 60,
        "deleted segments still count",
    )  # fmt: skip
    until(agree, 30, "tiered ends differ after a deletion")


def test_a_consumer_of_old_records_is_seen_at_the_broker_that_reads_them(twin: Pipeline) -> None:
    def rate(broker: int) -> float | None:
        return twin.metrics().value("broker_remote_fetch_requests_per_second", broker=broker)

    leader = asking.partitions(twin.cluster.layout.port(1), [LOG])[LOG, 1].leader
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
    told = {("remote_reads_began", leader), ("remote_reads_ended", leader)}
    until(
        lambda: {(e["kind"], e["broker"]) for e in twin.events() if "remote_reads" in e["kind"]}
        >= told, 60, "it is not told of",
    )  # fmt: skip


def test_the_risk_of_an_orphan_is_opened_once_it_has_lasted(twin: Pipeline) -> None:
    until(
        lambda: any(e["kind"] == "risk_opened" and e.get("detail") == "orphan_segments"
                    and e.get("topic") == LOST for e in twin.events()), 120, "no risk is opened",
    )  # fmt: skip


def test_a_topic_that_is_deleted_takes_its_remote_segments_along(twin: Pipeline) -> None:
    admin = KafkaAdminClient(bootstrap_servers=twin.cluster.bootstrap)
    admin.delete_topics([LOG, LOST], timeout_ms=20_000)
    admin.close()
    until(
        lambda: not {LOG, LOST} & {t for t, _ in twin.metrics().by_partition("remote_log_bytes")},
        30, "its segments are still counted",
    )  # fmt: skip
    assert twin.metrics().value("orphan_segments") == 0
    refused = twin.metrics().total("observations_refused_total")
    assert refused == 0


def test_the_tap_leaves_the_request_logs_as_they_were(programs: Pipeline) -> None:
    """Last of all: the tap is ended as by Ctrl-C."""
    import signal

    tap = programs.process("tap")
    tap.send_signal(signal.SIGINT)
    assert tap.wait(20) == 0
    said = programs.log("tap")
    assert said.count("request log restored") == 5
    assert said.count("broker=5 was=WARN") > 1, "it was restarted, and enabled again"
    assert "Traceback" not in said
