"""The high watermark and the last stable offset of each partition, from its leader.

ListOffsets -1 with read_uncommitted is the high watermark, with read_committed the last stable
offset. Only a leader returns them, and only to a request with the replica id of a consumer: with
another id it ignores the isolation level (ReplicaManager.fetchOffset, Kafka 4.3). So each broker
gets separate requests about the partitions that it leads.

The high watermark is asked for first, and a broker answers in order. So a last stable offset below
it means an open transaction, and not records that were written in between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from kafka.protocol.consumer import ListOffsetsRequest

from streaming.collector.listing import Array
from streaming.collector.reading import Answers, Reading
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.sources.offsets import (
    LATEST,
    OFFSETS,
    READ_UNCOMMITTED,
    BrokerOffsets,
)
from streaming.collector.sources.replica_status import ReplicaStatus
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from twin.declarations.table import UNKNOWN

_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_HAS_ISOLATION_LEVEL: Final = 2
"""First version of ListOffsets that has an isolation level: Kafka 0.11."""


class _HighWatermarks(BrokerOffsets):
    """The request to one broker for the high watermarks of the partitions that it leads."""

    replica_id = _CONSUMER
    isolation_level = READ_UNCOMMITTED
    since: Mapping[int, int] = {LATEST: _HAS_ISOLATION_LEVEL}


class _StableOffsets(_HighWatermarks):
    """The request to one broker for the last stable offsets of the partitions that it leads."""

    isolation_level = _READ_COMMITTED


_Led = tuple[_HighWatermarks, _StableOffsets]


@dataclass(frozen=True, slots=True, eq=False)
class LeaderOffsets(Reading):
    """Offsets that only leaders have, UNKNOWN at followers and where a leader did not answer."""

    high_watermark: Array  # [N]
    last_stable_offset: Array  # [N]

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """The columns of these names."""
        return {
            "high_watermark": self.high_watermark,
            "last_stable_offset": self.last_stable_offset,
        }


class LeaderOffsetSource(EveryBrokerSource):
    """Keeps the requests to each broker until it leads other partitions."""

    about = (OFFSETS,)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.config.collector.deadline_ms, setup.client_id)

    def __init__(self, deadline_ms: int, client_id: str) -> None:
        self._deadline_ms = deadline_ms
        self._client_id = client_id
        self._brokers: dict[int, _Led] = {}

    def requests(
        self, broker: int, versions: Versions, status: ReplicaStatus
    ) -> Sequence[EncodedRequest]:
        """Two requests; none if the broker leads no partition, or knows no isolation levels."""
        version, listing = negotiate_version(versions, ListOffsetsRequest), status.listing
        placement = listing.placement
        all_here = placement.replicas_on(broker).rows
        leader_rows = all_here[listing.leader[placement.partition_of[all_here]] == broker]
        kept = self._brokers.get(broker)
        if (
            kept is None
            or kept[0].placement is not placement
            or kept[0].version != version
            or not np.array_equal(kept[0].replicas.rows, leader_rows)
        ):
            led = placement.replicas_at(leader_rows)
            kept = (
                _HighWatermarks(placement, broker, version, led),
                _StableOffsets(placement, broker, version, led),
            )
            self._brokers[broker] = kept
            if version is not None and len(leader_rows):
                for each in kept:
                    each.encode(self._deadline_ms, self._client_id)
        return [request for each in kept for request in each.requests]

    def read(self, status: ReplicaStatus, answers: Answers) -> LeaderOffsets:
        """Read the answers of each broker.

        A newly elected leader answers OFFSET_NOT_AVAILABLE, which is not a problem. Refused topics
        are reported by the source of the other offsets.
        """
        total = len(status.listing.placement.broker)
        watermark, stable = (np.full(total, UNKNOWN, np.int64) for _ in range(2))
        for broker, bodies in answers.items():
            if not bodies:  # it leads nothing
                continue
            kinds = zip((watermark, stable), self._brokers[broker], bodies, strict=True)
            for column, kept, body in kinds:
                if body is not None:
                    rows, codes, offsets, _ = kept.read(LATEST, body)
                    column[rows] = np.where(codes == 0, offsets, UNKNOWN)
        return LeaderOffsets(watermark, stable)

    def forget(self, brokers: Collection[int]) -> None:
        """Drop the requests to all brokers except these."""
        for broker in self._brokers.keys() - set(brokers):
            del self._brokers[broker]
