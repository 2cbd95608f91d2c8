"""The brokers, topics and partitions of the cluster: Metadata and DescribeCluster of one broker.

The same broker (the metadata broker) is asked each cycle until it is late, fails or returns stale
metadata: a frozen broker answers from stale state for 80-100 ms after it resumes (measured), which
is visible as a leader epoch lower than an earlier one. Then another broker is asked too, and for
each partition the higher leader epoch wins.

Kafka omits topics that this user may not describe, as if they did not exist. So each topic that has
disappeared from the list is requested by name, to distinguish hidden topics from deleted ones.

Most responses differ only in ``controller_id`` (KRaft fills in any live broker), so a response that
is otherwise equal is not decoded again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from streaming.collector import listing
from streaming.collector.about import About, Acl, Needed
from streaming.collector.listing import PartitionListing
from streaming.collector.problem import Problem, from_code, some_names
from streaming.collector.reading import Reading
from streaming.collector.source import Setup, Source
from streaming.collector.wire.cluster_listing import (
    RegisteredBroker,
    controller_at,
    listing_requests,
    registered_brokers,
)
from streaming.collector.wire.connections import (
    Address,
    BrokerConnections,
    BrokerResponse,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.collector.wire.unlisted import UnlistedBrokers
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.messages import ByteReader
from twin.declarations.table import UNKNOWN

_HIGHEST_METADATA: Final = 12
"""Version 13 only adds an error code for the whole response."""

_LISTING: Final = (Needed(MetadataRequest, "Kafka 0.10", highest=_HIGHEST_METADATA),)

METADATA: Final = About("metadata", "everything", needs=_LISTING)
TOPICS: Final = About(
    "topics",
    "topics that it does not cover: Kafka hides them, as if they did not exist",
    Acl("DESCRIBE", "topic"),
    needs=_LISTING,
)

_MOST_NAMED: Final = 1_000
"""Topics that are requested by name in a cycle; the others count as hidden until then."""

_BY_NAME: Final = 4
"""Kafka 0.11: before, a broker might create a topic that is requested by name."""

_ATTEMPTS: Final = 3
"""The number of brokers that can be tried within one deadline: each gets this share of it."""


@dataclass(frozen=True, slots=True)
class ClusterMetadata(Reading):
    """Brokers, topics and partitions, as one or more brokers list them."""

    brokers: tuple[RegisteredBroker, ...]  # by id
    lists_fenced: bool  # if true, a broker that is not listed is not registered
    listing: PartitionListing
    metadata_broker: int = UNKNOWN  # that listed the cluster; UNKNOWN if none does
    controller: int = UNKNOWN  # with KRaft: any live broker

    @property
    def addresses(self) -> list[Address]:
        """The address of each broker."""
        return [r.address for r in self.brokers]

    def without_partitions(self) -> ClusterMetadata:
        """The same brokers, with an incomplete empty listing: no broker lists the cluster now."""
        return replace(
            self,
            listing=listing.empty(self.listing.placement.shards),
            metadata_broker=UNKNOWN,
            controller=UNKNOWN,
        )

    @property
    def broker_columns(self) -> Mapping[str, Mapping[int, Any]]:
        """One row for each broker that is registered, or may be."""
        by_id = {r.address.broker: r for r in self.brokers}
        return {
            "broker": {b: b for b in by_id},
            "rack": {b: r.address.rack for b, r in by_id.items()},
            "host": {b: str(r.address) for b, r in by_id.items()},
            "fenced": {b: r.fenced for b, r in by_id.items()},
            "listed": {b: r.listed for b, r in by_id.items()},
        }

    @property
    def incomplete(self) -> Collection[str]:
        """Kinds of frames that may lack rows: unlisted brokers may be registered."""
        return () if self.lists_fenced else ("brokers",)


_Versions = tuple[int | None, int | None]
"""Versions of Metadata and DescribeCluster."""


class MetadataSource(Source):
    """Keeps the last metadata, and which broker returned it."""

    about = (METADATA, TOPICS)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.config, setup.client_id)

    def __init__(
        self, config: Config, client_id: str, unlisted: UnlistedBrokers | None = None
    ) -> None:
        """``unlisted`` remembers brokers that Kafka before 4.0 stops listing."""
        self._shards = config.bus.shards
        self._include = re.compile(config.collector.include_topics)
        self._exclude = re.compile(config.collector.exclude_topics or r"(?!)")
        self._client_id = client_id
        self._last: _Response | None = None
        self._versions: dict[int, _Versions] = {}
        self._requests: dict[_Versions, list[EncodedRequest]] = {}
        self._undeleted: frozenset[str] = frozenset()  # no longer listed, not known to be deleted
        self._failures: list[Problem] = []
        self._unlisted = unlisted or UnlistedBrokers()
        self.metadata_broker: int = UNKNOWN
        self.controller: int = UNKNOWN  # with KRaft: any live broker
        self.metadata: ClusterMetadata | None = None
        self.unauthorized: frozenset[str] = frozenset()  # listed before, now hidden

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the list is incomplete, or why there is none.

        The failure of one broker is not a problem once another broker has listed the cluster.
        """
        if self.metadata_broker == UNKNOWN:
            return tuple(self._failures)
        if not self.unauthorized:
            return ()
        text = unauthorized_message(self.unauthorized)
        return (from_code(TOPICS.name, clients.TOPIC_NOT_ALLOWED, text),)

    def read(self, brokers: BrokerConnections, deadline: Deadline) -> ClusterMetadata | None:
        """The newest metadata; None if no broker returns any by the deadline."""
        self._failures = []
        response = self._first(brokers, self._by_preference(brokers), deadline)
        if response is None:
            self.metadata_broker = UNKNOWN
            return None
        self.metadata_broker, metadata = response.broker, response.metadata
        self.controller = response.controller
        before = self.metadata
        if before is not None and metadata.listing is not before.listing:
            if listing.is_behind(before.listing, metadata.listing):
                metadata = self._confirm_with_another_broker(brokers, response, deadline)
            metadata = _with_placement_of(before, metadata)
        metadata = self._with_unlisted(metadata)
        self.metadata = replace(
            self._with_unauthorized(brokers, metadata, deadline),
            metadata_broker=self.metadata_broker,
            controller=self.controller,
        )
        return self.metadata

    def is_wanted(self, topic: str) -> bool:
        """Whether the configuration includes the topic."""
        return bool(self._include.fullmatch(topic)) and not self._exclude.fullmatch(topic)

    def _by_preference(self, brokers: BrokerConnections) -> list[int]:
        """The metadata broker first, then the others in the order of ids, so that each gets a turn.

        Unlisted brokers come last, since waiting for them costs part of the deadline.
        """
        registered = () if self.metadata is None else self.metadata.brokers
        unlisted = {r.address.broker for r in registered if not r.listed}
        return sorted(
            brokers.broker_ids(), key=lambda b: (b in unlisted, b < self.metadata_broker, b)
        )

    def _first(
        self, brokers: BrokerConnections, candidates: Sequence[int], deadline: Deadline
    ) -> _Response | None:
        """The first response of these brokers; each gets a share of the time."""
        share_ms = deadline.left_ms // _ATTEMPTS
        for broker in candidates:
            if deadline.left_ms == 0:
                break
            attempt = Deadline.after_ms(min(share_ms, deadline.left_ms))
            response = self._decoded(
                broker, brokers.ask([broker], self._requests_to, attempt)[broker]
            )
            if response is not None:
                return response
        return None

    def _requests_to(self, broker: int, versions: Versions) -> list[EncodedRequest]:
        metadata = negotiate_version(versions, MetadataRequest, _HIGHEST_METADATA)
        cluster = negotiate_version(versions, DescribeClusterRequest)
        self._versions[broker] = (metadata, cluster)
        if (metadata, cluster) not in self._requests:
            self._requests[metadata, cluster] = listing_requests(metadata, cluster, self._client_id)
        return self._requests[metadata, cluster]

    def _decoded(self, broker: int, response: BrokerResponse) -> _Response | None:
        metadata, cluster = self._versions.get(broker, (None, None))
        body = response.first
        if response.problem is not None and body is None:
            self._failures.append(response.problem.at(METADATA.name))
            return None
        if metadata is None or body is None:
            text = "the broker supports no usable version of Metadata"
            self._failures.append(Problem(METADATA.name, broker, "UnsupportedVersion", text))
            return None
        last = self._last
        if last is not None and last.version == metadata and last.has_same_listing(body):
            alive, listed, controller = last.alive, last.metadata.listing, last.controller
        else:
            decoded = MetadataResponse.decode(body, version=metadata)
            alive = tuple(Address(b.node_id, b.host, b.port, b.rack or "") for b in decoded.brokers)
            listed = listing.from_metadata(decoded.topics, self._shards, self.is_wanted)
            controller = decoded.controller_id
        described = response.bodies[1] if len(response.bodies) > 1 else None
        whole = ClusterMetadata(*registered_brokers(alive, described, cluster), listed)
        at = controller_at(body, metadata)
        if at < len(body):
            controller = ByteReader(body, at).number(4)
        self._last = _Response(broker, body, metadata, at, controller, alive, whole)
        return self._last

    def _confirm_with_another_broker(
        self, brokers: BrokerConnections, stale: _Response, deadline: Deadline
    ) -> ClusterMetadata:
        others = [b for b in self._by_preference(brokers) if b != stale.broker]
        fresh = self._first(brokers, others, deadline)
        # The result combines several brokers, so the next response must be decoded.
        self._last = None
        if fresh is None:
            return stale.metadata
        self.metadata_broker = fresh.broker
        topics, agree = listing.merge_metadata(fresh.topics(), stale.topics())
        merged = listing.from_metadata(topics, self._shards, self.is_wanted, complete=agree)
        return replace(fresh.metadata, listing=merged)

    def _with_unlisted(self, metadata: ClusterMetadata) -> ClusterMetadata:
        """The listed brokers, and those that may still be registered."""
        listed = {r.address.broker: r for r in metadata.brokers}
        self._unlisted.update([r.address for r in metadata.brokers], complete=metadata.lists_fenced)
        if metadata.lists_fenced:
            return metadata
        for address in self._unlisted.addresses(listed, metadata.listing.placement):
            listed[address.broker] = RegisteredBroker(address, UNKNOWN, listed=False)
        return replace(metadata, brokers=tuple(listed[b] for b in sorted(listed)))

    def _with_unauthorized(
        self, brokers: BrokerConnections, metadata: ClusterMetadata, deadline: Deadline
    ) -> ClusterMetadata:
        """Mark the listing as incomplete while topics are hidden, so that no reader deletes
        them."""
        placement = metadata.listing.placement
        missing = set(self._undeleted)
        if self.metadata is not None and self.metadata.listing.placement is not placement:
            missing.update(self.metadata.listing.placement.topic)
        missing.difference_update(placement.topic)
        names = sorted(missing)[:_MOST_NAMED]
        errors = self._errors_by_name(brokers, names, deadline) if missing else {}
        self.unauthorized = frozenset(
            name for name, error in errors.items() if error == clients.TOPIC_NOT_ALLOWED
        )
        self._undeleted = frozenset(missing - (errors.keys() - self.unauthorized))
        if not self._undeleted:
            return metadata
        return replace(metadata, listing=replace(metadata.listing, complete=False))

    def _errors_by_name(
        self, brokers: BrokerConnections, names: Sequence[str], deadline: Deadline
    ) -> dict[str, int]:
        """The error code of each of these topics, 0 if it exists; empty without a response."""
        version = self._versions[self.metadata_broker][0]
        assert version is not None  # this broker has listed the topics
        if version < _BY_NAME:
            return dict.fromkeys(names, 0)
        topic = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=[topic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        encoded = EncodedRequest.encode(request, version, self._client_id)
        responses = brokers.ask([self.metadata_broker], lambda *_: [encoded], deadline)
        body = responses[self.metadata_broker].first
        if body is None:
            return {}
        decoded = MetadataResponse.decode(body, version=version)
        return {t.name: t.error_code for t in decoded.topics}


def unauthorized_message(topics: Collection[str]) -> str:
    """The message about topics that were listed and must not be described now."""
    return f"{len(topics)} that were listed may not be described now ({some_names(topics)})"


def _with_placement_of(before: ClusterMetadata, after: ClusterMetadata) -> ClusterMetadata:
    """Keep the old placement object where nothing of it has changed."""
    placement, listed = before.listing.placement, after.listing
    if listed.placement is placement or not listed.placement.same_as(placement):
        return after
    return replace(after, listing=replace(listed, placement=placement))


@dataclass(frozen=True, slots=True)
class _Response:
    """One broker's response to Metadata, as bytes: decoded, it takes ten times the memory."""

    broker: int
    body: bytes
    version: int
    controller_at: int
    controller: int
    alive: tuple[Address, ...]
    metadata: ClusterMetadata

    def topics(self) -> Sequence[Any]:
        """The topics as kafka-python decodes them."""
        return MetadataResponse.decode(self.body, version=self.version).topics

    def has_same_listing(self, body: bytes) -> bool:
        """Whether the responses differ only in the throttle time and the controller id."""
        at = self.controller_at
        return (
            len(body) == len(self.body)
            and body[4:at] == self.body[4:at]
            and body[at + 4 :] == self.body[at + 4 :]
        )
