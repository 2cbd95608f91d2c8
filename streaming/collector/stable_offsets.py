"""The last stable offset of each partition, from its leader: ListOffsets -1, read_committed.

Only a leader answers it, and only if asked with the replica id of a consumer: with another id it
ignores the isolation level (ReplicaManager.fetchOffset, Kafka 4.3). So each broker is asked about
the partitions that it leads, beside the request for the ends of its own logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from kafka.protocol.consumer import ListOffsetsRequest

from streaming.collector.brokers import EncodedRequest, Versions, negotiate_version
from streaming.collector.listing import Array, Listing
from streaming.collector.offsets import LATEST, OFFSETS, BrokerOffsets
from twin.table import UNKNOWN

_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_HAS_ISOLATION_LEVEL: Final = 2
"""First version of ListOffsets that has an isolation level: Kafka 0.11."""


class _LedOffsets(BrokerOffsets):
    """The request to one broker about the partitions that it leads."""

    replica_id = _CONSUMER
    isolation_level = _READ_COMMITTED
    since: Mapping[int, int] = {LATEST: _HAS_ISOLATION_LEVEL}


class StableOffsetSource:
    """Keeps the request to each broker until it leads other partitions."""

    about = (OFFSETS,)

    def __init__(self, deadline_ms: int, client_id: str) -> None:
        self._deadline_ms = deadline_ms
        self._client_id = client_id
        self._brokers: dict[int, _LedOffsets] = {}

    def requests(
        self, broker: int, versions: Versions, listing: Listing
    ) -> Sequence[EncodedRequest]:
        """One request; none if the broker leads nothing, or does not know isolation levels."""
        version, placement = negotiate_version(versions, ListOffsetsRequest), listing.placement
        all_here = placement.replicas_on(broker).rows
        led = all_here[listing.leader[placement.partition_of[all_here]] == broker]
        kept = self._brokers.get(broker)
        if (
            kept is None
            or kept.placement is not placement
            or kept.version != version
            or not np.array_equal(kept.replicas.rows, led)
        ):
            kept = _LedOffsets(placement, broker, version, placement.replicas_at(led))
            self._brokers[broker] = kept
            if version is not None and len(led):
                kept.encode(self._deadline_ms, self._client_id)
        return kept.requests

    def read(self, listing: Listing, responses: Mapping[int, Sequence[bytes | None]]) -> Array:
        """[N] last stable offsets, UNKNOWN at followers and where a leader did not answer.

        A leader that was elected just now answers OFFSET_NOT_AVAILABLE: that is no problem, and
        topics that are refused are reported with the other offsets.
        """
        stable = np.full(len(listing.placement.broker), UNKNOWN, np.int64)
        for broker, bodies in responses.items():
            for body in bodies:
                if body is not None:
                    rows, codes, offsets, _ = self._brokers[broker].read(LATEST, body)
                    stable[rows] = np.where(codes == 0, offsets, UNKNOWN)
        return stable

    def forget(self, brokers: set[int]) -> None:
        """Drop the requests to all brokers but these."""
        for broker in self._brokers.keys() - brokers:
            del self._brokers[broker]
