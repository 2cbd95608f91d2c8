"""A client of its own kind, to check the collector's numbers by: plain sockets, one request at a
time, every answer through kafka-python's codec. Shares no code with what it checks.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from streaming.lab.cluster import LocalCluster

KINDS = (-1, -2, -4, -5, -6)
TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "file.delete.delay.ms": "100",
}


class Direct:
    """Asks one broker at a time."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def ask(self, node: int, request: Any, response: Any, version: int) -> Any:
        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id="direct")
        address = ("127.0.0.1", self._cluster.layout.port(node))
        with socket.create_connection(address, 10) as connection:
            connection.sendall(request.encode(header=True, framed=True))
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            return response.decode(stream.read(size), version=version, header=True)

    def offsets(self, node: int, topic: str, partition: int) -> dict[int, int]:
        """Each kind of offset that this replica tells of itself."""
        return {kind: self._offset(node, topic, partition, kind) for kind in KINDS}

    def _offset(self, node: int, topic: str, partition: int, kind: int) -> int:
        asked = ListOffsetsRequest.ListOffsetsTopic
        part = asked.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=-1, timestamp=kind
        )
        answer = self.ask(
            node,
            ListOffsetsRequest(
                replica_id=-2,
                isolation_level=0,
                timeout_ms=3_000,
                topics=[asked(name=topic, partitions=[part])],
            ),
            ListOffsetsResponse,
            11,
        )
        told = answer.topics[0].partitions[0]
        assert told.error_code == 0, (node, topic, partition, kind, told.error_code)
        return int(told.offset)

    def sizes(self, node: int) -> dict[tuple[str, int], int]:
        """Bytes of each replica on a broker."""
        answer = self.ask(node, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 5)
        return {
            (t.name, p.partition_index): p.partition_size
            for d in answer.results
            for t in d.topics
            for p in t.partitions
        }

    def partitions(self, node: int, topics: Sequence[str]) -> dict[tuple[str, int], Any]:
        """What a broker describes of these topics' partitions; the topic's id as ``topic_id``."""
        kind = DescribeTopicPartitionsRequest
        answer = self.ask(
            node,
            kind(
                topics=[kind.TopicRequest(name=t) for t in sorted(topics)],
                response_partition_limit=2_000,
                cursor=None,
            ),
            DescribeTopicPartitionsResponse,
            0,
        )
        return {
            (t.name, p.partition_index): (t.topic_id.bytes, p)
            for t in answer.topics
            for p in t.partitions
        }

    def create(
        self, topic: str, assignment: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """A topic whose partition i is held by ``assignment[i]``."""
        kind = CreateTopicsRequest.CreatableTopic
        answer = self.ask(
            1,
            CreateTopicsRequest(
                topics=[
                    kind(
                        name=topic,
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=[
                            kind.CreatableReplicaAssignment(
                                partition_index=i, broker_ids=list(brokers)
                            )
                            for i, brokers in enumerate(assignment)
                        ],
                        configs=[
                            kind.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()
                        ],
                    )
                ],
                timeout_ms=10_000,
                validate_only=False,
            ),
            CreateTopicsResponse,
            7,
        )
        told = answer.topics[0]
        assert told.error_code == 0, told.error_message
        with KafkaAdminClient(bootstrap_servers=self._cluster.bootstrap) as admin:
            admin.wait_for_topics([topic])

    def reassign(self, topic: str, partition: int, brokers: Sequence[int]) -> None:
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = kind.ReassignablePartition(partition_index=partition, replicas=list(brokers))
        answer = self.ask(
            1,
            AlterPartitionReassignmentsRequest(
                timeout_ms=10_000,
                allow_replication_factor_change=True,
                topics=[kind(name=topic, partitions=[part])],
            ),
            AlterPartitionReassignmentsResponse,
            1,
        )
        assert answer.error_code == 0

    def configure(self, kind: int, name: str, **values: str) -> None:
        """Set settings of a topic (2) or, with an empty name, of all brokers (4)."""
        request = IncrementalAlterConfigsRequest
        entry = request.AlterConfigsResource
        answer = self.ask(
            1,
            request(
                resources=[
                    entry(
                        resource_type=kind,
                        resource_name=name,
                        configs=[
                            entry.AlterableConfig(
                                name=k.replace("_", "."), config_operation=0, value=v
                            )
                            for k, v in values.items()
                        ],
                    )
                ],
                validate_only=False,
            ),
            IncrementalAlterConfigsResponse,
            1,
        )
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message


def produce(
    cluster: LocalCluster, topic: str, count: int, *, partition: int = 0, size: int = 1_000,
    first_ms: int | None = None,
) -> None:  # fmt: skip
    """Records of random bytes, some to a batch; record i is written at ``first_ms + i``."""
    value = np.random.default_rng(count).bytes(size)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", linger_ms=5) as producer:
        sent = [
            producer.send(
                topic,
                value,
                key=str(i).encode(),
                partition=partition,
                timestamp_ms=None if first_ms is None else first_ms + i,
            )
            for i in range(count)
        ]
        for future in sent:
            future.get(60)


def eventually(what: Callable[[], bool], seconds: float = 30, pause: float = 0.2) -> None:
    """Wait until it holds; fail with its name if it does not in time."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what.__name__}"
        time.sleep(pause)
