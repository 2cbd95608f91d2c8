"""From Kafka to /metrics through three real programs, while brokers and programs are lost."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from streaming import bus
from streaming.collector.own_metrics import OWN as COLLECTOR
from streaming.lab.cluster import LocalCluster
from streaming.lab.processes import Processes
from streaming.query.own_metrics import OWN as QUERY
from streaming.runtime.supervise import Child
from streaming.tap.own_metrics import OWN as TAP
from tests.cluster.broker_client import BrokerClient, Key, await_in_sync
from tests.cluster.pipeline import LIVE_S, STARTS_WITHIN_S, Pipeline
from tests.documented import undocumented
from tests.scraping import assert_declared, scrape
from tests.waiting import until
from tests.web import get
from twin.engine import frames

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

STEADY = "pipeline-steady"
LED_BY_3 = "pipeline-led-by-3"
ONLY_ON_3 = "pipeline-only-on-3"


@pytest.fixture(scope="module")
def programs(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """The three programs on three brokers."""
    await_in_sync(cluster)
    pipeline = Pipeline(cluster, tmp_path_factory.mktemp("pipeline"))
    pipeline.create_bus()
    create(
        cluster,
        **{STEADY: [[1, 2, 3], [2, 3, 1], [3, 1, 2]], LED_BY_3: [[3, 1], [3, 2]], ONLY_ON_3: [[3]]},
    )
    try:
        pipeline.start("collector", "query", "exporter")
        yield pipeline
    finally:
        pipeline.end()


@pytest.fixture
def pipeline(programs: Pipeline) -> Iterator[Pipeline]:
    """All programs and brokers as they should be, before the test and after it."""
    until(programs.is_live, STARTS_WITHIN_S, "the pipeline is not live")
    yield programs
    for node in programs.cluster.status():
        if node.state == "paused":
            programs.cluster.resume(node.id)
    programs.cluster.start()
    await_in_sync(programs.cluster)


def create(cluster: LocalCluster, **topics: list[list[int]]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics(
        {name: {"assignments": dict(enumerate(places))} for name, places in topics.items()},
        timeout_ms=20_000,
        wait_for_metadata=True,
    )
    admin.close()


def delete(cluster: LocalCluster, *topics: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.delete_topics(list(topics), timeout_ms=20_000)
    admin.close()
    client = BrokerClient(cluster)
    until(lambda: not {*topics} & {*client.topics(1)}, 20, "it is still there")


def leaders(cluster: LocalCluster) -> dict[Key, int]:
    return BrokerClient(cluster).leaders()


def cycles(pipeline: Pipeline, since_ms: int) -> list[int]:
    """When the cycles since then were observed."""
    topic = bus.topics(pipeline.config).observations
    observed: set[int] = set()
    with bus.Reader(pipeline.config, [topic], 400) as reader:
        while not reader.caught_up():
            for record in reader.poll(200):
                with suppress(ValueError):  # garbage that a test has sent
                    observed.add(frames.decode(record.value or b"").frames[0].header.observed_at_ms)
    return sorted(at_ms for at_ms in observed if at_ms >= since_ms)


def cycle_from_now(pipeline: Pipeline) -> Callable[[], bool]:
    """A condition: what is served was observed after this call."""
    now_s = time.time()
    return lambda: pipeline.observed_since(now_s)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_every_partition_appears_with_its_leader(pipeline: Pipeline) -> None:
    until(
        lambda: pipeline.metrics().by_partition("leader") == leaders(pipeline.cluster),
        30,
        "metrics and Kafka name different leaders",
    )
    metrics = pipeline.metrics()
    assert metrics.value("partitions") == len(metrics.by_partition("leader"))
    assert metrics.value("partitions_offline") == 0
    assert pipeline.get("/healthz")[0] == 200


def test_collector_and_query_serve_metrics_about_themselves(pipeline: Pipeline) -> None:
    ports = pipeline.config.metrics
    collector, query = scrape(ports.collector_port), scrape(ports.query_port)
    assert_declared(collector, COLLECTOR)
    assert_declared(query, QUERY)
    served = collector.text + query.text + pipeline.get("/metrics")[1]
    assert undocumented(served) == []
    assert collector.value("collector_cycle_duration_seconds_sum") > 0
    assert collector.value("collector_cycles_total") >= 1
    assert collector.value("collector_rounds_total", source="groups") >= 1
    assert collector.value("collector_rounds_total", source="metrics") >= 1
    until(
        lambda: all(
            count == 0 for _, count in scrape(ports.collector_port).series("collector_problems")
        ),
        LIVE_S,
        "the collector has problems",  # a busy machine may have been too slow for one cycle
    )
    now_s = time.time()
    until(
        lambda: scrape(ports.collector_port).value("collector_last_sent_timestamp_seconds") > now_s,
        LIVE_S, "the collector has sent nothing since",
    )  # fmt: skip
    assert query.value("query_state_rows") >= pipeline.config.bus.shards
    messages = query.value("query_observations_read_total") / query.value("query_batches_total")
    assert messages >= pipeline.config.bus.shards / 2, "a cycle has a message for each shard"
    assert query.value("query_remote_segments_running") == 1
    until(
        lambda: all(value == 0 for _, value in scrape(ports.query_port).series("query_stalled")),
        STARTS_WITHIN_S, "the query has stalled",
    )  # fmt: skip
    now_s = time.time()
    until(
        lambda: scrape(ports.query_port).value("query_last_batch_timestamp_seconds") > now_s,
        LIVE_S,
        "no batch begins",
    )


def test_it_says_that_no_broker_answers_although_its_bus_is_on_them(pipeline: Pipeline) -> None:
    frozen_s = time.time()
    for node in pipeline.cluster.status():
        pipeline.cluster.pause(node.id)

    def reason() -> str:
        status, why = pipeline.get("/healthz")
        return why if status == 503 and "not answered" in why else ""

    why = until(reason, 30, "/healthz says nothing")
    print(f"/healthz after {time.time() - frozen_s:.1f} s: {why}")
    assert why.startswith("the bus, which is on the watched cluster, has not answered since ")
    assert (pipeline.metrics().value("up"), pipeline.metrics().value("bus_up")) == (0, 0)
    url = f"http://127.0.0.1:{pipeline.config.metrics.collector_port}/healthz"
    _, why = until(lambda: (it := get(url))[0] == 503 and it)
    print(f"the collector after {time.time() - frozen_s:.1f} s: {why}")
    assert why.startswith("no broker has answered since ")
    for node in pipeline.cluster.status():
        pipeline.cluster.resume(node.id)
    until(lambda: pipeline.metrics().value("bus_up") == 1, 60, "the bus is still silent")
    until(pipeline.is_live, STARTS_WITHIN_S, "the pipeline is not live")
    until(lambda: get(url)[0] == 200, 30, "the collector does not get on")


def test_taps_serve_metrics_about_themselves(pipeline: Pipeline) -> None:
    missing, log = pipeline.folder / "missing.log", pipeline.folder / "tap.log"
    server_log = pipeline.cluster.layout.folder(1) / "server.log"
    command = [sys.executable, "-m", "streaming", "--config", str(pipeline.folder / "twin.toml"),
               "tap", "follow", "--from-beginning", f"1={server_log}", f"2={missing}"]  # fmt: skip
    port = pipeline.config.metrics.tap_port
    pipeline.programs["tap"] = Child("tap", command, log_file=log)
    try:
        pipeline.start("tap")
        until(lambda: get(f"http://127.0.0.1:{port}/metrics")[0] == 200, STARTS_WITHIN_S)
        until(lambda: scrape(port).value("tap_lines_total", broker="1") > 100)
        until(lambda: scrape(port).value("tap_behind_bytes", broker="1") == 0)
        scraped = scrape(port)
        assert_declared(scraped, TAP)
        assert undocumented(scraped.text) == []
        assert scraped.value("tap_logs", broker="1", state="readable") == 1
        assert scraped.value("tap_logs", broker="2", state="unreadable") == 1
    finally:
        assert pipeline.term("tap") == 0
        del pipeline.programs["tap"]


def test_a_paused_broker_did_not_answer_its_rows_age_and_the_others_stay_new(
    pipeline: Pipeline,
) -> None:
    pipeline.cluster.pause(3)
    until(lambda: pipeline.metrics().value("broker_answered", broker=3) == 0, 15, "it answers")
    since_s = time.time()

    def ages() -> dict[int, float]:
        replicas = pipeline.partition(STEADY, 0)["replicas"]
        return {replica["broker"]: replica["age_seconds"] for replica in replicas}

    # A client that has just asked 3 for the leaders of the bus waits for its answer: 5 s at most.
    until(lambda: ages()[3] > 3 + ages()[1], 30, "the row does not age")
    until(
        lambda: all(time.time() - ages()[broker] > since_s for broker in (1, 2)),
        30,
        "the rows of the others are not observed anew",
    )
    for _ in range(2):
        until(cycle_from_now(pipeline), 30, "the cycles have stopped")

    pipeline.cluster.resume(3)
    until(lambda: pipeline.metrics().value("broker_answered", broker=3) == 1, 15, "still silent")
    until(lambda: ages()[3] < 2 + ages()[1], 15, "the row stays old")


def test_a_killed_broker_is_reported_once_kafka_has_fenced_it(pipeline: Pipeline) -> None:
    client = BrokerClient(pipeline.cluster)
    pipeline.cluster.kill(3)
    until(lambda: client.fenced(1)[3], 60, "Kafka has not fenced it")
    until(
        lambda: (
            pipeline.metrics().by_partition("leader") == leaders(pipeline.cluster)
            and pipeline.metrics().value("broker_fenced", broker=3) == 1
        ),
        60,
        "metrics do not report it",
    )
    metrics = pipeline.metrics()
    assert metrics.by_partition("leader")[LED_BY_3, 0] == 1
    assert metrics.by_partition("leader")[LED_BY_3, 1] == 2
    assert metrics.by_partition("leader")[ONLY_ON_3, 0] == -1
    # Topics of other tests may have lived on that broker alone.
    offline = [key for key, leader in leaders(pipeline.cluster).items() if leader == -1]
    assert metrics.value("partitions_offline") == len(offline) >= 1

    pipeline.cluster.start()
    await_in_sync(pipeline.cluster)
    until(
        lambda: (
            pipeline.metrics().value("partitions_under_replicated") == 0
            and pipeline.metrics().value("broker_fenced", broker=3) == 0
        ),
        30,
        "metrics do not report that it is back",
    )


def test_a_killed_collector_is_seen_by_age_and_goes_on_when_restarted(pipeline: Pipeline) -> None:
    before = pipeline.metrics()
    pipeline.kill("collector")
    until(lambda: pipeline.metrics().age_s > LIVE_S, 2 * LIVE_S, "the observations do not age")
    assert pipeline.metrics().by_partition("leader") == before.by_partition("leader")
    is_back = cycle_from_now(pipeline)
    pipeline.start("collector")
    until(is_back, 30, "no new observations")
    assert pipeline.metrics().by_partition("leader") == before.by_partition("leader")


def test_a_killed_exporter_serves_the_same_again(pipeline: Pipeline) -> None:
    create(pipeline.cluster, **{"pipeline-new": [[1]]})
    until(
        lambda: (
            pipeline.metrics().by_partition("leader") == leaders(pipeline.cluster)
            and pipeline.metrics().value("events_total", kind="partition_created")
        ),
        30,
        "the new topic is not served",
    )
    before = pipeline.metrics()
    pipeline.kill("exporter")
    assert pipeline.get("/metrics") == (0, "")
    pipeline.start("exporter")
    until(lambda: pipeline.metrics().is_live, 30, "the exporter does not serve")
    until(
        lambda: pipeline.metrics().total("events_total") >= before.total("events_total"),
        10,
        "counters have gone back",
    )
    assert pipeline.metrics().by_partition("leader") == before.by_partition("leader")


def test_a_killed_query_goes_on_from_its_checkpoint_and_repeats_no_event_differently(
    pipeline: Pipeline,
) -> None:
    jvm = helpers(pipeline.process("query").pid)
    assert jvm, "Spark has no process of its own"
    pipeline.kill("query")
    until(lambda: are_gone(jvm), 30, "Spark goes on")
    create(pipeline.cluster, **{"pipeline-meanwhile": [[1], [2]]})
    time_ms = now_ms()
    until(lambda: len(cycles(pipeline, time_ms)) >= 3, 20, "the collector has stopped")
    delete(pipeline.cluster, "pipeline-meanwhile")  # over before the query is back
    is_back = cycle_from_now(pipeline)
    pipeline.start("query")
    until(is_back, STARTS_WITHIN_S, "the query does not go on")
    events = unique_events(pipeline)
    about = [(e["kind"], e["partition"]) for e in events if e.get("topic") == "pipeline-meanwhile"]
    for number in (0, 1):
        assert about.count(("partition_created", number)) == 1
        assert about.count(("partition_deleted", number)) == 1


def test_a_query_that_lost_its_checkpoint_is_rebuilt_from_the_observations(
    pipeline: Pipeline,
) -> None:
    before = {event["id"] for event in unique_events(pipeline)}
    assert pipeline.term("query") == 0
    pipeline.lose_checkpoint()
    lost_at_ms = now_ms()
    pipeline.start("query")
    until(lambda: pipeline.observed_since(lost_at_ms / 1_000), STARTS_WITHIN_S, "it is not rebuilt")
    assert pipeline.metrics().by_partition("leader") == leaders(pipeline.cluster)
    after = [e for e in unique_events(pipeline) if e["at_ms"] < lost_at_ms - LIVE_S * 1_000]
    assert {event["id"] for event in after} <= before, "the past is reported differently"


def helpers(pid: int) -> list[int]:
    """Processes that a process has started, and those they have."""
    listed = subprocess.run(
        ["ps", "-axo", "pid=,ppid="], capture_output=True, check=True, text=True
    )
    parent = dict(map(int, line.split()) for line in listed.stdout.splitlines())
    family = [pid]
    for member in family:  # grows as it is gone through
        family += [child for child, its_parent in parent.items() if its_parent == member]
    return family[1:]


def are_gone(pids: list[int]) -> bool:
    running = Processes()
    return all(running.state(pid, ()) == "stopped" for pid in pids)


def unique_events(pipeline: Pipeline) -> list[dict]:
    """Every event once; repeats under one id must say the same."""
    by_id: dict[str, dict] = {}
    for event in pipeline.events():
        assert by_id.setdefault(event["id"], event) == event
    return list(by_id.values())


def test_garbage_among_the_observations_is_counted_and_nothing_else_happens(
    pipeline: Pipeline,
) -> None:
    query = pipeline.process("query").pid
    producer = KafkaProducer(bootstrap_servers=pipeline.cluster.bootstrap)
    topic = bus.topics(pipeline.config).observations
    sent = producer.send(topic, b"no frame at all", key=bus.key("real", 0)).get(10)
    producer.close()
    until(
        lambda: pipeline.metrics().value("observations_refused_total", reason="bytes") == 1,
        20,
        "it is not counted",
    )
    refused = [e for e in unique_events(pipeline) if e["kind"] == "observation_refused"]
    assert [(e["key"], e["partition"], e["offset"], e["reason"]) for e in refused] == [
        ("real/0", sent.partition, sent.offset, "bytes")
    ]
    until(cycle_from_now(pipeline), 30, "the query has stopped")
    assert pipeline.alive("query")
    assert pipeline.process("query").pid == query


def test_a_recreated_topic_is_a_new_one_and_nothing_of_the_old_is_left(pipeline: Pipeline) -> None:
    topic = "pipeline-again"

    def served() -> dict[int, int]:
        ends = pipeline.metrics().by_partition("log_end_offset")
        return {number: end for (name, number), end in ends.items() if name == topic}

    def topic_id() -> str:
        written = BrokerClient(pipeline.cluster).partition(1, topic).topic_id
        return base64.urlsafe_b64encode(written).rstrip(b"=").decode()

    create(pipeline.cluster, **{topic: [[1, 2], [2, 3], [3, 1]]})
    producer = KafkaProducer(bootstrap_servers=pipeline.cluster.bootstrap)
    for number in (0, 1, 2):
        producer.send(topic, b"old", partition=number).get(10)
    producer.close()
    until(lambda: served() == {0: 1, 1: 1, 2: 1}, 60, "the topic does not appear")
    old = topic_id()
    assert pipeline.partition(topic, 0)["topic_id"] == old

    delete(pipeline.cluster, topic)
    create(pipeline.cluster, **{topic: [[3, 1]]})
    until(lambda: served() == {0: 0}, 60, "the old topic stays")
    assert topic_id() != old
    until(lambda: pipeline.partition(topic, 0)["topic_id"] == topic_id(), 60, "the old id stays")
    assert pipeline.partition(topic, 0)["leader"] == 3


def test_losing_a_broker_that_holds_the_bus_delays_the_news_and_loses_nothing(
    pipeline: Pipeline,
) -> None:
    client = BrokerClient(pipeline.cluster)
    pipeline.cluster.kill(2)
    until(lambda: client.fenced(1).get(2), 60, "Kafka has not fenced it")
    until(
        lambda: (
            pipeline.metrics().is_live
            and pipeline.metrics().by_partition("leader") == leaders(pipeline.cluster)
            and pipeline.metrics().value("broker_fenced", broker=2) == 1
        ),
        60,
        "metrics do not report it",
    )
    assert all(pipeline.alive(name) for name in pipeline.programs)
    unique_events(pipeline)


def test_each_program_ends_when_asked_without_a_word_too_much(pipeline: Pipeline) -> None:
    main = [pipeline.process(name).pid for name in pipeline.programs]
    started = [pid for parent in main for pid in (parent, *helpers(parent))]
    codes = {name: pipeline.term(name) for name in pipeline.programs}
    assert codes == dict.fromkeys(pipeline.programs, 0)
    for name in pipeline.programs:
        assert "Traceback" not in pipeline.log(name), pipeline.log(name)
        assert "stopped" in pipeline.log(name).splitlines()[-1]
    until(lambda: are_gone(started), 10, "something is left")
