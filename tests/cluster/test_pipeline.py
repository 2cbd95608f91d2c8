"""From Kafka to /metrics through three real programs, while brokers are lost."""

from __future__ import annotations

import base64
import sys
import time

import pytest
from kafka import KafkaProducer

from streaming.bus import bus_topics, record
from streaming.collector.own_metrics import OWN as COLLECTOR
from streaming.query.own_metrics import OWN as QUERY
from streaming.runtime.supervise import Child
from streaming.tap.own_metrics import OWN as TAP
from tests.cluster.broker_client import BrokerClient, await_in_sync
from tests.cluster.pipeline import LIVE_S, STARTS_WITHIN_S, Pipeline
from tests.cluster.programs import (
    LED_BY_3,
    ONLY_ON_3,
    STEADY,
    are_gone,
    create,
    cycle_from_now,
    delete,
    helpers,
    leaders,
    unique_events,
)
from tests.documented import undocumented
from tests.scraping import assert_declared, scrape
from tests.waiting import until
from tests.web import get

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


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
    until(
        lambda: any(scrape(ports.query_port).series("query_state_rows")),
        STARTS_WITHIN_S,
        "no batch has ended",  # what it computed is served before
    )
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
        LIVE_S,
        "the collector has sent nothing since",
    )
    assert query.value("query_state_rows") >= pipeline.config.bus.shards
    messages = query.value("query_observations_read_total") / query.value("query_batches_total")
    assert messages >= pipeline.config.bus.shards / 2, "a cycle has a message for each shard"
    assert query.value("query_remote_segments_running") == 1
    until(
        lambda: all(value == 0 for _, value in scrape(ports.query_port).series("query_stalled")),
        STARTS_WITHIN_S,
        "the query has stalled",
    )
    now_s = time.time()
    until(
        lambda: scrape(ports.query_port).value("query_last_batch_timestamp_seconds") > now_s,
        LIVE_S,
        "no batch begins",
    )


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


def test_garbage_among_the_observations_is_counted_and_nothing_else_happens(
    pipeline: Pipeline,
) -> None:
    query = pipeline.process("query").pid
    producer = KafkaProducer(bootstrap_servers=pipeline.cluster.bootstrap)
    topic = bus_topics.topics(pipeline.config).observations
    sent = producer.send(topic, b"no frame at all", key=record.key("real", 0)).get(10)
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


def test_each_program_ends_when_asked_without_a_word_too_much(pipeline: Pipeline) -> None:
    main = [pipeline.process(name).pid for name in pipeline.programs]
    started = [pid for parent in main for pid in (parent, *helpers(parent))]
    codes = {name: pipeline.term(name) for name in pipeline.programs}
    assert codes == dict.fromkeys(pipeline.programs, 0)
    for name in pipeline.programs:
        assert "Traceback" not in pipeline.log(name), pipeline.log(name)
        assert "stopped" in pipeline.log(name).splitlines()[-1]
    until(lambda: are_gone(started), 10, "something is left")
