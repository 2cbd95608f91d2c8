"""The last stable offset of each partition, from its leader: ListOffsets -1, read_committed.

Only a leader returns it, and only to a request with the replica id of a consumer: with another id
it ignores the isolation level (ReplicaManager.fetchOffset, Kafka 4.3). So each broker gets a
separate request about the partitions that it leads.
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
from streaming.collector.sources.offsets import LATEST, OFFSETS, BrokerOffsets
from streaming.collector.sources.replica_status import ReplicaStatus
from streaming.collector.wire.brokers import EncodedRequest, Versions, negotiate_version
from twin.declarations.table import UNKNOWN

_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_HAS_ISOLATION_LEVEL: Final = 2
"""First version of ListOffsets that has an isolation level: Kafka 0.11."""


class _LedOffsets(BrokerOffsets):
    """The request to one broker about the partitions that it leads."""

    replica_id = _CONSUMER
    isolation_level = _READ_COMMITTED
    since: Mapping[int, int] = {LATEST: _HAS_ISOLATION_LEVEL}


@dataclass(frozen=True, slots=True, eq=False)
class StableOffsets(Reading):
    """Last stable offsets, UNKNOWN at followers and where a leader did not answer."""

    last_stable_offset: Array  # [N]

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """The column of that name."""
        return {"last_stable_offset": self.last_stable_offset}


class StableOffsetSource(EveryBrokerSource):
    """Keeps the request to each broker until it leads other partitions."""

    about = (OFFSETS,)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.config.collector.deadline_ms, setup.client_id)

    def __init__(self, deadline_ms: int, client_id: str) -> None:
        self._deadline_ms = deadline_ms
        self._client_id = client_id
        self._brokers: dict[int, _LedOffsets] = {}

    def requests(
        self, broker: int, versions: Versions, status: ReplicaStatus
    ) -> Sequence[EncodedRequest]:
        """One request; none if the broker leads no partition, or does not know isolation levels."""
        version, listing = negotiate_version(versions, ListOffsetsRequest), status.listing
        placement = listing.placement
        all_here = placement.replicas_on(broker).rows
        leader_rows = all_here[listing.leader[placement.partition_of[all_here]] == broker]
        kept = self._brokers.get(broker)
        if (
            kept is None
            or kept.placement is not placement
            or kept.version != version
            or not np.array_equal(kept.replicas.rows, leader_rows)
        ):
            kept = _LedOffsets(placement, broker, version, placement.replicas_at(leader_rows))
            self._brokers[broker] = kept
            if version is not None and len(leader_rows):
                kept.encode(self._deadline_ms, self._client_id)
        return kept.requests

    def read(self, status: ReplicaStatus, answers: Answers) -> StableOffsets:
        """Read the answers of each broker.

        A newly elected leader answers OFFSET_NOT_AVAILABLE, which is not a problem. Refused topics
        are reported by the source of the other offsets.
        """
        stable = np.full(len(status.listing.placement.broker), UNKNOWN, np.int64)
        for broker, bodies in answers.items():
            for body in bodies:
                if body is not None:
                    rows, codes, offsets, _ = self._brokers[broker].read(LATEST, body)
                    stable[rows] = np.where(codes == 0, offsets, UNKNOWN)
        return StableOffsets(stable)

    def forget(self, brokers: Collection[int]) -> None:
        """Drop the requests to all brokers except these."""
        for broker in self._brokers.keys() - set(brokers):
            del self._brokers[broker]
