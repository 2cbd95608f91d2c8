"""A twin in this process: the collector's observations of a real cluster, stepped without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from streaming.collector.brokers import BrokerConnections
from streaming.collector.cycle import Collector
from streaming.collector.observation import ObservationEncoder
from streaming.runtime import config
from tests.cluster.asking import Key, Said
from twin import archive as archives
from twin import fleet as fleets
from twin import frames
from twin.fleet import Fleet
from twin.step import step, step_archive
from twin.tables import Slot


class Watch:
    """Looks at a cluster when asked and keeps what it saw."""

    def __init__(self, settings: config.Config, brokers: BrokerConnections) -> None:
        self._collector = Collector(settings, brokers)
        self._messages = ObservationEncoder()
        self._archive: archives.Archive = {}
        self.fleet = fleets.empty(settings.cluster.name, 0, settings.bus.shards)

    def look(self) -> Fleet:
        """One cycle, through the bytes that would go over the bus."""
        observation = self._collector.observe()
        assert observation is not None, self._collector.problems
        told = [
            f for _, message in self._messages.encode(observation) for f in frames.decode(message)
        ]
        hot = [frame for frame in told if frame.stamp.kind not in archives.KINDS]
        self.fleet, _ = step(self.fleet, hot, observation.observed_at_ms)
        cold = [frame for frame in told if frame.stamp.kind in archives.KINDS]
        self.fleet, self._archive, _ = step_archive(self.fleet, self._archive, cold)
        return self.fleet


@contextmanager
def watching(bootstrap: str, *thresholds: config.TopicThreshold) -> Iterator[Watch]:
    """A twin of the cluster in one shard, with KIP-1303 thresholds for some topics."""
    settings = config.Config(
        cluster=config.Cluster(name="real", bootstrap=bootstrap),
        bus=config.Bus(shards=1),
        collector=config.Collector(config_interval_ms=1_000),
        eligibility=config.Eligibility(topics=list(thresholds)),
    )
    with BrokerConnections(bootstrap, {}, settings.collector.deadline_ms) as brokers:
        yield Watch(settings, brokers)


def keys(fleet: Fleet) -> list[Key]:
    """[P] topic and number of each row."""
    return list(zip(fleet.topic_names().tolist(), fleet.partition.tolist(), strict=True))


def by_partition(fleet: Fleet, column: np.ndarray) -> dict[Key, int]:
    """A [P] column by topic and number."""
    return dict(zip(keys(fleet), column.tolist(), strict=True))


def marked(fleet: Fleet, mark: Slot) -> dict[Key, frozenset[int]]:
    """The brokers whose replica the controller marks so, by topic and number."""
    chosen = fleet.marked(mark) & fleet.present
    return {
        key: frozenset(fleet.broker[row, chosen[row]].tolist())
        for row, key in enumerate(keys(fleet))
    }


def assert_agrees(fleet: Fleet, said: Mapping[Key, Said]) -> None:
    """Leaders, replicas, ISR and ELR of the twin are what DescribeTopicPartitions says."""
    assert by_partition(fleet, fleet.leader) == {k: s.leader for k, s in said.items()}
    assert by_partition(fleet, fleet.leader_epoch) == {k: s.epoch for k, s in said.items()}
    assert marked(fleet, Slot.IN_ISR) == {k: s.isr for k, s in said.items()}
    assert marked(fleet, Slot.IN_ELR) == {k: s.elr for k, s in said.items()}
    assert marked(fleet, Slot.LAST_KNOWN_ELR) == {k: s.last_known_elr for k, s in said.items()}
    assigned = [tuple(fleet.broker[i, : fleet.assigned[i]].tolist()) for i in range(len(fleet))]
    assert dict(zip(keys(fleet), assigned, strict=True)) == {k: s.replicas for k, s in said.items()}
