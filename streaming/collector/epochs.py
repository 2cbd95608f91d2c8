"""Leader epoch histories: where in the log each leader began, as the leader of now has it.

Only tiered partitions need one (whether a remote segment belongs to a log is a matter of epochs),
and it changes only with the leader epoch. There is no request for a whole history. Asked for an
epoch, OffsetForLeaderEpoch answers with the newest entry at or below it and the offset where that
entry ends, which is where the next one begins; so it is walked downwards, all partitions at once,
until the log start. Where there is no entry below, it answers with the epoch that was asked for.

Source: LeaderEpochFileCache.endOffsetFor, Kafka 4.3. Needs DESCRIBE on the topic.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from kafka.errors import for_code
from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from streaming.collector.brokers import (
    BrokerConnections,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.collector.listing import Array, Listing, Placement
from streaming.runtime.clients import TOPIC_NOT_ALLOWED
from twin.tables import NO_BROKER, UNKNOWN

_MOST_WALKS: Final = 5_000
"""Partitions whose history is walked in one cycle; the others follow in the next."""

_SHARE_OF_DEADLINE: Final = 0.3
_LOWEST: Final = 2
"""Kafka 2.1: the leader epoch that we know is compared, so that a deposed leader says so."""

_CONSUMER: Final = -1
_TRY_AGAIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """The leader epochs of one partition and the first offset of each, ascending."""

    row: int  # of the placement
    epochs: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Walk:
    """How far down the history of one partition is known."""

    row: int
    leader_epoch: int
    log_start: int
    asks: int
    above: int = UNKNOWN  # the lowest entry that was told, whose start is not known yet
    found: list[tuple[int, int]] = field(default_factory=list)

    def told(self, epoch: int, end_offset: int) -> bool:
        """Take an answer; true if the whole history is known."""
        if epoch == UNKNOWN:
            return True  # no entry at all
        if self.above != UNKNOWN:
            if self.found and end_offset >= self.found[-1][1]:
                return True  # the entry above was none: nothing was below the one before
            self.found.append((self.above, end_offset))
            if end_offset <= max(self.log_start, 0):
                return True
        self.above = epoch
        self.asks = epoch - 1
        if self.asks < 0:
            # Nothing is below epoch 0, so where it begins cannot be asked: at the log start.
            self.found.append((0, max(self.log_start, 0)))
            return True
        return False


class EpochSource:
    """Remembers at which leader epoch each history was read, and when."""

    def __init__(self, client_id: str, again_ms: int) -> None:
        """``again_ms``: a history is read again so often, for whoever starts anew."""
        self._client_id = client_id
        self._again_s = again_ms / 1_000
        self._placement: Placement | None = None
        self._read_at_epoch = np.zeros(0, np.int64)  # [P]
        self._read_at_s = np.zeros(0)  # [P]
        self._denied: dict[str, float] = {}
        self.problem = ""

    def read(
        self,
        brokers: BrokerConnections,
        listing: Listing,
        tiered: Array,
        log_start: Array,
        deadline_ms: int,
    ) -> list[EpochHistory]:
        """The histories that became known in this cycle.

        Args:
            brokers: who is asked.
            listing: with leaders and leader epochs.
            tiered: [P] remote storage is on.
            log_start: [P] log start of the leader, UNKNOWN where it did not answer.
            deadline_ms: of the whole cycle; a share of it is used.
        """
        ends = time.monotonic() + deadline_ms * _SHARE_OF_DEADLINE / 1_000
        walks = self._begun(listing, tiered, log_start)
        known: list[EpochHistory] = []
        while walks and time.monotonic() < ends:
            answers = self._asked(brokers, listing, walks, ends)
            if not answers:
                break
            for row, (epoch, end_offset) in answers.items():
                walk = walks[row]
                if walk.told(epoch, end_offset):
                    self._read_at_epoch[row] = walk.leader_epoch
                    self._read_at_s[row] = time.monotonic()
                    known.append(EpochHistory(row, tuple(reversed(walk.found))))
                    del walks[row]
            # Who did not answer, or answered with an error, is asked again in another cycle.
            walks = {row: walk for row, walk in walks.items() if row in answers}
        return [history for history in known if history.epochs]

    def forget(self, histories: Sequence[EpochHistory]) -> None:
        """These have not arrived where they were sent: they are read again."""
        for history in histories:
            self._read_at_epoch[history.row] = UNKNOWN

    def _begun(self, listing: Listing, tiered: Array, log_start: Array) -> dict[int, _Walk]:
        self._follow(listing.placement)
        placement = listing.placement
        now = time.monotonic()
        old = now - self._read_at_s >= self._again_s
        pending = tiered & (listing.leader != NO_BROKER) & (listing.leader_epoch != UNKNOWN)
        pending &= old | (self._read_at_epoch != listing.leader_epoch)
        self._denied = {topic: at for topic, at in self._denied.items() if at > now}
        if not self._denied:
            self.problem = ""
        elif pending.any():
            denied = [i for i, name in enumerate(placement.topic) if name in self._denied]
            pending &= ~np.isin(placement.topic_of, denied)
        return {
            row: _Walk(row, int(listing.leader_epoch[row]), int(log_start[row]),
                       asks=int(listing.leader_epoch[row]))
            for row in np.flatnonzero(pending)[:_MOST_WALKS].tolist()
        }  # fmt: skip

    def _follow(self, placement: Placement) -> None:
        """Carry what is remembered over to another placement."""
        if placement is self._placement:
            return
        read_at_epoch = np.full(len(placement), UNKNOWN, np.int64)
        read_at_s = np.full(len(placement), -np.inf)
        if self._placement is not None:
            known = {key: row for row, key in enumerate(_keys(self._placement))}
            for row, key in enumerate(_keys(placement)):
                if (old := known.get(key)) is not None:
                    read_at_epoch[row] = self._read_at_epoch[old]
                    read_at_s[row] = self._read_at_s[old]
        self._placement = placement
        self._read_at_epoch, self._read_at_s = read_at_epoch, read_at_s

    def _asked(
        self, brokers: BrokerConnections, listing: Listing, walks: dict[int, _Walk], ends: float
    ) -> dict[int, tuple[int, int]]:
        """Ask each leader once; (epoch, end offset) by row of the walks that got an answer."""
        by_leader: defaultdict[int, list[_Walk]] = defaultdict(list)
        for walk in walks.values():
            by_leader[int(listing.leader[walk.row])].append(walk)
        version_of: dict[int, int] = {}

        def make(broker: int, versions: Versions) -> list[EncodedRequest]:
            version = negotiate_version(versions, OffsetForLeaderEpochRequest)
            if version is None or version < _LOWEST:
                return []
            version_of[broker] = version
            request = _request(listing.placement, by_leader[broker])
            return [EncodedRequest.encode(request, version, self._client_id)]

        left_ms = max(1, int((ends - time.monotonic()) * 1_000))
        told: dict[int, tuple[int, int]] = {}
        for broker, reply in brokers.ask(sorted(by_leader), make, left_ms).items():
            if reply.bodies and reply.bodies[0] is not None:
                answer = OffsetForLeaderEpochResponse.decode(
                    reply.bodies[0], version=version_of[broker]
                )
                for row, epoch, end_offset in self._usable(listing.placement, answer):
                    if row in walks:
                        told[row] = epoch, end_offset
        return told

    def _usable(self, placement: Placement, answer: Any) -> Iterator[tuple[int, int, int]]:
        number = {name: i for i, name in enumerate(placement.topic)}
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code == TOPIC_NOT_ALLOWED:
                    self._denied[topic.topic] = time.monotonic() + _TRY_AGAIN_S
                    self.problem = f"topic {topic.topic}: {for_code(TOPIC_NOT_ALLOWED).__name__}"
                row = placement.row_of(number.get(topic.topic, -1), partition.partition)
                if partition.error_code == 0 and row is not None:
                    yield row, partition.leader_epoch, partition.end_offset


def _request(placement: Placement, walks: Sequence[_Walk]) -> OffsetForLeaderEpochRequest:
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for walk in walks:
        topics[placement.topic[placement.topic_of[walk.row]]].append(
            kind.OffsetForLeaderPartition(
                partition=int(placement.partition[walk.row]),
                current_leader_epoch=walk.leader_epoch,
                leader_epoch=walk.asks,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[kind(topic=name, partitions=asked) for name, asked in topics.items()],
    )


def _keys(placement: Placement) -> Iterator[tuple[bytes, int]]:
    """[P] topic id and partition number."""
    for topic, number in zip(
        placement.topic_of.tolist(), placement.partition.tolist(), strict=True
    ):
        yield placement.topic_id[topic], number
