"""The collector: runs cycles at a fixed rate; each cycle makes one observation.

A cycle asks one broker what the cluster consists of, then every broker for its replicas, and sends
the result. A failure does not end the collector: a silent broker, a missing right or an unreachable
bus becomes a ``Problem``. It is logged once, and the next cycle tries again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self

import structlog

from streaming.bus import bus_topics, record
from streaming.bus.arrow import use_little_memory
from streaming.bus.connection import BusError
from streaming.bus.sender import Sender
from streaming.bus.shards import shards_for, with_known_shards, with_shards
from streaming.collector.about import BUS, CLUSTER
from streaming.collector.context import CycleContext
from streaming.collector.cycle.cycle_log import CycleLog, FixedRateSchedule
from streaming.collector.cycle.metrics import CycleMetrics
from streaming.collector.cycle.observation import CycleResult, ObservationEncoder
from streaming.collector.cycle.round_trip import BrokerResponses, RoundTrip
from streaming.collector.denied import RETRY_DENIED_MS
from streaming.collector.outcome import SourceOutcome, not_offered, outcomes
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading, Readings
from streaming.collector.settings.eligibility_file import EligibilityFile
from streaming.collector.source import EveryBrokerSource, Setup, Source
from streaming.collector.sources import make_sources
from streaming.collector.sources.metadata import ClusterMetadata
from streaming.collector.wire.connections import BrokerConnections, BrokerResponse, CollectorError
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.deadline import Deadline
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_hangup_signal, on_stop_signal
from twin.declarations.table import NO_BROKER, UNKNOWN

AGAIN_AFTER_S: Final = 10.0
"""When one of several clusters that could not be reached is tried again."""

log = structlog.get_logger("collector")


class Collector:
    """Reads the sources in each cycle, and keeps what the next cycle needs."""

    def __init__(
        self,
        config: Config,
        brokers: BrokerConnections,
        *ready: Source,
        eligibility: EligibilityFile | None = None,
        retry_denied_ms: int = RETRY_DENIED_MS,
        in_background: bool = False,
    ) -> None:
        """Make the sources; nothing is asked before the first cycle.

        Args:
            config: the configuration of all programs.
            brokers: connections to the watched cluster.
            ready: sources to use instead of newly made ones.
            eligibility: the source of thresholds that change at run time; None uses ``config``'s.
            retry_denied_ms: the pause before a refused topic is requested again.
            in_background: also make the sources that have their own threads; ``close`` ends them.
        """
        setup = Setup(config, brokers.client_id, eligibility, retry_denied_ms, in_background)
        self._config = config
        self._deadline_ms = config.collector.deadline_ms
        self._brokers = brokers
        self._sources = make_sources(setup, *ready)
        self._metadata: ClusterMetadata | None = None
        self._responses: Mapping[int, BrokerResponse] = {}
        self._observed_at_ms = 0
        self._cycle = 0
        self._by_source: list[tuple[Source, Reading]] = []  # in the last cycle
        self._cluster_problem: Problem | None = None
        self._not_offered: tuple[Problem, ...] = ()  # as of the last cycle
        self._answered: dict[object, set[int]] = {}  # API keys by class of source, since the start

    @property
    def metadata_broker(self) -> int:
        """The broker that listed the cluster in the last cycle, UNKNOWN (-1) if none did."""
        return UNKNOWN if self._metadata is None else self._metadata.metadata_broker

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All data that are missing now.

        A source that is read in every cycle reports the problems of the last cycle; one that is
        read at its own interval keeps those of its last round until the next.
        """
        cluster = () if self._cluster_problem is None else (self._cluster_problem,)
        return (
            *cluster,
            *(r.problem for r in self._responses.values() if r.problem is not None),
            *(problem for source in self._sources for problem in source.problems),
            *self._not_offered,
        )

    def outcomes(
        self,
        *beside: Source,
        problems: Sequence[Problem] = (),
        read: Set[type[Source]] = frozenset(),
    ) -> Sequence[SourceOutcome]:
        """How each kind of data came about, since the start.

        Args:
            beside: sources that were read elsewhere.
            problems: what is missing of their data, and why.
            read: the classes of those that have data.
        """
        answered: dict[object, Set[int]] = {**self._brokers.answered, **self._answered}
        sources = (*self._sources, *beside)
        answered |= {type(source): source.answered for source in sources if source.answered}
        return outcomes(
            sources,
            (*self.problems, *problems),
            answered,
            {type(source) for source, _ in self._by_source} | read,
            has_topics=self._metadata is not None and len(self._metadata.listing.placement) > 0,
        )

    @property
    def is_answered(self) -> bool:
        """Whether a broker has answered in the last cycle."""
        return any(response.problem is None for response in self._responses.values())

    @property
    def rounds(self) -> dict[str, int]:
        """For each background source, the number of rounds since the start."""
        rounds = {source.about[0].name: source.rounds for source in self._sources}
        return {name: count for name, count in rounds.items() if count is not None}

    def observe(self) -> CycleResult | None:
        """Run one cycle.

        Returns None if no broker has ever listed the cluster; ``problems`` then says why.

        Raises:
            ConfigError: at the first cycle, thresholds contradict each other.
        """
        self._cluster_problem, self._by_source = None, []
        lister, *others = self._sources
        readings = Readings(self._brokers, Deadline.after_ms(self._deadline_ms))
        self._read(lister, readings)
        self._metadata = self._followed(readings.get(ClusterMetadata))
        if self._metadata is None:
            return None
        placement = self._metadata.listing.placement
        context = CycleContext(
            self._brokers, self.metadata_broker, self._deadline_ms, self._metadata.controller
        )
        for value in (self._metadata, placement, context):
            readings.add(value)
        self._cycle += 1
        for asks_every_broker, sources in groupby(others, _asks_every_broker):
            if asks_every_broker:
                self._ask_every_broker([*sources], readings)
            else:
                for source in sources:
                    self._read(source, readings)
        registered = {address.broker for address in self._metadata.addresses}
        versions = {b: v for b, v in self._brokers.versions.items() if b in registered}
        self._not_offered = tuple(not_offered(self._sources, versions))
        return CycleResult(
            cluster=self._config.cluster.name,
            shards=self._config.bus.shards,
            observed_at_ms=self._observed_at_ms,
            cycle=self._cycle,
            placement=placement,
            readings=readings,
            problems=self.problems,
        )

    def _followed(self, metadata: ClusterMetadata | None) -> ClusterMetadata | None:
        """The newest metadata, after connections and sources have been updated to them.

        While no broker lists the cluster, the previous brokers are used; None before the first
        list.
        """
        if metadata is None:
            self._reconnect()
            return None if self._metadata is None else self._metadata.without_partitions()
        self._brokers.update_metadata(metadata.addresses)
        for source in self._sources:
            source.update_metadata(metadata.addresses)
        return metadata

    def _ask_every_broker(self, sources: Sequence[Any], readings: Readings) -> None:
        """One round trip for the requests of all these sources."""
        trip = RoundTrip(sources, readings)
        # If the clock was set back, this cycle must still be newer than the last one.
        self._observed_at_ms = max(int(time.time() * 1_000), self._observed_at_ms + 1)
        ids = {address.broker for address in readings[ClusterMetadata].addresses}
        deadline = readings[CycleContext].deadline()
        self._responses = self._brokers.ask(sorted(ids), trip.requests, deadline)
        readings.add(BrokerResponses(self._responses))
        answers = trip.answers(self._responses)
        for asker, api_key in trip.answered(self._responses):
            self._answered.setdefault(type(asker), set()).add(api_key)
        for source in self._sources:
            source.forget(ids)
        for source in sources:
            self._read(source, readings, answers=answers[source])

    def _read(self, source: Source, readings: Readings, **answers: Any) -> None:
        """Let a source read, and add its reading to those of this cycle."""
        self._brokers.asker = type(source)
        reading = source.read(**readings.arguments(source.read), **answers)
        self._brokers.asker = None
        if reading is not None:
            readings.add(reading)
            self._by_source.append((source, reading))

    def on_send_failed(self) -> None:
        """Repeat, in the next observation, all data that are sent only when they change."""
        for source, reading in self._by_source:
            source.send_again(reading)

    def _reconnect(self) -> None:
        """Connect to the cluster by its bootstrap addresses again."""
        try:
            self._brokers.reconnect(self._deadline_ms)
        except CollectorError as error:
            self._cluster_problem = Problem(CLUSTER.name, NO_BROKER, "Unreachable", str(error))

    def close(self) -> None:
        """End the threads of the background sources."""
        for source in self._sources:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _asks_every_broker(source: Source) -> bool:
    return isinstance(source, EveryBrokerSource)


def run(configs: Sequence[Config], path: Path | None = None, *, cycles: int | None = None) -> None:
    """Collect until SIGTERM or SIGINT, or for that many cycles; running cycles are completed.

    Thresholds are read again from the file at ``path`` when it has changed, and on SIGHUP. Each of
    several clusters has a thread: none waits for another, and one that cannot be reached at the
    start is tried again.

    Raises:
        CollectorError, BusError, ConfigError, MetricsPortError: it cannot start; one line each.
    """
    use_little_memory()
    stop, at = threading.Event(), configs[0].metrics
    clusters = _with_metrics(configs)
    files = {
        config.cluster.name: EligibilityFile(
            path, config.eligibility, partial(load, cluster=config.cluster.name)
        )
        for config in configs
    }

    def why_unhealthy() -> str:
        """One sentence for each cluster that stands still."""
        each = ((config.cluster.name, own.why_unhealthy()) for config, own in clusters)
        if len(configs) == 1:
            return clusters[0][1].why_unhealthy()
        return "; ".join(f"{name}: {why}" for name, why in each if why)

    with (
        on_stop_signal(stop),
        on_hangup_signal(lambda: [file.request() for file in files.values()]),
        served(
            clusters[0][1].registry,
            at.host,
            at.collector_port,
            "metrics.collector_port",
            why_unhealthy,
        ),
    ):
        [(config, measured), *others] = clusters
        if not others:
            _collect_one(config, files[config.cluster.name], stop, measured, cycles)
        else:
            threads = [
                threading.Thread(
                    target=_keep_collecting,
                    args=(one, files[one.cluster.name], stop, its, cycles),
                    name=f"cluster {one.cluster.name}",
                )
                for one, its in clusters
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    log.info("stopped")


def _with_metrics(configs: Sequence[Config]) -> list[tuple[Config, CycleMetrics]]:
    first: CycleMetrics | None = None
    found = []
    for config in configs:
        own = CycleMetrics(config.cluster.name, config.collector.interval_ms, first)
        first = first or own
        found.append((config, own))
    return found


def _keep_collecting(
    config: Config, thresholds: EligibilityFile, stop: threading.Event, measured: CycleMetrics,
    cycles: int | None,
) -> None:  # fmt: skip
    """Collect one of several clusters; what ends it for a while ends no other."""
    said = ""
    while not stop.is_set():
        try:
            return _collect_one(config, thresholds, stop, measured, cycles)
        except (CollectorError, BusError) as error:
            if str(error) != said:  # log each cause once
                log.error("the cluster cannot be collected", cluster=config.cluster.name,
                          why=str(error))  # fmt: skip
            said = str(error)
            stop.wait(AGAIN_AFTER_S)


def _collect_one(
    config: Config, thresholds: EligibilityFile, stop: threading.Event, measured: CycleMetrics,
    cycles: int | None,
) -> None:  # fmt: skip
    section = config.collector
    with BrokerConnections(
        config.cluster.bootstrap, config.cluster.client, section.deadline_ms
    ) as brokers:
        bus_topics.ensure_topics(config)
        known = with_known_shards(config) or choose_shards(config, brokers, stop)
        if known is None:
            return
        with (
            Collector(known, brokers, eligibility=thresholds, in_background=True) as collector,
            Sender(known) as sender,
        ):
            log.info("running", cluster=known.cluster.name, interval_ms=section.interval_ms)
            encoder = ObservationEncoder()
            collect(known, collector, partial(send, known, sender, encoder), stop, cycles, measured)


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
) -> None:
    """Observe and send at a fixed rate until ``stop`` is set, or for that many cycles."""
    metrics = metrics or CycleMetrics(config.cluster.name, config.collector.interval_ms)
    cycle_log = CycleLog()
    schedule = FixedRateSchedule(config.collector.interval_ms / 1_000, time.monotonic())
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
