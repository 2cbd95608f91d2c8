"""What Kafka itself says of a cluster: metadata, offsets, settings, and the brokers' own gauges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from prometheus_client.parser import text_string_to_metric_families

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    TOPIC_RESOURCE,
    BrokerClient,
    Key,
    PartitionState,
)
from tests.web import get

GAUGES: Final = {
    "kafka_underreplicatedpartitions": "partitions_under_replicated",
    "kafka_underminisrpartitioncount": "partitions_under_min_isr",
    "kafka_atminisrpartitioncount": "partitions_at_min_isr",
    "kafka_offlinepartitionscount": "partitions_offline",
}
"""Gauges of brokers, and the number in the twin's summary that they add up to."""

_OF_CLUSTER: Final = "kafka_offlinepartitionscount"
"""Every controller counts the whole cluster."""

SETTINGS: Final = ("min.insync.replicas", "remote.storage.enable", "cleanup.policy")


@dataclass(frozen=True)
class Offsets:
    """The leader's offsets of a partition."""

    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True)
class KafkaView:
    """One reading; equal readings mean that the cluster is at rest."""

    partitions: Mapping[Key, PartitionState]
    settings: Mapping[str, Mapping[str, str]]  # by topic
    alive: frozenset[int]  # brokers that are not fenced
    gauges: Mapping[str, int]

    def least(self, key: Key) -> int:
        """Replicas that must be in sync for acks=all: Partition.effectiveMinIsr."""
        configured = int(self.settings[key[0]]["min.insync.replicas"])
        return min(configured, len(self.partitions[key].replicas))

    def is_tiered(self, key: Key) -> bool:
        """The partition's older records may be in remote storage alone."""
        return self.settings[key[0]]["remote.storage.enable"] == "true"


def read(cluster: LocalCluster) -> tuple[KafkaView, dict[Key, Offsets]]:
    """One reading of everything, and the offsets of all partitions that have a leader.

    Raises:
        OSError, AssertionError: a broker is about to go, or a leader about to move: read again.
    """
    client = BrokerClient(cluster)
    running = [node.id for node in cluster.status() if node.state == "running"]
    broker = running[0]
    partitions = client.partitions(broker)
    alive = frozenset(b for b, is_fenced in client.fenced(broker).items() if not is_fenced)
    offsets = _offsets(client, partitions, alive)
    return (
        KafkaView(
            partitions,
            _settings(client, broker, {topic for topic, _ in partitions}),
            alive,
            _gauges(cluster, running),
        ),
        offsets,
    )


def _offsets(
    client: BrokerClient, partitions: Mapping[Key, PartitionState], alive: frozenset[int]
) -> dict[Key, Offsets]:
    by_leader: dict[int, dict[str, list[int]]] = {}
    for (topic, number), state in partitions.items():
        if state.leader in alive:
            by_leader.setdefault(state.leader, {}).setdefault(topic, []).append(number)
    kinds: dict[int, dict[Key, int]] = {}
    for leader, led in by_leader.items():
        for kind in (EARLIEST, EARLIEST_LOCAL, LATEST):
            kinds.setdefault(kind, {}).update(client.offsets(leader, led, kind))
    return {
        key: Offsets(start, kinds[EARLIEST_LOCAL][key], kinds[LATEST][key])
        for key, start in kinds.get(EARLIEST, {}).items()
    }


def _settings(
    client: BrokerClient, broker: int, topics: Iterable[str]
) -> dict[str, dict[str, str]]:
    kind = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            kind(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(SETTINGS)
            )
            for topic in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    results = client.ask(broker, request, DescribeConfigsResponse, 4).results
    return {
        each.resource_name: {c.name: c.value for c in each.configs}
        for each in results
        if each.error_code == 0
    }


def _gauges(cluster: LocalCluster, running: Iterable[int]) -> dict[str, int]:
    """The sum of each gauge over all brokers."""
    counts: Counter[str] = Counter(dict.fromkeys(GAUGES, 0))
    for node in running:
        url = f"http://127.0.0.1:{cluster.layout.agent_port(node)}/metrics"
        status, text = get(url, timeout_s=10)
        assert status == 200, f"broker {node} serves no metrics"
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _OF_CLUSTER:
                    counts[sample.name] = max(counts[sample.name], int(sample.value))
                elif sample.name in GAUGES:
                    counts[sample.name] += int(sample.value)
    return dict(counts)
