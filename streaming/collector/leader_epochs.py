"""OffsetForLeaderEpoch: where the records of a leader epoch end in the current leader's log.

The response has the newest entry of the leader's epoch history at or below the requested epoch, and
its end offset, where the next entry begins. If no lower entry exists, the response repeats the
requested epoch, with the first offset of the lowest entry. A leader without any entry answers -1.

Source: LeaderEpochFileCache.endOffsetFor, Kafka 4.3. Needs DESCRIBE on the topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from streaming.collector.about import Needed
from streaming.collector.context import CycleContext
from streaming.collector.denied import DeniedTopics
from streaming.collector.listing import ListedPlacement, PartitionListing
from streaming.collector.problem import Problem, is_lasting
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from streaming.runtime.deadline import Deadline

_LOWEST: Final = 2
"""Kafka 2.1: from this version on the broker checks the leader epoch, so a former leader fails."""

LEADER_EPOCH_END: Final = Needed(OffsetForLeaderEpochRequest, "Kafka 2.1", lowest=_LOWEST)

_CONSUMER: Final = -1


@dataclass(slots=True)
class EpochAnswers:
    """The responses of the leaders."""

    entries: dict[int, tuple[int, int]] = field(default_factory=dict)  # epoch, end offset; by row
    answered: set[int] = field(default_factory=set)  # brokers
    problems: dict[int, Problem] = field(default_factory=dict)  # by broker


class LeaderEpochRequests:
    """Asks leaders; remembers in ``denied`` which topics were refused."""

    def __init__(self, client_id: str, denied: DeniedTopics) -> None:
        self._client_id = client_id
        self._denied = denied

    def ask(
        self,
        context: CycleContext,
        listing: PartitionListing,
        epochs: Mapping[int, tuple[int, int]],
        deadline: Deadline,
    ) -> EpochAnswers:
        """Ask each leader once.

        ``epochs``: current leader epoch and requested epoch, by row. Partitions whose leader did
        not answer, or answered with an error, have no entry.
        """
        by_leader: defaultdict[int, list[int]] = defaultdict(list)
        for row in epochs:
            by_leader[int(listing.leader[row])].append(row)
        version_of: dict[int, int] = {}

        def make(broker: int, versions: Versions) -> list[EncodedRequest]:
            version = negotiate_version(versions, OffsetForLeaderEpochRequest)
            if version is None or version < _LOWEST:
                return []
            version_of[broker] = version
            requested = {row: epochs[row] for row in by_leader[broker]}
            request = _request(listing.placement, requested)
            return [EncodedRequest.encode(request, version, self._client_id)]

        answers = EpochAnswers()
        for broker, response in context.brokers.ask(sorted(by_leader), make, deadline).items():
            if response.problem is not None:
                answers.problems[broker] = response.problem
            if response.first is not None:
                answers.answered.add(broker)
                decoded = OffsetForLeaderEpochResponse.decode(
                    response.first, version=version_of[broker]
                )
                for row, epoch, end_offset in self._usable(listing.placement, decoded):
                    if row in epochs:
                        answers.entries[row] = epoch, end_offset
        return answers

    def _usable(self, placement: ListedPlacement, decoded: Any) -> Iterator[tuple[int, int, int]]:
        """Row, epoch and end offset of each partition without an error."""
        number = {name: i for i, name in enumerate(placement.topic)}
        for topic in decoded.topics:
            for partition in topic.partitions:
                if is_lasting(partition.error_code):
                    self._denied.add(topic.topic, partition.error_code)
                row = placement.row_of(number.get(topic.topic, -1), partition.partition)
                if partition.error_code == 0 and row is not None:
                    self._denied.discard(topic.topic)
                    yield row, partition.leader_epoch, partition.end_offset


def _request(
    placement: ListedPlacement, epochs: Mapping[int, tuple[int, int]]
) -> OffsetForLeaderEpochRequest:
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for row, (current, requested) in epochs.items():
        topics[placement.topic[placement.topic_of[row]]].append(
            kind.OffsetForLeaderPartition(
                partition=int(placement.partition[row]),
                current_leader_epoch=current,
                leader_epoch=requested,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[kind(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )
