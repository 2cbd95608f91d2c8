"""The collector: one cycle is one observation, one after the other at a fixed rate.

A cycle asks one broker what the cluster consists of, then every broker for its replicas, and sends
the result. A failure in between does not end it: a silent broker, a missing right or an unreachable
bus is a ``Problem``, logged once, and tried again in the next cycle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import structlog

from streaming import bus
from streaming.bus import BusError, Sender
from streaming.bus.arrow import use_little_memory
from streaming.collector import listing
from streaming.collector.broker_configs import BrokerConfigSource
from streaming.collector.brokers import (
    BrokerConnections,
    BrokerResponse,
    CollectorError,
    EncodedRequest,
    Versions,
)
from streaming.collector.configs import ConfigSource
from streaming.collector.context import CycleContext
from streaming.collector.cycle_log import CycleLog, FixedRateSchedule
from streaming.collector.cycle_metrics import CycleMetrics
from streaming.collector.denied import RETRY_DENIED_MS
from streaming.collector.eligibility_file import EligibilityFile
from streaming.collector.epochs import EpochSource
from streaming.collector.group_round import GroupRound
from streaming.collector.groups import GroupSource
from streaming.collector.jmx import MetricsSource
from streaming.collector.log_dirs import LogDirSource
from streaming.collector.metadata import ClusterMetadata, MetadataSource
from streaming.collector.observation import Observation, ObservationEncoder, brokers_table
from streaming.collector.offsets import OffsetSource, ReplicaOffsets
from streaming.collector.problem import Problem
from streaming.collector.quorum import QuorumSource
from streaming.collector.replica_status import ReplicaStatus, ReplicaStatusSource
from streaming.collector.stable_offsets import StableOffsetSource
from streaming.collector.timestamps import ReadLimits, TimestampSource
from streaming.collector.unlisted import UnlistedBrokers
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.health import touch_liveness_file
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_hangup_signal, on_stop_signal
from twin.table import NO_BROKER, UNKNOWN

log = structlog.get_logger("collector")


class Collector:
    """Everything one cycle needs, and what cycles remember for the next."""

    def __init__(
        self,
        config: Config,
        brokers: BrokerConnections,
        metrics: MetricsSource | None = None,
        *,
        groups: GroupSource | None = None,
        eligibility: EligibilityFile | None = None,
        unlisted: UnlistedBrokers | None = None,
        retry_denied_ms: int = RETRY_DENIED_MS,
    ) -> None:
        """Keep the parts; nothing is asked before the first cycle.

        Args:
            config: of all programs.
            brokers: connections to the watched cluster.
            metrics: reads the brokers' own metrics; None leaves them out.
            groups: reads consumer groups; None leaves them out.
            eligibility: where thresholds may change while it runs; None keeps those of ``config``.
            unlisted: remembers brokers that Kafka before 4.0 does not list.
            retry_denied_ms: when a topic that was refused is asked for again.
        """
        self._config = config
        self._deadline_ms = config.collector.deadline_ms
        self._brokers = brokers
        client_id = brokers.client_id
        self._metadata = MetadataSource(config, client_id, unlisted)
        self._configs = ConfigSource(config, client_id)
        interval_ms = config.collector.config_interval_ms
        self._broker_configs = BrokerConfigSource(client_id, interval_ms)
        self._status = ReplicaStatusSource(client_id, interval_ms)
        self._quorum = QuorumSource(client_id)
        self._offsets = OffsetSource(self._deadline_ms, client_id)
        self._stable_offsets = StableOffsetSource(self._deadline_ms, client_id)
        self._log_dirs = LogDirSource(client_id)
        # A query that starts without a state must find every history on the bus.
        reread_ms = config.bus.observations_retention_ms // 2
        self._epochs = EpochSource(client_id, reread_ms, retry_denied_ms=retry_denied_ms)
        limits = ReadLimits(retry_denied_ms=retry_denied_ms)
        self._timestamps = (
            TimestampSource(client_id, limits) if config.collector.timestamps else None
        )
        self._metrics = metrics
        self._groups = groups
        self._eligibility = eligibility
        self._responses: Mapping[int, BrokerResponse] = {}
        self._observed_at_ms = 0
        self._cycle = 0
        self._cluster_problem: Problem | None = None

    @property
    def metadata_broker(self) -> int:
        """The broker that listed the cluster in the last cycle, UNKNOWN (-1) if none did."""
        return self._metadata.metadata_broker

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is missing now.

        A source that is read in every cycle reports the problems of the last cycle; one that is
        read at its own interval keeps those of its last round until the next.
        """
        sources = (
            self._metadata,
            self._configs,
            self._broker_configs,
            self._eligibility,
            self._status,
            self._quorum,
            self._offsets,
            self._log_dirs,
            self._epochs,
            self._timestamps,
            self._metrics,
            self._groups,
        )
        cluster = () if self._cluster_problem is None else (self._cluster_problem,)
        return (
            *cluster,
            *(r.problem for r in self._responses.values() if r.problem is not None),
            *(p for source in sources if source is not None for p in source.problems),
        )

    @property
    def rounds(self) -> dict[str, int]:
        """Rounds since the start of each source that is read beside the cycles."""
        beside = {"groups": self._groups, "metrics": self._metrics}
        return {name: source.rounds for name, source in beside.items() if source is not None}

    def observe(self) -> Observation | None:
        """Ask for everything once.

        Returns None if no broker has ever listed the cluster; ``problems`` then says why.

        Raises:
            ConfigError: at the first cycle, thresholds contradict each other.
        """
        self._cluster_problem = None
        changed = None if self._eligibility is None else self._eligibility.read()
        if changed is not None:
            self._configs.use(changed)
        before = self._metadata.metadata
        metadata = self._metadata.read(self._brokers, Deadline.after_ms(self._deadline_ms))
        context = CycleContext(
            self._brokers, self.metadata_broker, self._deadline_ms, self._metadata.controller
        )
        if metadata is None:
            self._reconnect()
            if before is None:
                return None
            empty = listing.empty(self._config.bus.shards)
            return self._read_replicas(
                context, before, ReplicaStatus(empty, np.zeros(0, bool)), set()
            )
        addresses = [r.address for r in metadata.brokers]
        self._brokers.update_metadata(addresses)
        for source in (self._metrics, self._groups):
            if source is not None:
                source.update_metadata(addresses)
        placement = metadata.listing.placement
        shards = self._configs.refresh(context, placement)
        min_isr, elr_enabled = self._configs.min_isr(placement), self._configs.elr_enabled
        status = self._status.read(context, metadata.listing, min_isr, elr_enabled)
        quorum = self._quorum.read(context)
        return self._read_replicas(context, metadata, status, shards, quorum)

    def on_send_failed(self, observation: Observation) -> None:
        """Send again, with the next observation, what is sent only when it changes."""
        self._epochs.forget(observation.histories)
        self._configs.send_again(observation.configs)
        if self._metrics is not None and observation.metrics is not None:
            self._metrics.give_back(observation.metrics)
        if self._groups is not None and observation.groups is not None:
            self._groups.give_back(observation.groups)

    def _reconnect(self) -> None:
        """Find the cluster by its bootstrap addresses again."""
        try:
            self._brokers.reconnect(self._deadline_ms)
        except CollectorError as error:
            self._cluster_problem = Problem("cluster", NO_BROKER, "Unreachable", str(error))

    def _read_replicas(
        self,
        context: CycleContext,
        metadata: ClusterMetadata,
        status: ReplicaStatus,
        config_shards: set[int],
        quorum: pa.Table | None = None,
    ) -> Observation:
        """Ask every broker for its replicas."""
        listed, placement = status.listing, status.listing.placement
        counts: dict[int, tuple[int, ...]] = {}  # requests of each source, by broker

        def make(broker: int, versions: Versions) -> Sequence[EncodedRequest]:
            requests = (
                self._offsets.requests(broker, versions, placement),
                self._stable_offsets.requests(broker, versions, listed),
                self._log_dirs.requests(broker, versions),
                self._broker_configs.requests(broker, versions),
            )
            counts[broker] = tuple(map(len, requests))
            return [*chain(*requests)]

        self._cycle += 1
        # A clock that is set back must not make this cycle older than the last one.
        self._observed_at_ms = max(int(time.time() * 1_000), self._observed_at_ms + 1)
        ids = {r.address.broker for r in metadata.brokers}
        self._responses = self._brokers.ask(sorted(ids), make, context.deadline())
        for source in (
            self._offsets, self._stable_offsets, self._log_dirs, self._broker_configs
        ):  # fmt: skip
            source.forget(ids)
        bodies = {b: r.bodies for b, r in self._responses.items() if b in counts}
        own, stable, log_dirs, own_configs = _by_source(bodies, counts)
        offsets = self._offsets.read(placement, own)
        sizes = self._log_dirs.read(
            placement, {b: body for b, all_ in log_dirs.items() for body in all_}
        )
        configs = self._broker_configs.read(
            {b: all_ for b, all_ in own_configs.items() if self._responses[b].answered}
        )
        timestamps = self._read_timestamps(context, placement, offsets)
        histories = self._epochs.read(
            context,
            listed,
            self._configs.tiered(placement),
            listed.at_leaders(offsets.log_start),
        )
        return Observation(
            cluster=self._config.cluster.name,
            shards=self._config.bus.shards,
            observed_at_ms=self._observed_at_ms,
            cycle=self._cycle,
            brokers=brokers_table(metadata.brokers, self._responses, sizes, configs),
            brokers_complete=metadata.lists_fenced,
            quorum=quorum,
            listing=listed,
            elr_known=status.elr_known,
            offsets=offsets,
            last_stable_offset=self._stable_offsets.read(listed, stable),
            local_log_bytes=sizes.local_log_bytes,
            local_start_timestamp_ms=timestamps,
            configs={s: self._configs.table(placement, s) for s in config_shards},
            metrics=None if self._metrics is None else self._metrics.take(),
            groups=self._take_groups(listed),
            histories=histories,
            problems=self.problems,
        )

    def _take_groups(self, listed: listing.Listing) -> GroupRound | None:
        """The newest round of groups; none while the listing is incomplete.

        Offsets on topics that such a listing lacks would count as deleted.
        """
        if self._groups is None or not listed.complete:
            return None
        return self._groups.take()

    def _read_timestamps(
        self, context: CycleContext, placement: listing.Placement, offsets: ReplicaOffsets
    ) -> listing.Array:
        if self._timestamps is None or not len(placement):
            return np.full(len(placement.broker), UNKNOWN, np.int64)
        return self._timestamps.read(context, placement, offsets)


_SOURCES: Final = 4
"""Sources whose requests go to every broker together."""


def _by_source(
    bodies: Mapping[int, Sequence[bytes | None]], counts: Mapping[int, Sequence[int]]
) -> list[dict[int, Sequence[bytes | None]]]:
    """The responses of each broker, apart for each source that made requests."""
    apart: list[dict[int, Sequence[bytes | None]]] = [{} for _ in range(_SOURCES)]
    for broker, all_ in bodies.items():
        ends = [0, *accumulate(counts[broker])]
        for source, start, end in zip(apart, ends, ends[1:], strict=False):
            source[broker] = all_[start:end]
    return apart


def run(config: Config, path: Path | None = None, *, cycles: int | None = None) -> None:
    """Collect until SIGTERM or SIGINT, or for that many cycles; the running cycle is completed.

    Thresholds are read again from the file at ``path`` when it has changed, and on SIGHUP.

    Raises:
        CollectorError, BusError, ConfigError, MetricsPortError: it cannot start; one line each.
    """
    use_little_memory()
    stop = threading.Event()
    section, at = config.collector, config.metrics
    measured = CycleMetrics(config.cluster.name)
    eligibility = EligibilityFile(path, config.eligibility)
    with (
        on_stop_signal(stop),
        on_hangup_signal(eligibility.request),
        served(measured.registry, at.host, at.collector_port, "metrics.collector_port"),
        BrokerConnections(
            config.cluster.bootstrap, config.cluster.client, section.deadline_ms
        ) as brokers,
        MetricsSource(section) as metrics,
        GroupSource(config, brokers.client_id) as groups,
    ):
        bus.ensure_topics(config)
        bus.check_shards(config)
        with Sender(config) as sender:
            log.info("running", cluster=config.cluster.name, interval_ms=section.interval_ms)
            encoder = ObservationEncoder()
            collector = Collector(config, brokers, metrics, groups=groups, eligibility=eligibility)
            collect(
                config, collector, partial(send, config, sender, encoder), stop, cycles, measured
            )
    log.info("stopped")


def collect(
    config: Config,
    collector: Collector,
    send: Callable[[Observation], None],
    stop: threading.Event,
    cycles: int | None = None,
    metrics: CycleMetrics | None = None,
) -> None:
    """Observe and send at a fixed rate until ``stop`` is set, or for that many cycles."""
    metrics = metrics or CycleMetrics(config.cluster.name)
    cycle_log = CycleLog()
    schedule = FixedRateSchedule(config.collector.interval_ms / 1_000, time.monotonic())
    while not stop.wait(max(0.0, schedule.due_s - time.monotonic())):
        began_s = time.monotonic()
        observation = collector.observe()
        problems = list(collector.problems)
        if observation is not None:
            try:
                send(observation)
                metrics.sent()
            except BusError as error:
                cycle_log.unsent += 1
                metrics.unsent()
                collector.on_send_failed(observation)
                problems.append(Problem("bus", NO_BROKER, "SendFailed", str(error)))
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
    config: Config, sender: Sender, encoder: ObservationEncoder, observation: Observation
) -> None:
    """Send an observation and wait until it has arrived.

    Raises:
        BusError: part of it has not, by the deadline.
    """
    topic = bus.topics(config).observations
    for shard, message in encoder.encode(observation):
        sender.send(topic, bus.key(config.cluster.name, shard), message)
    sender.flush(config.collector.deadline_ms)
