"""Brokers that answer what a test sets, over TCP, in kafka-python's own protocol classes.

A ``World`` is what the cluster holds; every ``FakeBroker`` of it answers from there. A test may
make a broker silent, lower the versions it knows, or give one broker a past of its own.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTransactionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from streaming.collector.sources import ABOUT
from tests.collector import fake_groups
from tests.collector.fake_groups import FakeCoordinator, Group

REQUESTS = {
    **{need.message.API_KEY: need.message for about in ABOUT.values() for need in about.needs},
    **fake_groups.REQUESTS,
    **{
        request.API_KEY: request
        for request in (
            MetadataRequest,
            ApiVersionsRequest,
            DescribeClusterRequest,
            AlterPartitionReassignmentsRequest,
            ElectLeadersRequest,
            ProduceRequest,
        )
    },
}
"""What a fake broker offers: the requests that sources declare, and what else is asked in tests."""

UNKNOWN_TOPIC = 3
NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
TRANSACTIONAL_ID_NOT_FOUND = 105
NOT_CONTROLLER = 41
PREFERRED_LEADER_NOT_AVAILABLE = 80
ELECTION_NOT_NEEDED = 84
UNSUPPORTED_VERSION = 35
FIRST_VERSION_OF_KIND = {-1: 0, -2: 0, -4: 8, -5: 9, -6: 11}


@dataclass
class Log:
    """One replica's log. An offset may be an error code instead, as ``Error(code)``."""

    log_start: Any = 0
    local_start: Any = 0
    log_end: Any = 0
    last_tiered: Any = -1
    pending: Any = -1
    last_stable: Any = None  # as log_end if not given
    high_watermark: Any = None  # as log_end if not given
    size: int = 0
    future_size: int | None = None
    first_ms: int = -1
    newest_ms: int = -1  # timestamp of the last record

    def offset(self, kind: int) -> Any:
        return {
            -1: self.log_end,
            -2: self.log_start,
            -4: self.local_start,
            -5: self.last_tiered,
            -6: self.pending,
        }[kind]


@dataclass(frozen=True)
class Error:
    code: int


@dataclass
class Partition:
    replicas: list[int]
    leader: int | None = None
    epoch: int = 0
    isr: list[int] | None = None
    offline: list[int] = field(default_factory=list)
    elr: list[int] | None = field(default_factory=list)
    last_elr: list[int] | None = field(default_factory=list)
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    logs: dict[int, Log] = field(default_factory=dict)
    history: list[tuple[int, int]] = field(default_factory=list)  # leader epochs, first offsets

    def __post_init__(self) -> None:
        self.leader = self.replicas[0] if self.leader is None else self.leader
        self.isr = list(self.replicas) if self.isr is None else self.isr
        for broker in self.replicas:
            self.logs.setdefault(broker, Log())


@dataclass
class Topic:
    partitions: dict[int, Partition]
    topic_id: uuid.UUID = field(default_factory=uuid.uuid4)
    configs: dict[str, str] = field(default_factory=dict)
    error: int = 0


@dataclass
class Transaction:
    """A transaction that is open."""

    topic: str
    partition: int
    start: int  # offset of its first record there
    transactional_id: str = "payments"
    producer_id: int = 7
    coordinator: int = 1
    began_ms: int = 1_000


@dataclass
class World:
    topics: dict[str, Topic] = field(default_factory=dict)
    cluster_id: str = "fake"
    racks: dict[int, str] = field(default_factory=dict)
    advertised: dict[int, tuple[str, int]] = field(default_factory=dict)  # where brokers say to be
    fenced: set[int] = field(default_factory=set)
    broker_configs: dict[str, str] = field(
        default_factory=lambda: {"replica.lag.time.max.ms": "30000", "min.insync.replicas": "1"}
    )
    defaults: dict[str, str] = field(default_factory=dict)  # what topics inherit
    features: dict[str, int] | None = field(
        default_factory=lambda: {"eligible.leader.replicas.version": 1}
    )
    controller: int | None = None  # of a ZooKeeper cluster; with KRaft any broker is named
    denied: set[int] = field(default_factory=set)  # API keys that need a right we lack
    unreadable: set[str] = field(default_factory=set)  # topics without READ
    hidden: set[str] = field(default_factory=set)  # topics without DESCRIBE
    voters: dict[int, int] = field(  # of the controller quorum: when each was last caught up
        default_factory=lambda: {1: 1_000, 2: 990, 3: 995}
    )
    active_controller: int = 1
    groups: dict[str, Group] = field(default_factory=dict)
    groups_hidden: bool = False  # none may be described
    list_errors: dict[int, int] = field(default_factory=dict)  # of ListGroups, by broker
    transactions: list[Transaction] = field(default_factory=list)
    ids_hidden: bool = False  # no transactional id may be described
    authorized: set[int] | None = None  # operations on the cluster, None if Kafka does not say


class FakeBroker(FakeCoordinator):
    """One broker on a free port of this machine."""

    def __init__(self, node: int, world: World, cluster: FakeCluster) -> None:
        self.node, self.world, self.cluster = node, world, cluster
        self.silent: set[int] | bool = False  # API keys that are never answered, or all
        self.highest: dict[int, int | None] = {  # highest version of an API, None if unknown
            ProduceRequest.API_KEY: 12  # the last one with names of topics
        }
        self.lowest: dict[int, int] = {}
        self.configs: dict[str, str | None] = {}  # its own, beside those of the world
        self.asked: list[tuple[int, Any]] = []
        self.answers: dict[int, Callable[[Any, int], Any]] = {}  # a test's own answers
        self._connections: list[socket.socket] = []
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker._connections.append(self.request)
                is_stuck = False  # a broker answers in order: nothing after what it leaves out
                is_first = True
                with contextlib.suppress(OSError):
                    while (frame := _frame(self.request)) is not None:
                        answer = None if is_stuck else broker._answer(frame, is_first)
                        is_stuck, is_first = answer is None, False
                        if answer is not None:
                            self.request.sendall(answer)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        """Gone: connections are closed and new ones refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def asked_of(self, api: Any) -> list[Any]:
        return [request for key, request in self.asked if key == api.API_KEY]

    def _answer(self, frame: bytes, is_first: bool) -> bytes | None:
        key, version, correlation_id = struct.unpack(">hhi", frame[:8])
        # A client begins with ApiVersions: a test means those that a source sends.
        is_handshake = is_first and key == ApiVersionsRequest.API_KEY
        is_silent = isinstance(self.silent, set) and key in self.silent and not is_handshake
        if self.silent is True or is_silent:
            return None
        request = REQUESTS[key].decode(frame, version=version, header=True)
        self.asked.append((key, request))
        own = None if is_handshake else self.answers.get(key)
        make = own or getattr(self, f"_{REQUESTS[key].name}", self.by_schema)
        response = make(request, version)
        is_refusal = key == ApiVersionsRequest.API_KEY and response.error_code
        response.API_VERSION = 0 if is_refusal else version  # any client can read it (KIP-511)
        response.with_header(correlation_id=correlation_id)
        return bytes(response.encode(header=True, framed=True))

    def by_schema(self, request: Any, _: int, error: int = 0) -> Any:
        """The schema's defaults: nothing is there, and nothing is wrong but for the ``error``."""
        kind = request.header.get_response_class()[None]
        error = CLUSTER_AUTHORIZATION_FAILED if kind.API_KEY in self.world.denied else error
        return kind(error_code=error) if error else kind()

    def _ApiVersionsRequest(self, _: Any, version: int) -> Any:  # noqa: N802
        key = ApiVersionsResponse.ApiVersion
        supported = {k: self.highest.get(k, request.max_version) for k, request in REQUESTS.items()}
        answer = ApiVersionsResponse(
            api_keys=[
                key(api_key=k, min_version=self.lowest.get(k, 0), max_version=v)
                for k, v in supported.items()
                if v is not None
            ]
        )
        if version >= 3 and self.world.features is not None:
            feature = ApiVersionsResponse.FinalizedFeatureKey
            answer.finalized_features_epoch = 7
            answer.finalized_features = [
                feature(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.world.features.items()
            ]
        return answer

    def _MetadataRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = MetadataResponse.MetadataResponseTopic
        part = kind.MetadataResponsePartition
        there = {n: t for n, t in self.world.topics.items() if n not in self.world.hidden}
        if request.topics is None:
            listed = there
        else:  # by name: whether a hidden one exists is not answered
            names = [t.name for t in request.topics]
            listed = {n: there.get(n) or Topic({}, error=self._why_not(n)) for n in names}
        return MetadataResponse(
            brokers=[
                MetadataResponse.MetadataResponseBroker(b.node, *b.place, self._rack(b))
                for b in self.cluster.brokers.values()
                if b.node not in self.world.fenced
            ],
            cluster_id=self.world.cluster_id,
            # KRaft names any live broker.
            controller_id=self.world.controller or len(self.asked) % 3 + 1,
            topics=[
                kind(
                    error_code=t.error,
                    name=name,
                    topic_id=t.topic_id,
                    is_internal=False,
                    partitions=[
                        part(
                            error_code=0,
                            partition_index=number,
                            leader_id=p.leader,
                            leader_epoch=p.epoch,
                            replica_nodes=p.replicas,
                            isr_nodes=p.isr,
                            offline_replicas=p.offline,
                        )
                        for number, p in t.partitions.items()
                    ],
                )
                for name, t in listed.items()
            ],
        )

    def _why_not(self, topic: str) -> int:
        return TOPIC_AUTHORIZATION_FAILED if topic in self.world.hidden else UNKNOWN_TOPIC

    @property
    def place(self) -> tuple[str, int]:
        """The host and port that it advertises."""
        return self.world.advertised.get(self.node, ("127.0.0.1", self.port))

    def _rack(self, broker: FakeBroker) -> str | None:
        return self.world.racks.get(broker.node)

    def _DescribeClusterRequest(self, request: Any, version: int) -> Any:  # noqa: N802
        kind = DescribeClusterResponse.DescribeClusterBroker
        with_fenced = version >= 2 and request.include_fenced_brokers
        return DescribeClusterResponse(
            cluster_id=self.world.cluster_id,
            controller_id=1,
            authorized_operations=self.world.authorized,
            brokers=[
                kind(
                    broker_id=b.node,
                    host=b.place[0],
                    port=b.place[1],
                    rack=self._rack(b),
                    is_fenced=b.node in self.world.fenced,
                )
                for b in self.cluster.brokers.values()
                if with_fenced or b.node not in self.world.fenced
            ],
        )

    def _ProduceRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        """Records are taken, and not kept."""
        kind = ProduceResponse.TopicProduceResponse
        part = kind.PartitionProduceResponse
        return ProduceResponse(
            responses=[
                kind(
                    name=topic.name,
                    partition_responses=[
                        part(index=each.index, error_code=0, base_offset=0)
                        for each in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def _ListOffsetsRequest(self, request: Any, version: int) -> Any:  # noqa: N802
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        part = kind.ListOffsetsPartitionResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                offset = self._offset(request, topic.name, asked, version)
                partitions.append(
                    part(
                        partition_index=asked.partition_index,
                        error_code=offset.code if isinstance(offset, Error) else 0,
                        offset=-1 if isinstance(offset, Error) else offset,
                        leader_epoch=3,
                    )
                )
            # Kafka answers in the order of a hash map.
            topics.append(kind(name=topic.name, partitions=partitions[::-1]))
        return ListOffsetsResponse(topics=topics[::-1])

    def _OffsetForLeaderEpochRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        return OffsetForLeaderEpochResponse(
            topics=[
                kind(
                    topic=topic.topic,
                    partitions=[self._epoch_end(topic.topic, a) for a in topic.partitions],
                )
                for topic in request.topics
            ],
        )

    def _epoch_end(self, topic: str, asked: Any) -> Any:
        """The end of an epoch, as LeaderEpochFileCache.endOffsetFor of Kafka 4.3 has it."""
        kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset
        partition = self.world.topics[topic].partitions[asked.partition]
        error, epoch, end = 0, -1, -1
        if topic in self.world.unreadable:
            error = TOPIC_AUTHORIZATION_FAILED
        elif partition.leader != self.node:
            error = NOT_LEADER_OR_FOLLOWER
        elif asked.current_leader_epoch != partition.epoch:
            older = asked.current_leader_epoch < partition.epoch
            error = FENCED_LEADER_EPOCH if older else UNKNOWN_LEADER_EPOCH
        elif asked.leader_epoch != -1 and partition.history:
            lower = [e for e in partition.history if e[0] <= asked.leader_epoch]
            higher = [e for e in partition.history if e[0] > asked.leader_epoch]
            if partition.history[-1][0] == asked.leader_epoch:
                epoch, end = asked.leader_epoch, partition.logs[self.node].log_end
            elif higher:
                epoch, end = (lower[-1][0] if lower else asked.leader_epoch), higher[0][1]
        return kind(error_code=error, partition=asked.partition, leader_epoch=epoch, end_offset=end)

    def _offset(self, request: Any, topic: str, asked: Any, version: int) -> Any:
        if version < FIRST_VERSION_OF_KIND.get(asked.timestamp, 1):
            return Error(UNSUPPORTED_VERSION)
        log = self._log(topic, asked.partition_index)
        if log is None or not (request.replica_id == -2 or self._leads(topic, asked)):
            return Error(NOT_LEADER_OR_FOLLOWER)
        if asked.timestamp >= 0:  # the first record that is not older
            return log.log_end - 1 if log.newest_ms >= asked.timestamp else -1
        if asked.timestamp == -1 and request.replica_id == -1:  # a consumer
            limit = log.last_stable if request.isolation_level else log.high_watermark
            if limit is not None:
                return limit
        return log.offset(asked.timestamp)

    def _leads(self, topic: str, asked: Any) -> bool:
        return self.world.topics[topic].partitions[asked.partition_index].leader == self.node

    def _log(self, topic: str, partition: int) -> Log | None:
        held = self.world.topics.get(topic)
        if held is None or partition not in held.partitions:
            return None
        return held.partitions[partition].logs.get(self.node)

    def _DescribeLogDirsRequest(self, _: Any, __: int) -> Any:  # noqa: N802
        if DescribeLogDirsRequest.API_KEY in self.world.denied:
            return DescribeLogDirsResponse(error_code=CLUSTER_AUTHORIZATION_FAILED, results=[])
        directory = DescribeLogDirsResponse.DescribeLogDirsResult
        kind = directory.DescribeLogDirsTopic
        part = kind.DescribeLogDirsPartition
        current, future = [], []
        for name, topic in self.world.topics.items():
            held = {
                n: p.logs[self.node] for n, p in topic.partitions.items() if self.node in p.logs
            }
            for into, sizes in (
                (current, {n: log.size for n, log in held.items()}),
                (future, {n: log.future_size for n, log in held.items()}),
            ):
                known_sizes = {n: s for n, s in sizes.items() if s is not None}
                if known_sizes:
                    parts = [
                        part(partition_index=n, partition_size=s, is_future_key=into is future)
                        for n, s in known_sizes.items()
                    ]
                    into.append(kind(name=name, partitions=parts))
        return DescribeLogDirsResponse(
            results=[
                directory(
                    error_code=0, log_dir=path, topics=topics, total_bytes=1_000, usable_bytes=400
                )
                for path, topics in (("/a", current), ("/b", future))
            ]
        )

    def _DescribeConfigsRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        denied = DescribeConfigsRequest.API_KEY in self.world.denied
        results = []
        for asked in request.resources:
            if asked.resource_type == 2:
                topic = self.world.topics.get(asked.resource_name)
                error = 3 if topic is None else TOPIC_AUTHORIZATION_FAILED if denied else 0
                configs = {} if topic is None else self.world.defaults | topic.configs
            else:
                error, configs = (
                    CLUSTER_AUTHORIZATION_FAILED if denied else 0,
                    self.world.broker_configs | self.configs,
                )
            results.append(
                result(
                    error_code=error,
                    error_message=None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[
                        entry(
                            name=name,
                            value=value,
                            read_only=False,
                            is_sensitive=False,
                            # 1: set for the topic, 5: Kafka's default
                            config_source=5 if value is self.world.defaults.get(name) else 1,
                        )
                        for name, value in configs.items()
                        if name in asked.configuration_keys and not error
                    ],
                )
            )
        return DescribeConfigsResponse(results=results)

    def _DescribeTopicPartitionsRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        part = kind.DescribeTopicPartitionsResponsePartition
        rows = sorted(
            (t.name, number)
            for t in request.topics
            for number in self.world.topics[t.name].partitions
        )
        if request.cursor is not None:
            after = (request.cursor.topic_name, request.cursor.partition_index)
            rows = [row for row in rows if row >= after]
        page, rest = (
            rows[: request.response_partition_limit],
            rows[request.response_partition_limit :],
        )
        topics = []
        for name in dict.fromkeys(name for name, _ in page):
            topic = self.world.topics[name]
            if DescribeTopicPartitionsRequest.API_KEY in self.world.denied:
                topics.append(kind(error_code=TOPIC_AUTHORIZATION_FAILED, name=name))
                continue
            topics.append(
                kind(
                    error_code=0,
                    name=name,
                    topic_id=topic.topic_id,
                    partitions=[
                        part(
                            error_code=0,
                            partition_index=number,
                            leader_id=p.leader,
                            leader_epoch=p.epoch,
                            replica_nodes=p.replicas,
                            isr_nodes=p.isr,
                            eligible_leader_replicas=p.elr,
                            last_known_elr=p.last_elr,
                            offline_replicas=p.offline,
                        )
                        for n, number in page
                        if n == name
                        for p in (topic.partitions[number],)
                    ],
                )
            )
        cursor = rest and DescribeTopicPartitionsResponse.Cursor(
            topic_name=rest[0][0], partition_index=rest[0][1]
        )
        return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor or None)

    def _ListPartitionReassignmentsRequest(self, _: Any, __: int) -> Any:  # noqa: N802
        if ListPartitionReassignmentsRequest.API_KEY in self.world.denied:
            return ListPartitionReassignmentsResponse(
                error_code=CLUSTER_AUTHORIZATION_FAILED, topics=[]
            )
        if self.world.controller not in (None, self.node):
            return ListPartitionReassignmentsResponse(error_code=NOT_CONTROLLER, topics=[])
        kind = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        part = kind.OngoingPartitionReassignment
        topics = []
        for name, topic in self.world.topics.items():
            moving = [
                part(partition_index=n, replicas=p.replicas, adding_replicas=p.adding,
                     removing_replicas=p.removing)
                for n, p in topic.partitions.items() if p.adding or p.removing
            ]  # fmt: skip
            if moving:
                topics.append(kind(name=name, partitions=moving))
        return ListPartitionReassignmentsResponse(error_code=0, topics=topics)

    def _AlterPartitionReassignmentsRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        """Orders change at once; a reassignment to other brokers begins and stays."""
        if AlterPartitionReassignmentsRequest.API_KEY in self.world.denied:
            return AlterPartitionReassignmentsResponse(
                error_code=CLUSTER_AUTHORIZATION_FAILED, responses=[]
            )
        kind = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
        part = kind.ReassignablePartitionResponse
        for topic in request.topics:
            for asked in topic.partitions:
                held = self.world.topics[topic.name].partitions[asked.partition_index]
                held.adding = [b for b in asked.replicas if b not in held.replicas]
                held.removing = [b for b in held.replicas if b not in asked.replicas]
                held.replicas = [*asked.replicas, *held.removing]
        return AlterPartitionReassignmentsResponse(
            error_code=0,
            responses=[
                kind(name=t.name, partitions=[
                    part(partition_index=p.partition_index, error_code=0) for p in t.partitions
                ])
                for t in request.topics
            ],
        )  # fmt: skip

    def _ElectLeadersRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        """Preferred elections alone."""
        if ElectLeadersRequest.API_KEY in self.world.denied:
            return ElectLeadersResponse(
                error_code=CLUSTER_AUTHORIZATION_FAILED, replica_election_results=[]
            )
        kind = ElectLeadersResponse.ReplicaElectionResult
        return ElectLeadersResponse(
            error_code=0,
            replica_election_results=[
                kind(topic=topic.topic, partition_result=[
                    kind.PartitionResult(partition_id=n, error_code=self._elected(topic.topic, n))
                    for n in topic.partitions
                ])
                for topic in request.topic_partitions
            ],
        )  # fmt: skip

    def _elected(self, topic: str, number: int) -> int:
        held = self.world.topics[topic].partitions[number]
        if held.leader == held.replicas[0]:
            return ELECTION_NOT_NEEDED
        if held.isr is None or held.replicas[0] not in held.isr:
            return PREFERRED_LEADER_NOT_AVAILABLE
        held.leader, held.epoch = held.replicas[0], held.epoch + 1
        return 0

    def _DescribeQuorumRequest(self, _: Any, version: int) -> Any:  # noqa: N802
        if DescribeQuorumRequest.API_KEY in self.world.denied:
            return DescribeQuorumResponse(error_code=CLUSTER_AUTHORIZATION_FAILED, topics=[])
        topic = DescribeQuorumResponse.TopicData
        part = topic.PartitionData
        state = part.ReplicaState
        voters = []
        for node, caught_up_at_ms in self.world.voters.items():
            voter = state(replica_id=node, log_end_offset=100)
            if version >= 1:
                voter.last_caught_up_timestamp = caught_up_at_ms
                voter.last_fetch_timestamp = caught_up_at_ms
            voters.append(voter)
        quorum = part(
            partition_index=0, error_code=0, leader_id=self.world.active_controller, leader_epoch=1,
            high_watermark=100, current_voters=voters, observers=[],
        )  # fmt: skip
        named = topic(topic_name="__cluster_metadata", partitions=[quorum])
        return DescribeQuorumResponse(error_code=0, topics=[named])

    def _DescribeProducersRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = DescribeProducersResponse.TopicResponse
        part = kind.PartitionResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for number in topic.partition_indexes:
                error = 0 if self._leads_to(topic.name, number) else NOT_LEADER_OR_FOLLOWER
                error = TOPIC_AUTHORIZATION_FAILED if topic.name in self.world.unreadable else error
                producers = [
                    part.ProducerState(
                        producer_id=t.producer_id, producer_epoch=0, last_sequence=0,
                        last_timestamp=0, coordinator_epoch=0, current_txn_start_offset=t.start,
                    )
                    for t in self.world.transactions
                    if (t.topic, t.partition) == (topic.name, number) and not error
                ]  # fmt: skip
                partitions.append(
                    part(partition_index=number, error_code=error, active_producers=producers)
                )
            topics.append(kind(name=topic.name, partitions=partitions))
        return DescribeProducersResponse(topics=topics)

    def _leads_to(self, topic: str, partition: int) -> bool:
        return self.world.topics[topic].partitions[partition].leader == self.node

    def _transactions_here(self) -> list[Transaction]:
        hidden = self.world.ids_hidden
        return [t for t in self.world.transactions if t.coordinator == self.node and not hidden]

    def _ListTransactionsRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = ListTransactionsResponse.TransactionState
        listed = [
            kind(transactional_id=t.transactional_id, producer_id=t.producer_id,
                 transaction_state="Ongoing")
            for t in self._transactions_here() if t.producer_id in request.producer_id_filters
        ]  # fmt: skip
        return ListTransactionsResponse(
            error_code=0, unknown_state_filters=[], transaction_states=listed
        )

    def _DescribeTransactionsRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = DescribeTransactionsResponse.TransactionState
        known = {t.transactional_id: t for t in self._transactions_here()}
        states = []
        for name in request.transactional_ids:
            error = TRANSACTIONAL_ID_NOT_FOUND
            error = TRANSACTIONAL_ID_AUTHORIZATION_FAILED if self.world.ids_hidden else error
            found = known.get(name)
            states.append(
                kind(
                    error_code=0 if found else error,
                    transactional_id=name,
                    transaction_state="Ongoing" if found else "",
                    transaction_timeout_ms=60_000,
                    transaction_start_time_ms=found.began_ms if found else -1,
                    producer_id=found.producer_id if found else -1,
                    producer_epoch=0,
                    topics=[],
                )
            )
        return DescribeTransactionsResponse(transaction_states=states)

    def _FetchRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = FetchResponse.FetchableTopicResponse
        topic = request.topics[0]
        asked = topic.partitions[0]
        log = self._log(topic.topic, asked.partition)
        records, error = b"", 0
        if topic.topic in self.world.unreadable:
            error = TOPIC_AUTHORIZATION_FAILED
        elif log is None:
            error = NOT_LEADER_OR_FOLLOWER
        elif asked.fetch_offset < log.log_end:
            records = batch(asked.fetch_offset, log.first_ms)
        partition = kind.PartitionData(
            partition_index=asked.partition, error_code=error, high_watermark=0, records=records
        )
        return FetchResponse(responses=[kind(topic=topic.topic, partitions=[partition])])


class FakeCluster:
    """Several fake brokers that share a world."""

    def __init__(self, world: World, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.world = world
        self.brokers: dict[int, FakeBroker] = {}
        for node in nodes:
            self.brokers[node] = FakeBroker(node, world, self)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{b.port}" for b in self.brokers.values())

    def __getitem__(self, node: int) -> FakeBroker:
        return self.brokers[node]

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()


@contextlib.contextmanager
def fake_cluster(world: World, nodes: Sequence[int] = (1, 2, 3)) -> Iterator[FakeCluster]:
    """Fake brokers for as long as the block."""
    cluster = FakeCluster(world, nodes)
    try:
        yield cluster
    finally:
        cluster.stop()


def batch(
    base_offset: int, first_ms: int, *, largest_ms: int = 0, attributes: int = 0, magic: int = 2
) -> bytes:
    """The header of a record batch, with some bytes for its records."""
    head = struct.pack(
        ">qiibIhiqq", base_offset, 57, 0, magic, 0, attributes, 0, first_ms, largest_ms
    )
    return head + bytes(40)


def _frame(connection: socket.socket) -> bytes | None:
    size = _read(connection, 4)
    return None if size is None else _read(connection, struct.unpack(">i", size)[0])


def _read(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            return None
        data += more
    return data
