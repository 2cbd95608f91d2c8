"""Each source of an observation: what fails is a problem, and is over once it succeeds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
)
from structlog.testing import capture_logs

from streaming.bus.connection import BusError
from streaming.checks.rights import WITHOUT
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.cycle_log import CycleLog
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.cycle.program import collect
from streaming.collector.problem import Problem
from streaming.collector.source import EveryBrokerSource
from streaming.collector.sources import ABOUT, SOURCES
from streaming.collector.sources.groups import GroupSource
from streaming.collector.sources.jmx import MetricsSource
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import (
    BusConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
    EligibilityConfig,
    TopicThreshold,
)
from tests.collector.fake_broker import (
    Error,
    FakeCluster,
    Log,
    Partition,
    Topic,
    Transaction,
    World,
    fake_cluster,
)
from tests.collector.fake_exporter import NEVER_S, Exporter
from tests.collector.fake_groups import GROUP_AUTHORIZATION_FAILED, Group
from tests.waiting import patient_ms

DENIED_TOPIC = "TopicAuthorizationFailed"
UNKNOWN_SERVER_ERROR = -1
MOST_CYCLES = 60


@dataclass
class Stage:
    """Three brokers, an exporter of broker 1, and a collector that reads everything each cycle."""

    cluster: FakeCluster
    exporter: Exporter
    collector: Collector
    cycle_log: CycleLog

    @property
    def world(self) -> World:
        return self.cluster.world

    @property
    def orders(self) -> Partition:
        return self.world.topics["orders"].partitions[0]

    def cycle(self) -> tuple[Problem, ...]:
        observation = self.collector.observe()
        problems = self.collector.problems
        assert observation is None or tuple(observation.problems) == problems
        self.cycle_log.cycle(problems, 1.0, observation)
        return problems

    def until(self, holds: Callable[[tuple[Problem, ...]], bool]) -> tuple[Problem, ...]:
        """The problems of the first cycle for which it holds."""
        for _ in range(MOST_CYCLES):
            if holds(problems := self.cycle()):
                return problems
            time.sleep(0.05)
        raise AssertionError(f"it never holds; the last problems are {problems}")


@pytest.fixture
def stage(exporter: Callable[..., Exporter]) -> Iterator[Stage]:
    """Everything is well."""
    logs = {b: Log(0, 30, 100, last_tiered=59, pending=60, first_ms=5_000) for b in (1, 2)}
    settings = {"min.insync.replicas": "2", "remote.storage.enable": "true"}
    tiered = Partition([1, 2], isr=[1], elr=[2], logs=logs, history=[(0, 0)])
    world = World(
        topics={
            "orders": Topic({0: tiered}, configs=settings),
            "plain": Topic({0: Partition([3], logs={3: Log(0, 0, 10, first_ms=5_000)})}),
        },
        racks={1: "az-a", 2: "az-b", 3: "az-c"},
        groups={"readers": Group(1, {("orders", 0): 5})},
    )
    one = exporter()
    with fake_cluster(world) as cluster, _collector(cluster, one) as collector:
        made = Stage(cluster, one, collector, CycleLog())
        made.until(lambda problems: not problems)
        yield made


@contextmanager
def _collector(cluster: FakeCluster, one: Exporter) -> Iterator[Collector]:
    config = Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        bus=BusConfig(shards=2),
        collector=CollectorConfig(deadline_ms=patient_ms(400), config_interval_ms=0,
                          metrics_interval_ms=200, groups_interval_ms=200,
                          metrics_urls={"1": one.url}),
        eligibility=EligibilityConfig(topics=[TopicThreshold(pattern="a.*", local_log_ms=5),
                                        TopicThreshold(pattern=".*b", local_log_ms=6)]),
    )  # fmt: skip
    with (
        BrokerConnections(cluster.bootstrap, {}, config.collector.deadline_ms) as brokers,
        MetricsSource(config.collector) as metrics,
        GroupSource(config, brokers.client_id) as groups,
    ):
        yield Collector(config, brokers, metrics, groups, retry_denied_ms=0)


# ---------------------------------------------------------------- what fails, and how it is mended


@dataclass
class Failure:
    """``breaks`` returns how to mend it."""

    source: str
    error: str
    breaks: Callable[[Stage], Callable[[], object]]
    how: str = "denied"

    def __str__(self) -> str:
        return f"{self.source} {self.how}"


def denied(api: Any) -> Callable[[Stage], Callable[[], object]]:
    def breaks(stage: Stage) -> Callable[[], object]:
        stage.world.denied.add(api.API_KEY)
        return stage.world.denied.clear

    return breaks


def failing(api: Any) -> Callable[[Stage], Callable[[], object]]:
    def breaks(stage: Stage) -> Callable[[], object]:
        brokers = stage.cluster.brokers.values()
        for broker in brokers:
            fails = partial(broker.by_schema, error=UNKNOWN_SERVER_ERROR)
            broker.answers[api.API_KEY] = fails
        return lambda: [broker.answers.clear() for broker in brokers]

    return breaks


def silent(
    api: Any, prepare: Callable[[Stage], object] = lambda _: None
) -> Callable[[Stage], Callable[[], object]]:
    """A failure in which no broker answers one kind of request."""

    def breaks(stage: Stage) -> Callable[[], object]:
        prepare(stage)
        for broker in stage.cluster.brokers.values():
            broker.silent = {api.API_KEY}
        return lambda: speak(stage)

    return breaks


def speak(stage: Stage) -> None:
    for broker in stage.cluster.brokers.values():
        broker.silent = False


def all_silent(stage: Stage) -> Callable[[], object]:
    for broker in stage.cluster.brokers.values():
        broker.silent = True
    return lambda: speak(stage)


def one_silent(stage: Stage) -> Callable[[], object]:
    other = next(b for b in (1, 2, 3) if b != stage.collector.metadata_broker)
    stage.cluster[other].silent = True
    return lambda: speak(stage)


def hidden(stage: Stage) -> Callable[[], object]:
    stage.world.hidden = {"plain"}
    return stage.world.hidden.clear


def no_offsets(stage: Stage) -> Callable[[], object]:
    log = stage.orders.logs[2]
    log.log_end = Error(29)
    return lambda: setattr(log, "log_end", 100)


def broken_disk(stage: Stage) -> Callable[[], object]:
    directory = DescribeLogDirsResponse.DescribeLogDirsResult(
        error_code=56, log_dir="/d", topics=[], total_bytes=-1, usable_bytes=-1
    )
    answers = stage.cluster[2].answers
    key = DescribeLogDirsRequest.API_KEY
    answers[key] = lambda *_: DescribeLogDirsResponse(results=[directory])
    return answers.clear


def contradicting_patterns(stage: Stage) -> Callable[[], object]:
    stage.world.topics["ab"] = Topic({0: Partition([1])})
    return lambda: stage.world.topics.pop("ab")


def local_start_moves(stage: Stage) -> None:
    for log in stage.orders.logs.values():
        log.local_start += 1


def unreadable(stage: Stage) -> Callable[[], object]:
    stage.world.unreadable = {"orders"}
    local_start_moves(stage)
    return stage.world.unreadable.clear


def leader_epoch_moves(stage: Stage) -> None:
    stage.orders.epoch, stage.orders.history = 1, [(0, 0), (1, 80)]


def history_denied(stage: Stage) -> Callable[[], object]:
    leader_epoch_moves(stage)
    stage.world.unreadable = {"orders"}
    return stage.world.unreadable.clear


def transaction_stays_open(stage: Stage) -> Callable[[], object]:
    log = stage.orders.logs[1]
    log.last_stable = 60
    stage.world.transactions = [Transaction("orders", 0, start=60)]
    return lambda: setattr(log, "last_stable", None)


def producers_denied(stage: Stage) -> Callable[[], object]:
    ended = transaction_stays_open(stage)
    stage.world.unreadable = {"orders"}
    return lambda: (ended(), stage.world.unreadable.clear())


def transactional_ids_denied(stage: Stage) -> Callable[[], object]:
    stage.world.ids_hidden = True
    return transaction_stays_open(stage)


def exporter_fails(**wrong: Any) -> Callable[[Stage], Callable[[], object]]:
    def breaks(stage: Stage) -> Callable[[], object]:
        right = {name: getattr(stage.exporter, name) for name in wrong}
        for name, value in wrong.items():
            setattr(stage.exporter, name, value)
        return lambda: [setattr(stage.exporter, name, value) for name, value in right.items()]

    return breaks


def group_denied(stage: Stage) -> Callable[[], object]:
    group = stage.world.groups["readers"]
    group.error = GROUP_AUTHORIZATION_FAILED
    return lambda: setattr(group, "error", 0)


OF_THEIR_OWN = [
    Failure("cluster", "Unreachable", all_silent, "silent"),
    Failure("metadata", "Timeout", all_silent, "silent"),
    Failure("broker", "Timeout", one_silent, "silent"),
    Failure("topics", DENIED_TOPIC, hidden),
    Failure("offsets", DENIED_TOPIC, no_offsets),
    Failure("log dirs", "KafkaStorage", broken_disk, "failing"),
    Failure("eligible leader replicas", DENIED_TOPIC, denied(DescribeTopicPartitionsRequest)),
    Failure("broker configs", "Timeout", silent(DescribeConfigsRequest), "silent"),
    Failure("thresholds", "ContradictingPatterns", contradicting_patterns, "failing"),
    Failure("local start timestamps", DENIED_TOPIC, unreadable),
    Failure("leader epoch histories", DENIED_TOPIC, history_denied),
    Failure("epoch ends", DENIED_TOPIC, history_denied),
    Failure("transaction producers", DENIED_TOPIC, producers_denied),
    Failure("transactional ids", "TransactionalIdAuthorizationFailed", transactional_ids_denied),
    Failure("metrics", "HTTP503", exporter_fails(status=503), "failing"),
    Failure("metrics", "Timeout", exporter_fails(delay_s=NEVER_S), "silent"),
    Failure("groups", "GroupAuthorizationFailed", group_denied),
]
"""Failures that do not follow from the declaration of a source."""

REASONS: dict[str, Callable[[Stage], object]] = {
    "local start timestamps": local_start_moves,
    "leader epoch histories": leader_epoch_moves,
    "epoch ends": leader_epoch_moves,
    "transaction producers": transaction_stays_open,
    "transactional ids": transaction_stays_open,
}
"""What makes a source ask that asks nothing while all is well."""


def ordinary() -> Iterator[Failure]:
    """What follows from the declaration of a source: the right is missing, nobody answers.

    The silence of brokers that are asked in each cycle is a problem of the brokers. A source of
    theirs without a right reports what a broker has found wrong.
    """
    by_hand = {str(failure) for failure in OF_THEIR_OWN}
    can_fail = {failure.source for failure in OF_THEIR_OWN}
    declared = [(source, about) for source in SOURCES for about in source.about]
    for source, about in declared:
        if not about.needs or source is MetadataSource:
            continue
        api = about.needs[-1].message
        asks_every_broker = issubclass(source, EveryBrokerSource)
        found = []
        if about.right is not None:
            name = about.right.resource.title().replace("-", "")
            found.append(Failure(about.name, f"{name}AuthorizationFailed", denied(api)))
        elif asks_every_broker and about.name not in can_fail:
            found.append(Failure(about.name, "Unknown", failing(api), "failing"))
        if not asks_every_broker:
            breaks = silent(api, REASONS.get(about.name, lambda _: None))
            found.append(Failure(about.name, "Timeout", breaks, "silent"))
        yield from (failure for failure in found if str(failure) not in by_hand)


FAILURES = [*OF_THEIR_OWN, *{str(failure): failure for failure in ordinary()}.values()]


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_failure_is_listed_logged_once_and_over_when_it_succeeds(
    stage: Stage, failure: Failure
) -> None:
    def at_source(problems: tuple[Problem, ...]) -> list[Problem]:
        return [p for p in problems if (p.source, p.error) == (failure.source, failure.error)]

    with capture_logs() as lines:
        mend = failure.breaks(stage)
        problems = at_source(stage.until(lambda problems: bool(at_source(problems))))
        assert at_source(stage.cycle())  # as long as it lasts
        mend()
        stage.until(lambda problems: not problems)
    for problem in problems:
        assert "\n" not in problem.text
        about = [line for line in lines if line.get("source") == problem.source
                 and line.get("broker", -1) == problem.broker]  # fmt: skip
        causes = [line["error"] for line in about if line["event"] == "unavailable"]
        assert causes.count(problem.error) == 1, about
        assert about[-1]["event"] == "recovered"
        assert about[-1]["log_level"] == "info"


def test_every_source_can_fail_in_these_tests() -> None:
    assert {failure.source for failure in FAILURES} | {"bus"} == set(ABOUT)


def test_check_can_say_what_is_lost_without_each_source() -> None:
    assert set(ABOUT) <= WITHOUT.keys()


def test_a_bus_that_takes_nothing_is_a_problem_until_it_takes_something(stage: Stage) -> None:
    sent: list[CycleResult] = []

    def send(observation: CycleResult) -> None:
        sent.append(observation)
        if len(sent) <= 2:
            raise BusError("bus topic x: it is full")

    config = Config(collector=CollectorConfig(interval_ms=1))
    with capture_logs() as lines:
        collect(config, stage.collector, send, threading.Event(), cycles=4)
    assert [line["event"] for line in lines if line.get("source") == "bus"] == [
        "unavailable",
        "recovered",
    ]
    assert lines[0]["text"] == "bus topic x: it is full"
    assert lines[-1]["unsent"] == 2


def test_a_source_with_an_interval_of_its_own_keeps_its_problems_until_its_next_round(
    stage: Stage,
) -> None:
    """A right that is granted in between shows when the settings are read again."""
    world = stage.world
    world.denied = {DescribeConfigsRequest.API_KEY}
    config = Config(bus=BusConfig(shards=2), collector=CollectorConfig(deadline_ms=patient_ms(600)))
    with BrokerConnections(stage.cluster.bootstrap, {}, patient_ms(600)) as brokers:
        collector = Collector(config, brokers)
        collector.observe()
        world.denied = set()
        for _ in range(2):
            collector.observe()
            assert {p.source for p in collector.problems} == {"topic configs", "broker configs"}


def test_the_problem_of_a_topic_ends_with_the_topic(stage: Stage) -> None:
    stage.world.denied = {DescribeConfigsRequest.API_KEY}
    stage.until(lambda problems: "topic configs" in {p.source for p in problems})
    stage.world.topics.clear()
    stage.until(lambda problems: "topic configs" not in {p.source for p in problems})
    assert stage.world.denied


def test_many_topics_with_one_error_are_one_problem(stage: Stage) -> None:
    stage.world.denied = {DescribeConfigsRequest.API_KEY}
    stage.world.topics |= {f"more-{n}": Topic({0: Partition([1])}) for n in range(5)}
    problems = stage.until(lambda problems: "topic configs" in {p.source for p in problems})
    (problem,) = (p for p in problems if p.source == "topic configs")
    assert problem.text.endswith("(more-0, more-1, more-2 and 4 more)")
