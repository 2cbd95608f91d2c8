"""What the brokers themselves say, asked over sockets of our own: nothing here is the collector's.

Requests and answers are kafka-python's protocol classes; every question goes to one chosen broker.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from streaming.lab.cluster import LocalCluster

T = TypeVar("T")
Key = tuple[str, int]  # topic and partition number


@dataclass(frozen=True)
class Said:
    """What DescribeTopicPartitions says of one partition."""

    topic_id: bytes
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]
    last_known_elr: frozenset[int]

    @property
    def whole(self) -> bool:
        return self.leader >= 0 and self.isr == set(self.replicas)


def ask(port: int, request: Any, answer: Any, version: int, timeout_s: float = 10) -> Any:
    """One request of one version to the broker at a port, and its decoded answer."""
    request.API_VERSION = version
    request.with_header(correlation_id=7, client_id="asking")
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        connection.sendall(bytes(request.encode(framed=True, header=True)))
        (size,) = struct.unpack(">i", _read(connection, 4))
        body = _read(connection, size)
    assert body[:4] == struct.pack(">i", 7)
    after_header = 5 if request.flexible_version_q(version) else 4  # no tagged fields: one zero
    return answer.decode(body[after_header:], version=version)


def _read(connection: socket.socket, size: int) -> bytes:
    told = b""
    while len(told) < size:
        more = connection.recv(size - len(told))
        assert more, "the broker closed the connection"
        told += more
    return told


def names(port: int) -> list[str]:
    """Every topic, internal ones as well."""
    everything = MetadataRequest(
        topics=MetadataRequest.ALL_TOPICS,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return sorted(t.name for t in ask(port, everything, MetadataResponse, 12).topics)


def partitions(port: int, topics: Sequence[str] | None = None) -> dict[Key, Said]:
    """What one broker knows of the partitions of these topics, or of all."""
    wanted = sorted(topics if topics is not None else names(port))
    kind = DescribeTopicPartitionsRequest
    said: dict[Key, Said] = {}
    for first in range(0, len(wanted), 20):  # an answer holds at most 2 000 partitions
        request = kind(
            topics=[kind.TopicRequest(name=name) for name in wanted[first : first + 20]],
            response_partition_limit=2_000,
            cursor=None,
        )
        answer = ask(port, request, DescribeTopicPartitionsResponse, 0)
        assert answer.next_cursor is None
        for topic in answer.topics:
            for p in topic.partitions:
                said[topic.name, p.partition_index] = Said(
                    topic.topic_id.bytes if hasattr(topic.topic_id, "bytes") else topic.topic_id,
                    p.leader_id,
                    p.leader_epoch,
                    tuple(p.replica_nodes),
                    frozenset(p.isr_nodes),
                    frozenset(p.eligible_leader_replicas or ()),
                    frozenset(p.last_known_elr or ()),
                )
    return said


def fenced(port: int) -> dict[int, bool]:
    """Every registered broker, and whether the controller keeps it out."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=1, include_fenced_brokers=True
    )
    answer = ask(port, request, DescribeClusterResponse, 2)
    return {b.broker_id: bool(b.is_fenced) for b in answer.brokers}


def offsets(port: int, wanted: Mapping[str, Sequence[int]], kind: int) -> dict[Key, int]:
    """What a broker answers of its own replicas to ListOffsets of one kind."""
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
                        partition_index=n, current_leader_epoch=-1, timestamp=kind
                    )
                    for n in numbers
                ],
            )
            for name, numbers in wanted.items()
        ],
    )
    answer = ask(port, request, ListOffsetsResponse, 11)
    told = {}
    for t in answer.topics:
        for p in t.partitions:
            assert p.error_code == 0, (t.name, p.partition_index, p.error_code)
            told[t.name, p.partition_index] = p.offset
    return told


@dataclass(frozen=True)
class Disk:
    """What DescribeLogDirs says: sizes of replicas, and the volume itself."""

    size_bytes: Mapping[Key, int]
    total_bytes: int
    usable_bytes: int


def disk(port: int) -> Disk:
    """The log directories of a broker."""
    answer = ask(port, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
    sizes = {
        (topic.name, p.partition_index): p.partition_size
        for place in answer.results
        for topic in place.topics
        for p in topic.partitions
    }
    total = sum(place.total_bytes for place in answer.results)
    return Disk(sizes, total, sum(place.usable_bytes for place in answer.results))


def settled(
    cluster: LocalCluster, lost: Sequence[int] = (), within_s: float = 60
) -> dict[Key, Said]:
    """What all running brokers agree on once exactly ``lost`` are fenced."""
    ports = [node.port for node in cluster.status() if node.id not in lost]

    def agreed() -> dict[Key, Said] | None:
        views = [fenced(port) for port in ports]
        if any({b for b, out in view.items() if out} != set(lost) for view in views):
            return None
        first, *others = [partitions(port) for port in ports]
        return first if all(other == first for other in others) else None

    return until(agreed, within_s, f"brokers do not agree that {list(lost)} are fenced")


def whole(cluster: LocalCluster, within_s: float = 60) -> dict[Key, Said]:
    """What all brokers agree on once every replica of every partition is in sync."""
    port = cluster.status()[0].port
    until(
        lambda: all(said.whole for said in partitions(port).values()),
        within_s,
        "not every replica is in sync",
    )
    return settled(cluster)


def until(condition: Callable[[], T], within_s: float, otherwise: str) -> T:
    """The first true value of a condition; fails after the deadline."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{otherwise} after {within_s:.0f} s"
        time.sleep(0.1)
    return value
