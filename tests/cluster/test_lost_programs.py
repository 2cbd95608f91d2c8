"""Collector, query or exporter is killed, or brokers with the bus are lost; the rest goes on.

Every program starts although one of the three bootstrap addresses hangs, whichever it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

import pytest

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import clients
from tests.cluster.broker_client import BrokerClient
from tests.cluster.pipeline import LIVE_S, STARTS_WITHIN_S, Pipeline
from tests.cluster.programs import (
    are_gone,
    create,
    cycle_from_now,
    delete,
    helpers,
    leaders,
    unique_events,
)
from tests.waiting import until
from tests.web import get
from twin.engine import frames

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.losses]


STARTS: Final = int(os.environ.get("FROZEN_STARTS", "1"))
COMMANDS: Final = (
    (["check"], (0,)),
    (["gate", "restart", "--broker", "1"], (0, 1)),  # 2: no answer
    (["whatif", "lose", "--broker", "2"], (0,)),
)
"""Each with the exit codes of an answer."""


def cycles(pipeline: Pipeline, since_ms: int) -> list[int]:
    """When the cycles since then were observed."""
    topic = bus_topics.topics(pipeline.config).observations
    observed: set[int] = set()
    with Reader(pipeline.config, [topic], 400) as reader:
        for record in reader.to_end(Deadline.after_s(60)):
            with suppress(ValueError):  # garbage that a test has sent
                observed.add(frames.decode(record.value or b"").frames[0].header.observed_at_ms)
    return sorted(at_ms for at_ms in observed if at_ms >= since_ms)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


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


def run(pipeline: Pipeline, command: list[str]) -> tuple[int, str]:
    """Exit code and output of a command."""
    config = str(pipeline.folder / "twin.toml")
    ended = subprocess.run(
        [sys.executable, "-m", "streaming", "--config", config, *command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def await_new(pipeline: Pipeline, within_s: float, otherwise: str) -> None:
    """Wait until the exporter serves what was observed after now."""
    since_s = time.time()
    until(lambda: pipeline.observed_since(since_s), within_s, otherwise)


@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_every_program_starts_while_a_bootstrap_address_hangs(
    pipeline: Pipeline, frozen: int
) -> None:
    pipeline.cluster.pause(frozen)
    frozen_s = time.time()
    # Brokers and controllers need a while until another one leads what the frozen one led.
    until(lambda: pipeline.observed_since(frozen_s + 1), 60, "the twin does not go on")
    place = clients.places(pipeline.cluster.bootstrap)[frozen - 1]
    for _ in range(STARTS):
        for command, answers in COMMANDS:
            began_s = time.monotonic()
            code, output = run(pipeline, command)
            print(*command, f"{time.monotonic() - began_s:.1f} s")
            assert code in answers, output
            assert command != ["check"] or f"cluster.bootstrap {place}: cannot be" in output
        pipeline.kill("exporter")
        pipeline.start("exporter")
        await_new(pipeline, 30, "the exporter serves nothing")
        for name in ("collector", "query"):
            assert pipeline.term(name) == 0
            pipeline.start(name)
        await_new(pipeline, STARTS_WITHIN_S, "it does not start")
    assert all(pipeline.alive(name) for name in pipeline.programs)
