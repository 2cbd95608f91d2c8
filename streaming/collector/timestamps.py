"""When the oldest record on a replica's disk was written: one byte is fetched at its local start.

Kafka answers a fetch of one byte with one whole batch, whose header holds the timestamp of its
first record. It does so only for the first partition of a request that has data (ReplicaManager
``minOneMessage``; measured on 4.3.1), so each replica is a request of its own, many under way at
once. It is asked again only when its local start has moved, and never below what that was a moment
ago: the broker would read remote storage (it does, once, where the start moves again between the
two questions). Needs READ on the topic; without it the timestamp stays unknown.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from kafka.protocol.consumer import FetchRequest, FetchResponse

from streaming.collector.brokers import (
    BrokerConnections,
    BrokerResponse,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.collector.listing import Array, Placement, matched_replicas
from streaming.collector.offsets import ReplicaOffsets
from streaming.runtime.clients import TOPIC_NOT_ALLOWED
from twin.tables import UNKNOWN

_LOWEST: Final = 11
"""Kafka 2.4: from this version on a follower answers consumers too (KIP-392)."""

_HIGHEST: Final = 12
"""The last version that names topics instead of ids."""

_FEW, _MANY = 8, 512
"""Bounds of how many replicas of a broker are read in a cycle; in between it adapts."""

_UNHURRIED_MS: Final = 150
_ASK_AGAIN_S: Final = 600.0

_SOME_PARTITION: Final = bytes.fromhex("7ff0f1f2")
_SOME_OFFSET: Final = bytes.fromhex("7ffefdfcfbfaf9f8")
"""Stand for the numbers in a request that is encoded once a topic."""

_BATCH: Final = struct.Struct(">qiibIhiqq")
"""Record batch: base offset, length, leader epoch, magic, checksum, attributes, last offset delta,
first timestamp, largest timestamp."""

_LOG_APPEND_TIME: Final = 0x08
_DELETE_HORIZON: Final = 0x40


class TimestampSource:
    """Remembers of each replica at which local start it was read, and what it said."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._placement: Placement | None = None
        self._read_at = np.zeros(0, np.int64)  # [N] local start offset when it was read
        self._read_ms = np.zeros(0, np.int64)  # [N]
        self._quota: dict[int, int] = {}
        self._turn = 0
        self._version: dict[int, int] = {}
        self._encoded: dict[tuple[str, int], EncodedRequest] = {}
        self._denied: dict[str, float] = {}  # topic: when to try again
        self.problem = ""

    def read(
        self,
        brokers: BrokerConnections,
        placement: Placement,
        samples: ReplicaOffsets,
        deadline_ms: int,
    ) -> Array:
        """[N] the timestamp of the first record on each replica's disk, in ms since the epoch.

        UNKNOWN where the local log is empty, not read yet, or not to be read.
        """
        self._follow(placement)
        pending = self._pending(placement, samples)
        holders = placement.broker[pending]
        chosen = {
            broker: self._chosen(broker, pending[holders == broker])
            for broker in np.unique(holders).tolist()
        }
        self._turn += 1
        if chosen:

            def make(broker: int, versions: Versions) -> Sequence[EncodedRequest]:
                version = negotiate_version(versions, FetchRequest, _HIGHEST)
                if version is None or version < _LOWEST:
                    return []
                self._version[broker] = version
                return self._questions(version, placement, samples, chosen[broker])

            replies = brokers.ask(chosen, make, deadline_ms)
            for broker, reply in replies.items():
                self._adapt(broker, reply)
                if reply.answered:
                    self._note(broker, placement, samples, chosen[broker], reply)
        current = self._read_at == samples.local_start
        return np.where(current & samples.answered, self._read_ms, UNKNOWN)

    def _follow(self, placement: Placement) -> None:
        """Carry what is remembered over to another placement."""
        if placement is self._placement:
            return
        read_at = np.full(len(placement.broker), UNKNOWN, np.int64)
        read_ms = read_at.copy()
        if self._placement is not None:
            in_old, in_new = matched_replicas(self._placement, placement)
            read_at[in_new], read_ms[in_new] = self._read_at[in_old], self._read_ms[in_old]
        self._placement, self._read_at, self._read_ms = placement, read_at, read_ms
        gone = {topic for topic, _ in self._encoded} - set(placement.topic)
        self._encoded = {key: q for key, q in self._encoded.items() if key[0] not in gone}

    def _pending(self, placement: Placement, samples: ReplicaOffsets) -> Array:
        """The replicas whose local start has moved since they were read."""
        holds = samples.answered & (samples.error_code == 0) & (samples.local_start >= 0)
        holds &= samples.log_end > samples.local_start
        pending = np.flatnonzero(holds & (samples.local_start != self._read_at))
        now = time.monotonic()
        self._denied = {topic: at for topic, at in self._denied.items() if at > now}
        if not self._denied:
            self.problem = ""
        if self._denied and len(pending):
            number = [i for i, name in enumerate(placement.topic) if name in self._denied]
            topic_of = placement.topic_of[placement.partition_of[pending]]
            pending = pending[~np.isin(topic_of, number)]
        return pending

    def _chosen(self, broker: int, rows: Array) -> Array:
        """As many as this broker answers without hurry, others in each cycle."""
        quota = self._quota.setdefault(broker, _FEW * 8)
        return np.roll(rows, -quota * self._turn)[:quota]

    def _adapt(self, broker: int, reply: BrokerResponse) -> None:
        hurried = reply.problem or reply.after_ms > _UNHURRIED_MS
        quota = self._quota[broker]
        self._quota[broker] = max(_FEW, quota // 4) if hurried else min(_MANY, quota * 2)

    def _questions(
        self, version: int, placement: Placement, samples: ReplicaOffsets, rows: Array
    ) -> list[EncodedRequest]:
        partition_of = placement.partition_of[rows]
        return [
            self._template(placement.topic[topic], version)
            .replaced(_SOME_PARTITION, partition.to_bytes(4, "big"), 1)
            .replaced(_SOME_OFFSET, start.to_bytes(8, "big"), 1)
            for topic, partition, start in zip(
                placement.topic_of[partition_of].tolist(),
                placement.partition[partition_of].tolist(),
                samples.local_start[rows].tolist(),
                strict=True,
            )
        ]

    def _template(self, topic: str, version: int) -> EncodedRequest:
        kept = self._encoded.get((topic, version))
        if kept is None:
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
                rack_id="",  # with a rack the leader would send us elsewhere
            )
            kept = self._encoded[topic, version] = EncodedRequest.encode(
                request, version, self._client_id
            )
        return kept

    def _note(
        self,
        broker: int,
        placement: Placement,
        samples: ReplicaOffsets,
        rows: Array,
        reply: BrokerResponse,
    ) -> None:
        for row, body in zip(rows.tolist(), reply.bodies, strict=False):
            if body is None:
                continue
            topic = placement.topic[placement.topic_of[placement.partition_of[row]]]
            answer = FetchResponse.decode(body, version=self._version[broker])
            if answer.error_code or not answer.responses:
                continue
            partition = answer.responses[0].partitions[0]
            if partition.error_code == TOPIC_NOT_ALLOWED:
                self._denied[topic] = time.monotonic() + _ASK_AGAIN_S
                # One cause, however many topics; its words stay the same from cycle to cycle.
                self.problem = self.problem or f"no READ right on topics such as {topic}"
            elif partition.error_code == 0 and partition.records:
                self._read_at[row] = samples.local_start[row]
                self._read_ms[row] = first_timestamp_ms(partition.records)


def _one_byte(kind: Any) -> Any:
    return kind.FetchPartition(
        partition=int.from_bytes(_SOME_PARTITION, "big"),
        current_leader_epoch=-1,
        fetch_offset=int.from_bytes(_SOME_OFFSET, "big"),
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1,
    )


def first_timestamp_ms(records: Any) -> int:
    """The timestamp of the first record of a batch, from its header; UNKNOWN if it is not there.

    A broker that stamps on append writes the time as the largest timestamp. A compacted batch with
    a delete horizon holds that in place of the first one. Batches before magic 2 are not read.
    """
    header = bytes(memoryview(records)[: _BATCH.size])
    if len(header) < _BATCH.size:
        return UNKNOWN
    _, _, _, magic, _, attributes, _, first_ms, largest_ms = _BATCH.unpack(header)
    if magic != 2 or attributes & _DELETE_HORIZON:
        return UNKNOWN
    timestamp_ms: int = largest_ms if attributes & _LOG_APPEND_TIME else first_ms
    return max(timestamp_ms, UNKNOWN)
