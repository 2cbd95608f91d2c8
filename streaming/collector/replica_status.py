"""What Metadata does not say of a partition: eligible leader replicas, replicas that come or go.

ELR (KIP-966) is empty while the ISR has min.insync.replicas members, so DescribeTopicPartitions is
asked only of topics with partitions below that. Reassignments are asked of the controller, through
the metadata broker, when the placement changed, while one is under way, and once in a while: the
controller may be away, and waiting for it would delay the observation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from kafka.errors import for_code
from kafka.protocol.admin import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from streaming.collector.brokers import (
    BrokerConnections,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.collector.listing import Array, Listing, Placement
from twin.tables import UNKNOWN, Slot

_PAGE: Final = 2_000
"""Kafka's own default for max.request.partition.size.limit: larger pages are cut anyway."""

_MAX_PAGES: Final = 10_000
_SELF_TOLD: Final = Slot.IN_ISR | Slot.OFFLINE | Slot.IN_ELR | Slot.LAST_KNOWN_ELR


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A listing with all marks."""

    listing: Listing
    elr_known: Array  # [P]
    problems: tuple[str, ...]  # which right or answer is missing


class ReplicaStatusSource:
    """Remembers which replicas come or go."""

    def __init__(self, client_id: str, interval_ms: int) -> None:
        self._client_id = client_id
        self._interval_s = interval_ms / 1_000
        self._asked_at = float("-inf")
        self._asked_of: Placement | None = None
        self._moving: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        self._problem = ""

    def ask(
        self,
        brokers: BrokerConnections,
        metadata_broker: int,
        listing: Listing,
        min_isr: Array,
        elr_enabled: int,
        deadline_ms: int,
    ) -> ReplicaStatus:
        """All marks of a listing.

        ``min_isr`` is min.insync.replicas of each partition ([P], UNKNOWN where not known).
        """
        ends = time.monotonic() + deadline_ms / 1_000
        problems = []
        size, assigned = listing.isr_size(), np.diff(listing.placement.first)
        least = np.where(min_isr == UNKNOWN, assigned, np.minimum(min_isr, assigned))
        below = size < least
        if elr_enabled == 0:
            elr_known = np.ones(len(below), bool)
        else:
            elr_known = ~below
            if below.any():
                listing, elr_known, problem = self._with_elr(
                    brokers, metadata_broker, listing, below, elr_known, ends
                )
                problems.append(problem)
        self._refresh_moving(brokers, metadata_broker, listing.placement, ends)
        problems.append(self._problem)
        return ReplicaStatus(self._with_moving(listing), elr_known, tuple(filter(None, problems)))

    def _with_elr(
        self,
        brokers: BrokerConnections,
        metadata_broker: int,
        listing: Listing,
        below: Array,
        elr_known: Array,
        ends: float,
    ) -> tuple[Listing, Array, str]:
        placement = listing.placement
        names = [placement.topic[t] for t in np.unique(placement.topic_of[below]).tolist()]
        told, problem = self._described(brokers, metadata_broker, names, ends)
        leader, epoch, marks = listing.leader.copy(), listing.leader_epoch.copy(), listing.marks
        marks, elr_known = marks.copy(), elr_known.copy()
        for row in np.flatnonzero(below).tolist():
            name = placement.topic[placement.topic_of[row]]
            found = told.get((name, int(placement.partition[row])))
            replicas = slice(placement.first[row], placement.first[row + 1])
            mine = placement.broker[replicas].tolist()
            if found is None or found.replica_nodes != mine or found.leader_epoch < epoch[row]:
                continue
            # One answer, one moment: its ISR and leader belong to its ELR.
            leader[row], epoch[row] = found.leader_id, found.leader_epoch
            marks[replicas] &= ~np.uint8(_SELF_TOLD)
            for mark, nodes in (
                (Slot.IN_ISR, found.isr_nodes),
                (Slot.OFFLINE, found.offline_replicas),
                (Slot.IN_ELR, found.eligible_leader_replicas),
                (Slot.LAST_KNOWN_ELR, found.last_known_elr),
            ):
                marks[replicas] |= np.isin(mine, nodes or []).astype(np.uint8) * np.uint8(mark)
            elr_known[row] = found.eligible_leader_replicas is not None
        marked = replace(listing, leader=leader, leader_epoch=epoch, marks=marks)
        return marked, elr_known, problem

    def _described(
        self, brokers: BrokerConnections, metadata_broker: int, names: list[str], ends: float
    ) -> tuple[dict[tuple[str, int], Any], str]:
        """What DescribeTopicPartitions returns of these topics, by topic and partition."""
        told: dict[tuple[str, int], Any] = {}
        cursor = None
        for _ in range(_MAX_PAGES):
            answer, problem = self._page(brokers, metadata_broker, sorted(names), cursor, ends)
            if answer is None:
                return told, f"eligible leader replicas: {problem}" if problem else ""
            for topic in answer.topics:
                for partition in topic.partitions if topic.error_code == 0 else ():
                    told[topic.name, partition.partition_index] = partition
            cursor = answer.next_cursor
            if cursor is None:
                break
            names = [name for name in names if name >= cursor.topic_name]
        return told, ""

    def _page(
        self,
        brokers: BrokerConnections,
        metadata_broker: int,
        names: list[str],
        cursor: Any,
        ends: float,
    ) -> tuple[Any, str]:
        request = DescribeTopicPartitionsRequest

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            if negotiate_version(versions, request, 0) is None:
                return []
            after = cursor and request.Cursor(
                topic_name=cursor.topic_name, partition_index=cursor.partition_index
            )
            page = request(
                topics=[request.TopicRequest(name=name) for name in names],
                response_partition_limit=_PAGE,
                cursor=after,
            )
            return [EncodedRequest.encode(page, 0, self._client_id)]

        body, problem = _one(brokers, metadata_broker, make, ends)
        if body is None:
            return None, problem
        return DescribeTopicPartitionsResponse.decode(body, version=0), ""

    def _refresh_moving(
        self, brokers: BrokerConnections, metadata_broker: int, placement: Placement, ends: float
    ) -> None:
        now = time.monotonic()
        due = now - self._asked_at >= self._interval_s
        if not (due or self._moving or placement is not self._asked_of):
            return

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            version = negotiate_version(versions, ListPartitionReassignmentsRequest, 0)
            if version is None:
                return []
            left_ms = max(1, int((ends - time.monotonic()) * 1_000))
            request = ListPartitionReassignmentsRequest(timeout_ms=left_ms, topics=None)
            return [EncodedRequest.encode(request, version, self._client_id)]

        body, problem = _one(brokers, metadata_broker, make, ends)
        if body is None:
            self._problem = f"reassignments: {problem}" if problem else ""
            return
        self._asked_at, self._asked_of = now, placement
        answer = ListPartitionReassignmentsResponse.decode(body, version=0)
        if answer.error_code:
            self._problem = f"reassignments: {for_code(answer.error_code).__name__}"
            return
        self._problem = ""
        self._moving = {
            (topic.name, p.partition_index): (p.adding_replicas, p.removing_replicas)
            for topic in answer.topics
            for p in topic.partitions
        }

    def _with_moving(self, listing: Listing) -> Listing:
        if not self._moving:
            return listing
        placement, marks = listing.placement, listing.marks.copy()
        number = {name: i for i, name in enumerate(placement.topic)}
        for (name, partition), (adding, removing) in self._moving.items():
            row = placement.row_of(number.get(name, -1), partition)
            if row is None:
                continue
            replicas = slice(placement.first[row], placement.first[row + 1])
            mine = placement.broker[replicas]
            for mark, nodes in ((Slot.ADDING, adding), (Slot.REMOVING, removing)):
                marks[replicas] |= np.isin(mine, nodes).astype(np.uint8) * np.uint8(mark)
        return replace(listing, marks=marks)


def _one(
    brokers: BrokerConnections, metadata_broker: int, make: Any, ends: float
) -> tuple[bytes | None, str]:
    """The answer to one question, or why there is none; neither if the broker does not know it."""
    left_ms = int((ends - time.monotonic()) * 1_000)
    if left_ms <= 0:
        return None, "did not answer within the deadline"
    reply = brokers.ask([metadata_broker], make, left_ms)[metadata_broker]
    return (reply.bodies[0], reply.problem) if reply.bodies else (None, reply.problem)
