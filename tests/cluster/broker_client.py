"""Asks brokers directly, to judge what the collector and the twin say.

Each request goes to one chosen broker over a plain socket; requests and responses are the protocol
classes of kafka-python. Nothing here is shared with the collector.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka import KafkaAdminClient
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from streaming.lab.local_cluster import NodeStatus
from tests.waiting import until

LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -4, -5, -6
OFFSET_KINDS: Final = (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
"""The timestamps of ListOffsets that stand for an offset, not for a time."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4

_TOPICS_A_REQUEST: Final = 20
_PARTITIONS_A_RESPONSE: Final = 2_000

Key = tuple[str, int]  # topic and partition number


class Cluster(Protocol):
    """A cluster whose brokers can be asked."""

    @property
    def bootstrap(self) -> str: ...

    def status(self) -> list[NodeStatus]: ...


@dataclass(frozen=True)
class PartitionState:
    """A partition as DescribeTopicPartitions has it."""

    topic_id: bytes
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]
    last_known_elr: frozenset[int]
    offline: frozenset[int] = frozenset()  # replicas on fenced brokers or in failed log directories

    @property
    def is_in_sync(self) -> bool:
        """The partition has a leader, and every replica is in sync."""
        return self.leader >= 0 and self.isr == set(self.replicas)


@dataclass(frozen=True)
class LogDirs:
    """The log directories of a broker: the size of each replica, and the volumes."""

    size_bytes: Mapping[Key, int]
    total_bytes: int
    usable_bytes: int


class BrokerClient:
    """Sends requests to chosen brokers of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._ports = {node.id: node.port for node in cluster.status()}

    def ask(
        self, broker: int, request: Any, response: Any, version: int, timeout_s: float = 10
    ) -> Any:
        """Send a request of this version to a broker, and return the decoded response."""
        request.API_VERSION = version
        request.with_header(correlation_id=7, client_id="test")
        with socket.create_connection(("127.0.0.1", self._ports[broker]), timeout_s) as connection:
            connection.sendall(bytes(request.encode(header=True, framed=True)))
            stream = connection.makefile("rb")
            head = stream.read(4)
            assert len(head) == 4, "the broker closed the connection"
            (size,) = struct.unpack(">i", head)
            return response.decode(stream.read(size), version=version, header=True)

    # Metadata

    def topics(self, broker: int) -> list[str]:
        """Names of all topics, internal ones included."""
        return sorted(topic.name for topic in self._metadata(broker).topics)

    def routed(self, broker: int) -> dict[Key, int]:
        """The leader of every partition to which one broker sends clients; any Kafka says it."""
        return {
            (topic.name, partition.partition_index): partition.leader_id
            for topic in self._metadata(broker).topics
            for partition in topic.partitions
        }

    def listed(self, broker: int) -> set[int]:
        """The brokers to which one broker sends clients."""
        return {each.node_id for each in self._metadata(broker).brokers}

    def _metadata(self, broker: int) -> Any:
        request = MetadataRequest(
            topics=MetadataRequest.ALL_TOPICS,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        return self.ask(broker, request, MetadataResponse, 12)

    def partitions(
        self, broker: int, topics: Sequence[str] | None = None, timeout_s: float = 10
    ) -> dict[Key, PartitionState]:
        """The partitions of these topics, or of all, as one broker knows them."""
        wanted = sorted(topics if topics is not None else self.topics(broker))
        states: dict[Key, PartitionState] = {}
        for first in range(0, len(wanted), _TOPICS_A_REQUEST):
            some = wanted[first : first + _TOPICS_A_REQUEST]
            states |= self._partitions(broker, some, timeout_s)
        return states

    def _partitions(
        self, broker: int, topics: Sequence[str], timeout_s: float
    ) -> dict[Key, PartitionState]:
        kind = DescribeTopicPartitionsRequest
        request = kind(
            topics=[kind.TopicRequest(name=name) for name in topics],
            response_partition_limit=_PARTITIONS_A_RESPONSE,
            cursor=None,
        )
        response = self.ask(broker, request, DescribeTopicPartitionsResponse, 0, timeout_s)
        assert response.next_cursor is None
        return {
            (topic.name, p.partition_index): PartitionState(
                topic.topic_id.bytes,
                p.leader_id,
                p.leader_epoch,
                tuple(p.replica_nodes),
                frozenset(p.isr_nodes),
                frozenset(p.eligible_leader_replicas or ()),
                frozenset(p.last_known_elr or ()),
                frozenset(p.offline_replicas),
            )
            for topic in response.topics
            for p in topic.partitions
        }

    def partition(self, broker: int, topic: str, number: int = 0) -> PartitionState:
        """One partition as one broker knows it."""
        return self.partitions(broker, [topic])[topic, number]

    def leaders(self, broker: int = 1) -> dict[Key, int]:
        """The leader of every partition; -1 for none."""
        return {key: state.leader for key, state in self.partitions(broker).items()}

    def fenced(self, broker: int) -> dict[int, bool]:
        """Every registered broker, and whether the controller has fenced it."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=True,
        )
        response = self.ask(broker, request, DescribeClusterResponse, 2)
        return {b.broker_id: bool(b.is_fenced) for b in response.brokers}

    # Logs

    def offsets(
        self, broker: int, partitions: Mapping[str, Sequence[int]], kind: int
    ) -> dict[Key, int]:
        """Offsets of one kind of a broker's own replicas, whether it leads them or not."""
        topic = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            replica_id=-2,
            isolation_level=0,
            timeout_ms=10_000,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=number, current_leader_epoch=-1, timestamp=kind
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in partitions.items()
            ],
        )
        offsets: dict[Key, int] = {}
        for t in self.ask(broker, request, ListOffsetsResponse, 11).topics:
            for p in t.partitions:
                assert p.error_code == 0, (broker, t.name, p.partition_index, kind, p.error_code)
                offsets[t.name, p.partition_index] = p.offset
        return offsets

    def offset(self, broker: int, topic: str, number: int, kind: int) -> int:
        """The offset of one kind of one replica."""
        return self.offsets(broker, {topic: [number]}, kind)[topic, number]

    def offsets_by_kind(self, broker: int, topic: str, number: int) -> dict[int, int]:
        """The offset of each kind of one replica."""
        return {kind: self.offset(broker, topic, number, kind) for kind in OFFSET_KINDS}

    def fetch(
        self, broker: int, topic: str, offset: int, rack: str = "", *, number: int = 0
    ) -> Any:
        """The broker's answer to a consumer of that rack that fetches one offset of a partition.

        Version 11 is the first that names the rack, and that followers answer.
        """
        kind = FetchRequest.FetchTopic
        part = kind.FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=offset, log_start_offset=-1,
            partition_max_bytes=1_000,
        )  # fmt: skip
        request = FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1_000, isolation_level=0,
            session_id=0, session_epoch=-1, topics=[kind(topic=topic, partitions=[part])],
            forgotten_topics_data=[], rack_id=rack,
        )  # fmt: skip
        return self.ask(broker, request, FetchResponse, 11).responses[0].partitions[0]

    def log_dirs(self, broker: int) -> LogDirs:
        """The log directories of a broker."""
        response = self.ask(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
        sizes = {
            (topic.name, p.partition_index): p.partition_size
            for log_dir in response.results
            for topic in log_dir.topics
            for p in topic.partitions
        }
        total = sum(log_dir.total_bytes for log_dir in response.results)
        return LogDirs(sizes, total, sum(log_dir.usable_bytes for log_dir in response.results))

    # Changes

    def create(
        self, topic: str, assignment: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Create a topic whose partition i is held by the brokers ``assignment[i]``."""
        kind = CreateTopicsRequest.CreatableTopic
        created = kind(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=i, broker_ids=list(brokers))
                for i, brokers in enumerate(assignment)
            ],
            configs=[kind.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )
        request = CreateTopicsRequest(topics=[created], timeout_ms=10_000, validate_only=False)
        [result] = self.ask(1, request, CreateTopicsResponse, 7).topics
        assert result.error_code == 0, result.error_message
        with KafkaAdminClient(bootstrap_servers=self._bootstrap) as admin:
            admin.wait_for_topics([topic])

    def reassign(self, topic: str, number: int, brokers: Sequence[int]) -> None:
        """Begin to move a partition to these brokers."""
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition = kind.ReassignablePartition(partition_index=number, replicas=list(brokers))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=10_000,
            allow_replication_factor_change=True,
            topics=[kind(name=topic, partitions=[partition])],
        )
        response = self.ask(1, request, AlterPartitionReassignmentsResponse, 1)
        assert response.error_code == 0

    def configure(self, resource_type: int, name: str, **configs: str) -> None:
        """Set configs; ``_`` stands for a dot.

        Of a topic, of a broker by its id, or of all brokers, whose name is empty.
        """
        entry = IncrementalAlterConfigsRequest.AlterConfigsResource
        resource = entry(
            resource_type=resource_type,
            resource_name=name,
            configs=[
                entry.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
                for key, value in configs.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        # A broker accepts its own dynamic settings alone.
        asked = int(name) if resource_type == BROKER_RESOURCE and name else 1
        [result] = self.ask(asked, request, IncrementalAlterConfigsResponse, 1).responses
        assert result.error_code == 0, result.error_message


def await_agreement(
    cluster: Cluster, lost: Sequence[int] = (), within_s: float = 60
) -> dict[Key, PartitionState]:
    """The state that all running brokers agree on once exactly the brokers ``lost`` are fenced."""
    client = BrokerClient(cluster)
    running = [node.id for node in cluster.status() if node.id not in lost]

    def agreed() -> dict[Key, PartitionState] | None:
        for broker in running:
            if {b for b, is_fenced in client.fenced(broker).items() if is_fenced} != set(lost):
                return None
        first, *others = [client.partitions(broker) for broker in running]
        return first if all(other == first for other in others) else None

    agreement = until(agreed, within_s, f"brokers do not agree that {list(lost)} are fenced")
    assert agreement is not None
    return agreement


def await_in_sync(cluster: Cluster, within_s: float = 60) -> dict[Key, PartitionState]:
    """The state that all brokers agree on once every replica of every partition is in sync."""
    client = BrokerClient(cluster)
    first = cluster.status()[0].id

    def others() -> dict[Key, PartitionState]:
        states = client.partitions(first)
        return {key: state for key, state in states.items() if not state.is_in_sync}

    def words() -> str:
        nodes = ", ".join(f"{node.id} {node.state}" for node in cluster.status())
        return f"of nodes {nodes}, {first} says that replicas are not in sync: {others()}"

    until(lambda: not others(), within_s, words)
    return await_agreement(cluster)
