"""The collector's work: one cycle is one observation, one after the other at a steady pace.

A cycle asks one broker what the cluster consists of, then every broker for what it holds, and sends
what they said. Nothing that fails in between ends it: a broker that is silent, a right that is
missing, a bus that is away are told once per cause and tried again in the next cycle.
"""

from __future__ import annotations

import re
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import structlog

from streaming import bus
from streaming.bus import BusError, Sender
from streaming.bus.arrow import use_little_memory
from streaming.collector import listing
from streaming.collector.brokers import Brokers, CollectorError, Question, Versions
from streaming.collector.configs import Configs
from streaming.collector.epochs import Epochs
from streaming.collector.jmx import Metrics
from streaming.collector.log_dirs import LogDirs
from streaming.collector.marks import Marks
from streaming.collector.observation import Messages, Observation, brokers_table
from streaming.collector.offsets import Offsets
from streaming.collector.timestamps import Timestamps
from streaming.collector.topics import Topics, View
from streaming.runtime.config import Config
from streaming.runtime.health import touch_liveness_file
from twin.tables import UNKNOWN

_SUMMARY_S: Final = 60.0
_BROKER: Final = re.compile(r"broker \d+")
"""The cause of one that did not answer all it was asked."""

log = structlog.get_logger("collector")


class Collector:
    """Everything one cycle needs, and what cycles remember for the next."""

    def __init__(self, config: Config, brokers: Brokers, metrics: Metrics | None = None) -> None:
        """``metrics`` is of what brokers measure themselves; it goes without where it is None."""
        self._config = config
        self._deadline_ms = config.collector.deadline_ms
        self._brokers = brokers
        self._metrics = metrics
        client_id = brokers.client_id
        self._topics = Topics(config, client_id)
        self._configs = Configs(config, client_id)
        self._marks = Marks(client_id, config.collector.config_interval_ms)
        self._offsets = Offsets(self._deadline_ms, client_id)
        self._log_dirs = LogDirs(client_id)
        # Whoever starts without a state must find every history on the bus.
        self._epochs = Epochs(client_id, config.bus.observations_retention_ms // 2)
        self._timestamps = Timestamps(client_id) if config.collector.timestamps else None
        self._observed_at_ms = 0
        self._cycle = 0
        self.causes: dict[str, str] = {}

    def observe(self) -> Observation | None:
        """Ask everything once.

        Returns None if no broker has ever told what the cluster consists of; ``causes`` then says
        why, as it does for everything that is missing from an observation.

        Raises:
            ConfigError: at the first cycle, thresholds contradict each other.
        """
        self.causes = {}
        before = self._topics.view
        view = self._topics.ask(self._brokers, self._deadline_ms)
        if view is None:
            self._nobody_lists()
            if before is None:
                return None
            nothing = listing.empty(self._config.bus.shards)
            return self._sampled(before, nothing, np.zeros(0, bool), set())
        if self._topics.hidden:
            self.causes["topics"] = hidden(self._topics.hidden)
        addresses = [r.address for r in view.brokers]
        self._brokers.learn(addresses)
        if self._metrics is not None:
            self._metrics.learn(addresses)
        guide, found = self._topics.guide, view.listing
        shards = self._configs.refresh(self._brokers, guide, found.placement, self._deadline_ms)
        marked = self._marks.ask(
            self._brokers,
            guide,
            found,
            self._configs.min_isr(found.placement),
            self._configs.elr_enabled,
            self._deadline_ms,
        )
        self.causes |= {p.partition(":")[0]: p for p in marked.problems}
        self.causes |= self._configs.problems
        return self._sampled(view, marked.listing, marked.elr_known, shards)

    def unsent(self, observation: Observation) -> None:
        """What is not sent in every cycle has not arrived: it is to be sent again."""
        self._epochs.forget(observation.histories)

    def _nobody_lists(self) -> None:
        """Say why, and look for the cluster at its bootstrap addresses again."""
        self.causes |= {f"listing by broker {b}": p for b, p in self._topics.problems.items()}
        try:
            self._brokers.reconnect(self._deadline_ms)
        except CollectorError as error:
            self.causes["cluster"] = str(error)

    def _sampled(
        self, view: View, found: listing.Listing, elr_known: listing.Array, shards: set[int]
    ) -> Observation:
        """Ask every broker for what it holds."""
        placement = found.placement
        asked: dict[int, int] = {}

        def make(broker: int, versions: Versions) -> Sequence[Question]:
            offsets = self._offsets.questions(broker, versions, placement)
            asked[broker] = len(offsets)
            return [*offsets, *self._log_dirs.questions(broker, versions)]

        self._cycle += 1
        # A clock that is set back must not make this cycle older than the last one.
        self._observed_at_ms = max(int(time.time() * 1_000), self._observed_at_ms + 1)
        ids = {r.address.broker for r in view.brokers}
        replies = self._brokers.ask(sorted(ids), make, self._deadline_ms)
        self._offsets.forget(ids)
        self._log_dirs.forget(ids)
        heard = {b: r for b, r in replies.items() if b in asked}
        samples = self._offsets.read(placement, {b: r.bodies[: asked[b]] for b, r in heard.items()})
        sizes = self._log_dirs.read(
            placement,
            {b: r.bodies[asked[b]] for b, r in heard.items() if len(r.bodies) > asked[b]},
        )
        self.causes |= {f"broker {b}": r.problem for b, r in replies.items() if r.problem}
        self.causes |= {f"log dirs of broker {b}": p for b, p in sizes.problems.items()}
        timestamps = np.full(len(placement.broker), UNKNOWN, np.int64)
        if self._timestamps is not None and len(placement):
            timestamps = self._timestamps.read(self._brokers, placement, samples, self._deadline_ms)
            if self._timestamps.problem:
                self.causes["local start timestamps"] = self._timestamps.problem
        histories = self._epochs.read(
            self._brokers,
            found,
            self._configs.tiered(placement),
            found.of_leaders(samples.log_start),
            self._deadline_ms,
        )
        if self._epochs.problem:
            self.causes["leader epoch histories"] = self._epochs.problem
        if self._metrics is not None:
            self.causes |= self._metrics.causes
        return Observation(
            cluster=self._config.cluster.name,
            shards=self._config.bus.shards,
            observed_at_ms=self._observed_at_ms,
            cycle=self._cycle,
            brokers=brokers_table(view.brokers, replies, sizes),
            listing=found,
            elr_known=elr_known,
            samples=samples,
            local_log_bytes=sizes.local_log_bytes,
            local_start_timestamp_ms=timestamps,
            configs={s: self._configs.table(placement, s) for s in shards},
            metrics=None if self._metrics is None else self._metrics.take(),
            histories=histories,
        )


def hidden(topics: Collection[str]) -> str:
    """What is said of topics that may not be described any more."""
    return (
        f"TopicAuthorizationFailed: {len(topics)} that were listed may not be described any more, "
        f"such as {min(topics)}; what was known of them ages"
    )


@dataclass(slots=True)
class Told:
    """What was logged, so that nothing is logged twice, and what the minute's line sums up."""

    causes: dict[str, str] = field(default_factory=dict)
    cycles: int = 0
    overruns: int = 0
    unsent: int = 0
    partitions: int = 0
    replicas: int = 0
    silent: Counter[str] = field(default_factory=Counter)  # cycles in which a cause held
    took_ms: list[float] = field(default_factory=list)
    summed_up_at: float = field(default_factory=time.monotonic)

    def cycle(
        self, causes: dict[str, str], took_ms: float, observation: Observation | None
    ) -> None:
        """Note a cycle; log causes that are new or over, and once a minute how it goes."""
        self.cycles += 1
        self.took_ms.append(took_ms)
        self.silent.update(c for c in causes if _BROKER.fullmatch(c))
        for what, why in causes.items():
            if self.causes.get(what) != why:
                log.warning("missing", what=what, why=why)
        for what in self.causes.keys() - causes.keys():
            log.info("there again", what=what)
        self.causes = causes
        if observation is not None:
            placement = observation.listing.placement
            self.partitions, self.replicas = len(placement), len(placement.broker)
        if time.monotonic() - self.summed_up_at >= _SUMMARY_S:
            self.sum_up()

    def sum_up(self) -> None:
        """One line: counts since the start, times since the last such line."""
        log.info(
            "cycles",
            cycles=self.cycles,
            overruns=self.overruns,
            unsent=self.unsent,
            median_ms=round(statistics.median(self.took_ms)) if self.took_ms else 0,
            longest_ms=round(max(self.took_ms, default=0)),
            partitions=self.partitions,
            replicas=self.replicas,
            failures=dict(self.silent),
        )
        self.took_ms.clear()
        self.summed_up_at = time.monotonic()


@dataclass(slots=True)
class Pace:
    """When cycles start: every ``interval_s``, on the same ticks however long one takes."""

    interval_s: float
    due_s: float

    def cycle_ended(self, now_s: float) -> int:
        """Set the next tick; returns how many have been missed, which are not caught up on."""
        self.due_s += self.interval_s
        late_s = now_s - self.due_s
        missed = int(late_s // self.interval_s) + 1 if late_s > 0 else 0
        self.due_s += missed * self.interval_s
        return missed


def run(config: Config, *, cycles: int | None = None) -> None:
    """Collect until SIGTERM or SIGINT, or for so many cycles; the running cycle is ended.

    Raises:
        CollectorError, BusError, ConfigError: it cannot start; one line each.
    """
    use_little_memory()
    with (
        _stopped_by_signal() as stop,
        Brokers(
            config.cluster.bootstrap, config.cluster.client, config.collector.deadline_ms
        ) as brokers,
        Metrics(config.collector) as metrics,
    ):
        bus.ensure_topics(config)
        bus.check_shards(config)
        with Sender(config) as sender:
            log.info(
                "running",
                cluster=config.cluster.name,
                interval_ms=config.collector.interval_ms,
            )
            _keep_pace(config, Collector(config, brokers, metrics), sender, stop, cycles)
    log.info("stopped")


def _keep_pace(
    config: Config,
    collector: Collector,
    sender: Sender,
    stop: threading.Event,
    cycles: int | None,
) -> None:
    told, messages = Told(), Messages()
    topic = bus.topics(config).observations
    pace = Pace(config.collector.interval_ms / 1_000, time.monotonic())
    while not stop.wait(max(0.0, pace.due_s - time.monotonic())):
        began = time.monotonic()
        observation = collector.observe()
        causes = dict(collector.causes)
        if observation is not None:
            try:
                send(config, sender, topic, messages, observation)
            except BusError as error:
                told.unsent += 1
                collector.unsent(observation)
                causes["bus"] = str(error)
        told.cycle(causes, (time.monotonic() - began) * 1_000, observation)
        touch_liveness_file(config.health.folder, "collector")
        if cycles is not None and told.cycles >= cycles:
            break
        told.overruns += pace.cycle_ended(time.monotonic())
    told.sum_up()


def send(
    config: Config, sender: Sender, topic: str, messages: Messages, observation: Observation
) -> None:
    """Send an observation and wait until it has arrived.

    Raises:
        BusError: part of it has not, by the deadline.
    """
    for shard, message in messages.of(observation):
        sender.send(topic, bus.key(config.cluster.name, shard), message)
    sender.flush(config.collector.deadline_ms)


@contextmanager
def _stopped_by_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, where this is the main thread."""
    stop = threading.Event()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
