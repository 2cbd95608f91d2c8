"""The write time and the kind of a replica's oldest local batch: fetches one byte at its start.

Kafka answers a fetch of one byte with one whole batch, whose header holds the timestamp of its
first record. It does so only for the first partition of a request that has data (ReplicaManager
``minOneMessage``; measured on 4.3.1), so each replica needs its own request, and many are in flight
at once. A replica is read again only when its local start has moved, and always at the local start
of this cycle: at a lower offset the broker would read remote storage. (That happens if the start
moves between the two requests.) Needs READ on the topic; without it the timestamp is unknown.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from kafka.protocol.consumer import FetchRequest, FetchResponse

from streaming.collector.about import About, Acl, Needed
from streaming.collector.context import CycleContext
from streaming.collector.denied import RETRY_DENIED_MS, DeniedTopics
from streaming.collector.listing import Array, ListedPlacement, common_replicas
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading
from streaming.collector.source import Setup, Source
from streaming.collector.sources.offsets import ReplicaOffsets
from streaming.collector.wire.connections import (
    BrokerResponse,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.runtime.kafka.clients import TOPIC_NOT_ALLOWED
from twin.declarations.table import UNKNOWN
from twin.tables.enums import BatchKind

_LOWEST: Final = 11
"""Kafka 2.4: from this version on followers answer consumers too (KIP-392)."""

_HIGHEST: Final = 12
"""The last version that has topic names instead of ids."""

TIMESTAMPS: Final = About(
    "local start timestamps",
    "when a replica's oldest local record was written, so that thresholds in time are assumed to "
    "be met",
    Acl("READ", "topic", option="collector.timestamps"),
    needs=(Needed(FetchRequest, "Kafka 2.4", lowest=_LOWEST, highest=_HIGHEST),),
    idle="no replica has a local log whose first timestamp is unknown",
)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on the replicas of a broker that are read in a cycle.

    The number is divided by four after a slow round and doubled after a quick one, within bounds.
    """

    first: int = 64
    least: int = 8
    most: int = 512
    slow_ms: int = 150
    retry_denied_ms: int = RETRY_DENIED_MS


_SOME_PARTITION: Final = bytes.fromhex("7ff0f1f2")
_SOME_OFFSET: Final = bytes.fromhex("7ffefdfcfbfaf9f8")
"""Placeholders of the numbers in a request that is encoded once for each topic."""

_BATCH: Final = struct.Struct(">qiibIhiqq")
"""Record batch: base offset, length, leader epoch, magic, checksum, attributes, last offset delta,
first timestamp, largest timestamp."""

_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40


@dataclass(frozen=True, slots=True)
class _Round:
    """The replicas that are read in one cycle."""

    placement: ListedPlacement
    offsets: ReplicaOffsets
    rows: Mapping[int, Array]  # by broker

    def topic(self, row: int) -> str:
        """The topic of a replica."""
        placement = self.placement
        return placement.topic[placement.topic_of[placement.partition_of[row]]]


@dataclass(frozen=True, slots=True, eq=False)
class LocalStarts(Reading):
    """The write time of the oldest record on each replica's disk."""

    timestamp_ms: Array  # [N] since the epoch; UNKNOWN: no record, not read yet, or not readable
    batch: Array  # [N] BatchKind; UNKNOWN likewise

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """The columns about the first batch."""
        return {"local_start_timestamp_ms": self.timestamp_ms, "local_start_batch": self.batch}


class TimestampSource(Source):
    """Remembers the local start at which each replica was read, and its timestamp."""

    about = (TIMESTAMPS,)

    @classmethod
    def make(cls, setup: Setup) -> Self | None:
        """Read in each cycle, with ``collector.timestamps``."""
        if not setup.config.collector.timestamps:
            return None
        return cls(setup.client_id, ReadLimits(retry_denied_ms=setup.retry_denied_ms))

    def __init__(self, client_id: str, limits: ReadLimits | None = None) -> None:
        self._client_id = client_id
        self._limits = limits or ReadLimits()
        self._placement: ListedPlacement | None = None
        self._read_at = np.zeros(0, np.int64)  # [N] local start offset when it was read
        self._read_ms = np.zeros(0, np.int64)  # [N]
        self._batch = np.zeros(0, np.int8)  # [N]
        self._quota: dict[int, int] = {}
        self._turn = 0
        self._version: dict[int, int] = {}
        self._encoded: dict[tuple[str, int], EncodedRequest] = {}
        self._denied = DeniedTopics(self._limits.retry_denied_ms)
        self._unanswered: list[Problem] = []  # in this cycle

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of refused topics, by their last response, and of silent brokers."""
        text = "no READ right on such topics, their timestamps stay unknown"
        return (*self._unanswered, *self._denied.problems(TIMESTAMPS.name, text))

    def read(
        self, context: CycleContext, placement: ListedPlacement, offsets: ReplicaOffsets
    ) -> LocalStarts:
        """The known timestamps, after reading some of the unknown ones."""
        if not len(placement):  # the cluster may not be listed now; known values stay
            unknown = np.full(len(placement.broker), UNKNOWN, np.int64)
            return LocalStarts(unknown, unknown.astype(np.int8))
        self._follow(placement)
        pending = self._pending(placement, offsets)
        broker_of = placement.broker[pending]
        rows_by_broker = {
            broker: self._next_rows(broker, pending[broker_of == broker])
            for broker in np.unique(broker_of).tolist()
        }
        self._turn += 1
        self._unanswered = []
        if rows_by_broker:
            self._fetch(context, _Round(placement, offsets, rows_by_broker))
        is_current = self._read_at == offsets.local_start
        is_current &= offsets.answered
        return LocalStarts(
            np.where(is_current, self._read_ms, UNKNOWN),
            np.where(is_current, self._batch, np.int8(UNKNOWN)),
        )

    def _fetch(self, context: CycleContext, this_round: _Round) -> None:
        def make(broker: int, versions: Versions) -> Sequence[EncodedRequest]:
            version = negotiate_version(versions, FetchRequest, _HIGHEST)
            if version is None or version < _LOWEST:
                return []
            self._version[broker] = version
            return self._requests(version, this_round, this_round.rows[broker])

        responses = context.brokers.ask(this_round.rows, make, context.deadline())
        for broker, response in responses.items():
            self._adapt(broker, response)
            if response.problem is not None:
                self._unanswered.append(response.problem.at(TIMESTAMPS.name))
            if response.answered:
                self._note(broker, this_round, response)

    def _follow(self, placement: ListedPlacement) -> None:
        """Move the remembered values to a new placement."""
        if placement is self._placement:
            return
        read_at = np.full(len(placement.broker), UNKNOWN, np.int64)
        read_ms, batch = read_at.copy(), read_at.astype(np.int8)
        if self._placement is not None:
            in_old, in_new = common_replicas(self._placement, placement)
            read_at[in_new], read_ms[in_new] = self._read_at[in_old], self._read_ms[in_old]
            batch[in_new] = self._batch[in_old]
        self._placement, self._read_at, self._read_ms = placement, read_at, read_ms
        self._batch = batch
        topics = set(placement.topic)
        self._encoded = {key: r for key, r in self._encoded.items() if key[0] in topics}
        self._denied.keep_only(topics)

    def _pending(self, placement: ListedPlacement, offsets: ReplicaOffsets) -> Array:
        """The replicas whose local start has moved since they were read."""
        has_log = offsets.answered & (offsets.error_code == 0) & (offsets.local_start >= 0)
        has_log &= offsets.log_end > offsets.local_start
        pending = np.flatnonzero(has_log & (offsets.local_start != self._read_at))
        waiting = self._denied.waiting()
        if waiting and len(pending):
            number = [i for i, name in enumerate(placement.topic) if name in waiting]
            topic_of = placement.topic_of[placement.partition_of[pending]]
            pending = pending[~np.isin(topic_of, number)]
        return pending

    def _next_rows(self, broker: int, rows: Array) -> Array:
        """The replicas to read: as many as the broker answers quickly, in turn."""
        quota = self._quota.setdefault(broker, self._limits.first)
        return np.roll(rows, -quota * self._turn)[:quota]

    def _adapt(self, broker: int, response: BrokerResponse) -> None:
        limits, quota = self._limits, self._quota[broker]
        is_slow = response.problem is not None or response.after_ms > limits.slow_ms
        self._quota[broker] = (
            max(limits.least, quota // 4) if is_slow else min(limits.most, quota * 2)
        )

    def _requests(self, version: int, this_round: _Round, rows: Array) -> list[EncodedRequest]:
        placement = this_round.placement
        partition_of = placement.partition_of[rows]
        return [
            self._template(placement.topic[topic], version)
            .replaced(_SOME_PARTITION, partition.to_bytes(4, "big"), 1)
            .replaced(_SOME_OFFSET, start.to_bytes(8, "big"), 1)
            for topic, partition, start in zip(
                placement.topic_of[partition_of].tolist(),
                placement.partition[partition_of].tolist(),
                this_round.offsets.local_start[rows].tolist(),
                strict=True,
            )
        ]

    def _template(self, topic: str, version: int) -> EncodedRequest:
        """The request, encoded once for any replica of a topic."""
        encoded = self._encoded.get((topic, version))
        if encoded is None:
            kind = FetchRequest.FetchTopic
            request = FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=[kind(topic=topic, partitions=[_one_byte(kind)])],
                forgotten_topics_data=[],
                rack_id="",  # with a rack, the leader would redirect the request to a follower
            )
            encoded = EncodedRequest.encode(request, version, self._client_id)
            self._encoded[topic, version] = encoded
        return encoded

    def _note(self, broker: int, this_round: _Round, response: BrokerResponse) -> None:
        """Store the timestamps, and the topics that were refused."""
        for row, body in zip(this_round.rows[broker].tolist(), response.bodies, strict=False):
            if body is None:
                continue
            decoded = FetchResponse.decode(body, version=self._version[broker])
            if decoded.error_code or not decoded.responses:
                continue
            topic = this_round.topic(row)
            partition = decoded.responses[0].partitions[0]
            if partition.error_code == TOPIC_NOT_ALLOWED:
                self._denied.add(topic, partition.error_code)
            elif partition.error_code == 0:
                self._denied.discard(topic)
                if partition.records:
                    self._read_at[row] = this_round.offsets.local_start[row]
                    self._read_ms[row], self._batch[row] = first_batch(partition.records)


def _one_byte(kind: Any) -> Any:
    return kind.FetchPartition(
        partition=int.from_bytes(_SOME_PARTITION, "big"),
        current_leader_epoch=-1,
        fetch_offset=int.from_bytes(_SOME_OFFSET, "big"),
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1,
    )


def first_batch(records: Any) -> tuple[int, int]:
    """The timestamp of the first record of a batch, and its BatchKind; UNKNOWN where not readable.

    With log append time, the largest timestamp is the time of the broker. A compacted batch with a
    delete horizon has the horizon in place of the first timestamp. Batches before magic 2 are not
    read.
    """
    header = bytes(memoryview(records)[: _BATCH.size])
    if len(header) < _BATCH.size:
        return UNKNOWN, UNKNOWN
    _, _, _, magic, _, attributes, _, first_ms, largest_ms = _BATCH.unpack(header)
    if magic != 2:
        return UNKNOWN, UNKNOWN
    kind = BatchKind.TRANSACTIONAL if attributes & _TRANSACTIONAL else BatchKind.PLAIN
    kind = BatchKind.CONTROL if attributes & _CONTROL else kind
    if attributes & _DELETE_HORIZON:
        return UNKNOWN, kind
    timestamp_ms: int = largest_ms if attributes & _LOG_APPEND_TIME else first_ms
    return max(timestamp_ms, UNKNOWN), kind
