"""A twin in this process: the collector's observations of a real cluster, stepped without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.problem import Problem
from streaming.collector.sources.groups import GroupSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime import config
from tests.cluster.broker_client import Key, PartitionState
from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER
from twin.engine import frames
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.step import step, step_segments
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, PartitionIndex, Partitions, Replicas


def environment_of(settings: config.Config) -> dict[str, str]:
    """The variables with which a command of the command line has the twin of these settings."""
    return {
        "KAFKA_TWIN_CLUSTER_NAME": settings.cluster.name,
        "KAFKA_TWIN_CLUSTER_BOOTSTRAP": settings.cluster.bootstrap,
        "KAFKA_TWIN_BUS_PREFIX": settings.bus.prefix,
        "KAFKA_TWIN_BUS_SHARDS": str(settings.bus.shards),
        "KAFKA_TWIN_GATE_RECORD": str(settings.gate.record).lower(),
    }


class Watch:
    """Looks at a cluster when asked and keeps what it saw."""

    def __init__(
        self,
        settings: config.Config,
        brokers: BrokerConnections,
        groups: GroupSource | None = None,
    ) -> None:
        self._groups = groups
        ready = () if groups is None else (groups,)
        self._collector = Collector(settings, brokers, *ready)
        self._messages = ObservationEncoder()
        self._archive: segment_store.SegmentStore = {}
        self.state = ShardState.empty(CATALOG, settings.cluster.name, 0, settings.bus.shards)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the collector."""
        return self._collector.problems

    def look_at_groups(self) -> ShardState:
        """One cycle with a new round of groups."""
        assert self._groups is not None
        self._groups.read_now()
        return self.look()

    def look(self) -> ShardState:
        """One cycle, through the bytes that would go over the bus."""
        observation = self._collector.observe()
        assert observation is not None, self._collector.problems
        sent = [
            frame
            for _, message in self._messages.encode(observation)
            for frame in frames.decode(message, CATALOG.observations).frames
        ]
        of_cycle = [frame for frame in sent if frame.header.kind not in segment_store.KINDS]
        self.state, _ = step(self.state, of_cycle, observation.observed_at_ms)
        remote = [frame for frame in sent if frame.header.kind in segment_store.KINDS]
        self.state, self._archive, _ = step_segments(self.state, self._archive, remote)
        return self.state

    def take(self, frames_of_bus: Sequence[frames.Frame]) -> None:
        """Frames that others sent, between two cycles."""
        self.state, _ = step(self.state, frames_of_bus, self.state.observed_at_ms)


@contextmanager
def watching(bootstrap: str, *thresholds: config.TopicThreshold, **client: str) -> Iterator[Watch]:
    """A twin of the cluster in one shard, with KIP-1303 thresholds for some topics and with those
    settings of its client."""
    settings = config.Config(
        cluster=config.ClusterConfig(name="real", bootstrap=bootstrap),
        bus=config.BusConfig(shards=1),
        collector=config.CollectorConfig(config_interval_ms=1_000),
        eligibility=config.EligibilityConfig(topics=list(thresholds)),
    )
    with BrokerConnections(bootstrap, client, settings.collector.deadline_ms) as brokers:
        yield Watch(settings, brokers)


def keys(state: ShardState) -> list[Key]:
    """[P] topic and number of each row."""
    numbers = state[PartitionIndex].partition.tolist()
    return list(zip(state.topic_names().tolist(), numbers, strict=True))


def by_partition(state: ShardState, column: np.ndarray) -> dict[Key, int]:
    """A [P] column by topic and number."""
    return dict(zip(keys(state), column.tolist(), strict=True))


def is_present(state: ShardState) -> np.ndarray:
    """[P, R] there is a replica in the slot."""
    return state[Assignment].broker != NO_BROKER


def flagged(state: ShardState, flag: ReplicaFlags) -> dict[Key, frozenset[int]]:
    """The brokers whose replica has that flag of the controller, by topic and number."""
    broker = state[Assignment].broker
    chosen = (state[Replicas].replica_flags & flag != 0) & is_present(state)
    return {
        key: frozenset(broker[row, chosen[row]].tolist()) for row, key in enumerate(keys(state))
    }


def assert_agrees(state: ShardState, described: Mapping[Key, PartitionState]) -> None:
    """Leaders, replicas, ISR and ELR of the twin are what DescribeTopicPartitions says."""
    partitions, broker = state[Partitions], state[Assignment].broker
    answers = described.items()
    assert by_partition(state, partitions.leader) == {k: s.leader for k, s in answers}
    assert by_partition(state, partitions.leader_epoch) == {k: s.epoch for k, s in answers}
    assert flagged(state, ReplicaFlags.IN_ISR) == {k: s.isr for k, s in answers}
    assert flagged(state, ReplicaFlags.IN_ELR) == {k: s.elr for k, s in answers}
    assert flagged(state, ReplicaFlags.LAST_KNOWN_ELR) == {k: s.last_known_elr for k, s in answers}
    assigned = [tuple(broker[i, :n].tolist()) for i, n in enumerate(partitions.assigned)]
    assert dict(zip(keys(state), assigned, strict=True)) == {k: s.replicas for k, s in answers}
