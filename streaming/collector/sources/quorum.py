"""The controller quorum: who votes, who leads, and how far the others are behind.

Brokers forward DescribeQuorum to the active controller. A cluster with ZooKeeper has no quorum, and
its brokers do not know the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse

from streaming.collector.about import About, Acl, Needed
from streaming.collector.context import CycleContext
from streaming.collector.problem import Problem, from_code
from streaming.collector.reading import Reading, Rows
from streaming.collector.source import Setup, Source
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.tables.observations import QuorumFrame

_WITH_TIMES: Final = 1
"""First version that has times (KIP-836, Kafka 3.4)."""

QUORUM: Final = About(
    "controller quorum",
    "whether the controllers can do without a broker that is one of them, which `gate` asks",
    Acl("DESCRIBE", "cluster"),
    needs=(Needed(DescribeQuorumRequest, "Kafka 3.3 with KRaft", highest=_WITH_TIMES),),
)

TOPIC: Final = "__cluster_metadata"

_SHARE: Final = 0.2
"""Share of the deadline that the request may take: an absent controller must not delay the
observation by the whole deadline."""


SHARD: Final = 0
"""The shard that holds the controller quorum; rules of other shards do not read it."""


@dataclass(frozen=True, slots=True, eq=False)
class Quorum(Reading):
    """The voters of the controller quorum."""

    voters: pa.Table

    def tables(self, shard: int) -> Iterator[Rows]:
        """All voters, in one shard."""
        if shard == SHARD:
            yield QuorumFrame, self.voters


class QuorumSource(Source):
    """Reads the quorum in each cycle, which takes one or two milliseconds."""

    about = (QUORUM,)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.client_id)

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._problem: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the quorum is unknown in this cycle."""
        return () if self._problem is None else (self._problem,)

    def read(self, context: CycleContext) -> Quorum | None:
        """The quorum; None if unknown."""
        if not context.has_metadata_broker:
            return None
        version: int | None = None

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            nonlocal version
            version = negotiate_version(versions, DescribeQuorumRequest, _WITH_TIMES)
            if version is None:
                return []
            partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
            topic = DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[partition])
            request = DescribeQuorumRequest(topics=[topic])
            return [EncodedRequest.encode(request, version, self._client_id)]

        response = context.ask_metadata_broker(make, context.deadline(_SHARE))
        failure, body = response.problem, response.first
        self._problem = None if failure is None else failure.at(QUORUM.name)
        if failure is not None:
            return None
        if version is None or body is None:
            return _quorum([(NO_BROKER, False, UNKNOWN, UNKNOWN)])
        return self._decoded(body, version)

    def _decoded(self, body: bytes, version: int) -> Quorum | None:
        decoded = DescribeQuorumResponse.decode(body, version=version)
        partitions = [p for topic in decoded.topics for p in topic.partitions]
        codes = [decoded.error_code, *(p.error_code for p in partitions)]
        if any(codes) or not partitions:
            code = next(filter(None, codes), UNKNOWN)
            text = "whether its controllers can do without one is not known"
            self._problem = from_code(QUORUM.name, code, text)
            # Without the right nothing is known of it; otherwise it should have answered.
            return _quorum([]) if self._problem.is_denied else None
        [quorum] = partitions
        return _quorum([
            (v.replica_id, v.replica_id == quorum.leader_id, v.log_end_offset,
             v.last_caught_up_timestamp if version >= _WITH_TIMES else UNKNOWN)
            for v in quorum.current_voters
        ])  # fmt: skip


def _quorum(voters: list[tuple[int, bool, int, int]]) -> Quorum:
    schema = QuorumFrame.schema()
    rows = [dict(zip(schema.names, voter, strict=True)) for voter in voters]
    return Quorum(pa.Table.from_pylist(rows, schema=schema))
