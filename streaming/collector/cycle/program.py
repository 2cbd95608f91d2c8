"""The collector's program: cycles at a fixed rate, each of which writes an observation to the bus.

What a cycle could not find out, and a bus that does not take the observation, is logged once when
it begins and once when it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from streaming.bus import bus_topics, record
from streaming.bus.arrow import use_little_memory
from streaming.bus.connection import BusError
from streaming.bus.sender import Sender
from streaming.bus.shards import shards_for, with_known_shards, with_shards
from streaming.collector.about import BUS
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.cycle_log import CycleLog, FixedRateSchedule
from streaming.collector.cycle.metrics import CycleMetrics
from streaming.collector.cycle.observation import CycleResult, ObservationEncoder
from streaming.collector.problem import Problem
from streaming.collector.settings.eligibility_file import EligibilityFile
from streaming.collector.settings.thresholds import ThresholdSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import Config
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_hangup_signal, on_stop_signal
from twin.declarations.table import NO_BROKER

log = structlog.get_logger("collector")


def run(config: Config, path: Path | None = None, *, cycles: int | None = None) -> None:
    """Collect one cluster until SIGTERM or SIGINT, or for that many cycles; the running cycle is
    completed.

    Thresholds are read again from the file at ``path`` when it has changed, and on SIGHUP.

    Raises:
        CollectorError, BusError, ConfigError, MetricsPortError: it cannot start; one line each.
    """
    use_little_memory()
    stop, at = threading.Event(), config.metrics
    metrics = CycleMetrics(config.cluster.name, config.collector.interval_ms)
    eligibility = EligibilityFile(path, config.eligibility)
    with (
        on_stop_signal(stop),
        on_hangup_signal(eligibility.request),
        served(
            metrics.registry,
            at.host,
            at.collector_port,
            "metrics.collector_port",
            metrics.why_unhealthy,
        ),
    ):
        poll(config, eligibility, metrics, stop, cycles=cycles)
    log.info("stopped")


def poll(
    config: Config,
    eligibility: ThresholdSource,
    metrics: CycleMetrics,
    stop: threading.Event,
    *,
    cycles: int | None = None,
    begun_s_ago: Callable[[Config], float] = lambda _: 0.0,
) -> None:
    """Connect, and collect one cluster until ``stop`` is set, or for that many cycles.

    Args:
        config: of the cluster.
        eligibility: of thresholds that change meanwhile.
        metrics: of the cluster.
        stop: ends it after the running cycle.
        cycles: how many; None: no limit.
        begun_s_ago: gives, once the number of shards is known, since when the first cycle counts as
            begun, which decides when the next ones begin.

    Raises:
        CollectorError, BusError, ConfigError: it cannot start.
    """
    section = config.collector
    with BrokerConnections(
        config.cluster.bootstrap, config.cluster.client, section.deadline_ms
    ) as brokers:
        bus_topics.ensure_topics(config)
        known = with_known_shards(config) or choose_shards(config, brokers, stop)
        if known is None:
            return
        with (
            Collector(known, brokers, eligibility=eligibility, in_background=True) as collector,
            Sender(known) as sender,
        ):
            log.info("running", cluster=known.cluster.name, interval_ms=section.interval_ms)
            write = partial(send, known, sender, ObservationEncoder())
            ago_s = begun_s_ago(known)
            collect(known, collector, write, stop, cycles, metrics, begun_s_ago=ago_s)


def choose_shards(
    config: Config, brokers: BrokerConnections, stop: threading.Event
) -> Config | None:
    """The configuration with a number of shards that fits the cluster's size.

    Observes until a listing of the cluster is complete; None if stopped before.

    Raises:
        ConfigError: thresholds contradict each other.
    """
    cycle_log = CycleLog()
    with Collector(with_shards(config, 1), brokers) as collector:
        while not stop.is_set():
            began_s = time.monotonic()
            observation = collector.observe()
            touch_liveness_file(config.health.folder, "collector")
            if observation is not None and "partitions" not in observation.incomplete:
                replicas = len(observation.placement.broker)
                shards = shards_for(replicas)
                log.info("chosen", shards=shards, replicas=replicas)
                return with_shards(config, shards)
            took_ms = (time.monotonic() - began_s) * 1_000
            cycle_log.cycle(collector.problems, took_ms, observation)
            stop.wait(config.collector.interval_ms / 1_000)
    return None


def collect(
    config: Config,
    collector: Collector,
    send: Callable[[CycleResult], None],
    stop: threading.Event,
    cycles: int | None = None,
    metrics: CycleMetrics | None = None,
    begun_s_ago: float = 0.0,
) -> None:
    """Observe and send at a fixed rate until ``stop`` is set, or for that many cycles.

    The first cycle begins at once, and counts as begun so many seconds ago.
    """
    metrics = metrics or CycleMetrics(config.cluster.name, config.collector.interval_ms)
    cycle_log = CycleLog()
    first_s = time.monotonic() - begun_s_ago
    schedule = FixedRateSchedule(config.collector.interval_ms / 1_000, first_s)
    while not stop.wait(max(0.0, schedule.due_s - time.monotonic())):
        began_s = time.monotonic()
        observation = collector.observe()
        problems = list(collector.problems)
        if collector.is_answered:
            metrics.answered()
        if observation is not None:
            try:
                send(observation)
                metrics.sent()
            except BusError as error:
                cycle_log.unsent += 1
                metrics.unsent(str(error))
                collector.on_send_failed()
                problems.append(Problem(BUS.name, NO_BROKER, "SendFailed", str(error)))
        took_s = time.monotonic() - began_s
        cycle_log.cycle(problems, took_s * 1_000, observation)
        metrics.cycle_ended(problems, took_s)
        metrics.rounds(collector.rounds)
        touch_liveness_file(config.health.folder, "collector")
        if cycles is not None and cycle_log.cycles >= cycles:
            break
        left_out = schedule.cycle_ended(time.monotonic())
        cycle_log.overruns += left_out
        metrics.left_out(left_out)
    cycle_log.sum_up()


def send(
    config: Config, sender: Sender, encoder: ObservationEncoder, observation: CycleResult
) -> None:
    """Send an observation and wait until it has arrived.

    Raises:
        BusError: part of it has not arrived by the deadline.
    """
    topic = bus_topics.topics(config).observations
    for shard, message in encoder.encode(observation):
        sender.send(topic, record.key(config.cluster.name, shard), message)
    sender.flush(config.collector.deadline_ms)
