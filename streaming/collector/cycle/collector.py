"""Makes one observation of a cluster in each cycle.

A cycle asks one broker what the cluster consists of, then every broker for its replicas. A failure
does not end the collector: a silent broker or a missing right becomes a ``Problem``, and the next
cycle tries again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from itertools import groupby
from typing import Any, Self

from streaming.collector.about import CLUSTER
from streaming.collector.context import CycleContext
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.cycle.round_trip import BrokerResponses, RoundTrip
from streaming.collector.denied import RETRY_DENIED_MS
from streaming.collector.outcome import SourceOutcome, not_offered, outcomes
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading, Readings
from streaming.collector.settings.thresholds import ThresholdSource
from streaming.collector.source import EveryBrokerSource, Setup, Source
from streaming.collector.sources import make_sources
from streaming.collector.sources.metadata import ClusterMetadata
from streaming.collector.wire.connections import BrokerConnections, BrokerResponse, CollectorError
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from twin.declarations.table import NO_BROKER, UNKNOWN


class Collector:
    """Reads the sources in each cycle, and keeps what the next cycle needs."""

    def __init__(
        self,
        config: Config,
        brokers: BrokerConnections,
        *ready: Source,
        eligibility: ThresholdSource | None = None,
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
        readings.add(BrokerResponses(self._responses, self._brokers.kafka_versions))
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
