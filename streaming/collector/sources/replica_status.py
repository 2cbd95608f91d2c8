"""Replica status that Metadata does not contain: eligible leader replicas, and reassignments.

ELR (KIP-966) is empty while the ISR has min.insync.replicas members, so DescribeTopicPartitions is
asked only for topics with partitions below that. Reassignments come from the controller, through
the metadata broker; in a ZooKeeper cluster only the broker that is the controller answers. They are
read when the placement changed, while one is in progress, and at an interval, but not in each
cycle: waiting for an absent controller would delay the observation.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from kafka.errors import NotControllerError
from kafka.protocol.admin import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from streaming.collector.about import About, Acl, Needed
from streaming.collector.context import CycleContext
from streaming.collector.listing import Array, ListedPlacement, PartitionListing
from streaming.collector.problem import Problem, by_error, error_name, from_code, is_lasting
from streaming.collector.reading import Reading
from streaming.collector.source import Setup, Source
from streaming.collector.sources.configs import TopicSettings
from streaming.collector.sources.metadata import ClusterMetadata
from streaming.collector.wire.connections import (
    EncodedRequest,
    RequestFactory,
    Versions,
    negotiate_version,
)
from streaming.runtime.deadline import Deadline
from twin.declarations.table import UNKNOWN
from twin.tables.enums import ReplicaFlags

REASSIGNMENTS: Final = About(
    "reassignments",
    "which replicas are being added or removed",
    Acl("DESCRIBE", "cluster"),
    every="collector.config_interval_ms",
    needs=(Needed(ListPartitionReassignmentsRequest, "Kafka 2.4", highest=0),),
)
ELIGIBLE: Final = About(
    "eligible leader replicas",
    "eligible leader replicas, in predictions too",
    needs=(Needed(DescribeTopicPartitionsRequest, "Kafka 3.8", highest=0),),
    idle="no partition is below min.insync.replicas",
)

PAGE_PARTITIONS: Final = 2_000
"""Kafka's default for max.request.partition.size.limit: larger pages would be cut anyway."""

_NO_ELR: Final = "the feature eligible.leader.replicas.version of the cluster is off"
_MAX_PAGES: Final = 10_000
_NOT_CONTROLLER: Final[int] = NotControllerError.errno
_DESCRIBED: Final = (
    ReplicaFlags.IN_ISR | ReplicaFlags.OFFLINE | ReplicaFlags.IN_ELR | ReplicaFlags.LAST_KNOWN_ELR
)
"""The flags that DescribeTopicPartitions sets."""

_Key = tuple[str, int]
"""Topic and partition number."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus(Reading):
    """A listing with all replica flags."""

    listing: PartitionListing
    elr_known: Array  # [P]

    @property
    def partition_columns(self) -> Mapping[str, Array]:
        """The columns about partitions that come from the controller."""
        return {
            "leader": self.listing.leader,
            "leader_epoch": self.listing.leader_epoch,
            "elr_known": self.elr_known,
            "replicas": self.listing.placement.broker,
            "replica_flags": self.listing.replica_flags,
        }

    @property
    def incomplete(self) -> Collection[str]:
        """Kinds of frames that may lack partitions."""
        return () if self.listing.complete else ("partitions",)


class ReplicaStatusSource(Source):
    """Remembers the reassignments in progress."""

    about = (REASSIGNMENTS, ELIGIBLE)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Eligible leader replicas in each cycle, reassignments at an interval."""
        return cls(setup.client_id, setup.config.collector.config_interval_ms)

    def __init__(
        self, client_id: str, interval_ms: int, *, page_partitions: int = PAGE_PARTITIONS
    ) -> None:
        """Read reassignments at least every ``interval_ms``."""
        self._client_id = client_id
        self._interval_s = interval_ms / 1_000
        self._page_partitions = page_partitions
        self._listed_at_s = float("-inf")
        self._listed_for: ListedPlacement | None = None
        self._reassignments: dict[_Key, tuple[list[int], list[int]]] = {}  # adding, removing
        self._reassignment_problem: Problem | None = None  # of the last request
        self._elr_problems: tuple[Problem, ...] = ()  # in this cycle
        self._off: Mapping[str, str] = {}

    @property
    def off(self) -> Mapping[str, str]:
        """Eligible leader replicas are off, or this Kafka does not have them."""
        return self._off

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why replica flags are incomplete."""
        last = self._reassignment_problem
        return self._elr_problems if last is None else (*self._elr_problems, last)

    def read(
        self, context: CycleContext, metadata: ClusterMetadata, settings: TopicSettings
    ) -> ReplicaStatus:
        """The listing of this cycle with all replica flags."""
        listing = metadata.listing
        if not context.has_metadata_broker:
            return ReplicaStatus(listing, np.zeros(len(listing.leader), bool))
        return self.status(context, listing, settings.min_isr, settings.elr_enabled)

    def status(
        self, context: CycleContext, listing: PartitionListing, min_isr: Array, elr_enabled: int
    ) -> ReplicaStatus:
        """All replica flags of a listing.

        ``min_isr`` is min.insync.replicas of each partition ([P], UNKNOWN where not known).
        """
        deadline = context.deadline()
        self._elr_problems = ()
        self._off = {ELIGIBLE.name: _NO_ELR} if elr_enabled == 0 else {}
        size, assigned = listing.isr_size(), np.diff(listing.placement.first)
        least = np.where(min_isr == UNKNOWN, assigned, np.minimum(min_isr, assigned))
        below = size < least
        if elr_enabled == 0:
            status = ReplicaStatus(listing, np.ones(len(below), bool))
        else:
            status = ReplicaStatus(listing, ~below)
            if below.any():
                status = self._with_elr(context, status, below, deadline)
        self._refresh_reassignments(context, listing.placement, deadline)
        return replace(status, listing=self._with_reassignments(status.listing))

    def _with_elr(
        self, context: CycleContext, status: ReplicaStatus, below: Array, deadline: Deadline
    ) -> ReplicaStatus:
        """The status with the described flags of the partitions below min.insync.replicas."""
        listing, placement = status.listing, status.listing.placement
        names = [placement.topic[t] for t in np.unique(placement.topic_of[below]).tolist()]
        described = self._described(context, names, deadline)
        leader, epoch = listing.leader.copy(), listing.leader_epoch.copy()
        flags, elr_known = listing.replica_flags.copy(), status.elr_known.copy()
        for row in np.flatnonzero(below).tolist():
            name = placement.topic[placement.topic_of[row]]
            partition = described.get((name, int(placement.partition[row])))
            replicas = slice(placement.first[row], placement.first[row + 1])
            brokers = placement.broker[replicas].tolist()
            if (
                partition is None
                or partition.replica_nodes != brokers
                or partition.leader_epoch < epoch[row]
            ):
                continue
            # Leader, ISR and ELR must come from the same response.
            leader[row], epoch[row] = partition.leader_id, partition.leader_epoch
            flags[replicas] &= ~np.uint8(_DESCRIBED)
            for flag, nodes in (
                (ReplicaFlags.IN_ISR, partition.isr_nodes),
                (ReplicaFlags.OFFLINE, partition.offline_replicas),
                (ReplicaFlags.IN_ELR, partition.eligible_leader_replicas),
                (ReplicaFlags.LAST_KNOWN_ELR, partition.last_known_elr),
            ):
                flags[replicas] |= _flagged(brokers, nodes or [], flag)
            elr_known[row] = partition.eligible_leader_replicas is not None
        described_listing = replace(listing, leader=leader, leader_epoch=epoch, replica_flags=flags)
        return ReplicaStatus(described_listing, elr_known)

    def _described(
        self, context: CycleContext, names: list[str], deadline: Deadline
    ) -> dict[_Key, Any]:
        """Read the partitions of these topics by DescribeTopicPartitions, page by page."""
        partitions: dict[_Key, Any] = {}
        errors: dict[str, str] = {}
        problems: list[Problem] = []
        cursor = None
        for _ in range(_MAX_PAGES):
            page, problem = self._page(context, sorted(names), cursor, deadline)
            if problem is not None:
                problems.append(problem.at(ELIGIBLE.name))
            if page is None:
                break
            for topic in page.topics:
                if is_lasting(topic.error_code):
                    errors[topic.name] = error_name(topic.error_code)
                for partition in topic.partitions if topic.error_code == 0 else ():
                    partitions[topic.name, partition.partition_index] = partition
            cursor = page.next_cursor
            if cursor is None:
                break
            names = [name for name in names if name >= cursor.topic_name]
        text = "eligible leader replicas of such topics stay unknown"
        self._elr_problems = (*problems, *by_error(ELIGIBLE.name, errors, text))
        return partitions

    def _page(
        self, context: CycleContext, names: list[str], cursor: Any, deadline: Deadline
    ) -> tuple[Any, Problem | None]:
        """A response or a problem; neither if the broker does not support the API."""
        request = DescribeTopicPartitionsRequest

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            if negotiate_version(versions, request, 0) is None:
                return []
            after = cursor and request.Cursor(
                topic_name=cursor.topic_name, partition_index=cursor.partition_index
            )
            page = request(
                topics=[request.TopicRequest(name=name) for name in names],
                response_partition_limit=self._page_partitions,
                cursor=after,
            )
            return [EncodedRequest.encode(page, 0, self._client_id)]

        response = context.ask_metadata_broker(make, deadline)
        body = response.first
        page = None if body is None else DescribeTopicPartitionsResponse.decode(body, version=0)
        return page, response.problem

    def _refresh_reassignments(
        self, context: CycleContext, placement: ListedPlacement, deadline: Deadline
    ) -> None:
        """Read the reassignments if they may have changed."""
        now_s = time.monotonic()
        is_due = now_s - self._listed_at_s >= self._interval_s
        if not (is_due or self._reassignments or placement is not self._listed_for):
            return

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            version = negotiate_version(versions, ListPartitionReassignmentsRequest, 0)
            if version is None:
                return []
            timeout_ms = max(1, deadline.left_ms)
            request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
            return [EncodedRequest.encode(request, version, self._client_id)]

        problem, decoded = self._response_of(context, context.metadata_broker, make, deadline)
        refused = decoded is not None and decoded.error_code == _NOT_CONTROLLER
        if refused and context.controller != UNKNOWN:
            problem, decoded = self._response_of(context, context.controller, make, deadline)
        self._reassignment_problem = problem
        if decoded is None:
            return  # the next cycle tries again
        if decoded.error_code != _NOT_CONTROLLER:  # otherwise the controller has just moved
            self._listed_at_s, self._listed_for = now_s, placement
        if decoded.error_code:
            text = "replicas that are added or removed stay unknown"
            self._reassignment_problem = from_code(REASSIGNMENTS.name, decoded.error_code, text)
            return
        self._reassignments = {
            (topic.name, p.partition_index): (p.adding_replicas, p.removing_replicas)
            for topic in decoded.topics
            for p in topic.partitions
        }

    @staticmethod
    def _response_of(
        context: CycleContext, broker: int, make: RequestFactory, deadline: Deadline
    ) -> tuple[Problem | None, Any]:
        """A problem or a response; neither if the broker does not support the API."""
        response = context.ask(broker, make, deadline)
        body, failure = response.first, response.problem
        return (
            None if failure is None else failure.at(REASSIGNMENTS.name),
            None if body is None else ListPartitionReassignmentsResponse.decode(body, version=0),
        )

    def _with_reassignments(self, listing: PartitionListing) -> PartitionListing:
        if not self._reassignments:
            return listing
        placement, flags = listing.placement, listing.replica_flags.copy()
        number = {name: i for i, name in enumerate(placement.topic)}
        for (name, partition), (adding, removing) in self._reassignments.items():
            row = placement.row_of(number.get(name, -1), partition)
            if row is None:
                continue
            replicas = slice(placement.first[row], placement.first[row + 1])
            brokers = placement.broker[replicas]
            for flag, nodes in ((ReplicaFlags.ADDING, adding), (ReplicaFlags.REMOVING, removing)):
                flags[replicas] |= _flagged(brokers, nodes, flag)
        return replace(listing, replica_flags=flags)


def _flagged(brokers: Any, nodes: Iterable[int], flag: ReplicaFlags) -> Array:
    """[R] the flag where the replica's broker is among the nodes, else 0."""
    return np.isin(brokers, list(nodes)).astype(np.uint8) * np.uint8(flag)
