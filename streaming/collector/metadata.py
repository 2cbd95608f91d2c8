"""Asks one broker what the cluster consists of: Metadata and DescribeCluster.

The same broker (the metadata broker) is asked each cycle until it is late, fails or returns stale
metadata: a frozen broker answers from stale state for 80-100 ms after it resumes (measured), which
shows by a leader epoch lower than one returned before. Then another broker is asked too, and for
each partition the higher leader epoch wins.

Kafka leaves out of the list what this user may not describe, as if it were not there. So whatever
has gone from the list is asked for by name: what may not be seen any more is not gone.

Between two answers most often nothing but ``controller_id`` differs (KRaft fills in any live
broker), so equal bytes are not decoded again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from streaming.collector import listing
from streaming.collector.brokers import (
    Address,
    BrokerConnections,
    BrokerResponse,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.collector.listing import Listing
from streaming.collector.wire import Cursor
from streaming.runtime.clients import TOPIC_NOT_ALLOWED
from streaming.runtime.config import Config
from twin.tables import UNKNOWN

_HIGHEST_METADATA: Final = 12
"""Version 13 only adds an error code for the whole answer."""

_METADATA_FLEXIBLE: Final = 9
_MOST_NAMED: Final = 1_000
"""Topics that are asked for by name in a cycle; those not asked count as hidden meanwhile."""

_BY_NAME: Final = 4
"""Kafka 0.11: before, a broker might create what is asked for by name."""

_PATIENCE: Final = 3
"""A broker has this part of the deadline before another one is asked."""


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker the cluster knows."""

    address: Address
    fenced: int  # tri-state


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What the cluster consists of, as one or more brokers told it."""

    brokers: tuple[RegisteredBroker, ...]  # by id
    listing: Listing


_Versions = tuple[int | None, int | None]
"""Of Metadata and DescribeCluster."""


class MetadataSource:
    """Keeps the last view and the metadata broker."""

    def __init__(self, config: Config, client_id: str) -> None:
        self._shards = config.bus.shards
        self._include = re.compile(config.collector.include_topics)
        self._exclude = re.compile(config.collector.exclude_topics or r"(?!)")
        self._client_id = client_id
        self._answer: _Answer | None = None
        self._versions: dict[int, _Versions] = {}
        self._kept_questions: dict[_Versions, list[EncodedRequest]] = {}
        self.metadata_broker: int = UNKNOWN
        self.view: ClusterMetadata | None = None
        self.problems: dict[int, str] = {}
        self.hidden: frozenset[str] = frozenset()  # listed once, and may not be described now
        self._gone: frozenset[str] = frozenset()  # listed once, and not known to be deleted

    def ask(self, brokers: BrokerConnections, deadline_ms: int) -> ClusterMetadata | None:
        """The newest view; None if no broker tells by the deadline (``problems`` says why)."""
        self.problems = {}
        ends = time.monotonic() + deadline_ms / 1_000
        answer = self._first(brokers, self._order(brokers), ends)
        if answer is None:
            self.metadata_broker = UNKNOWN
            return None
        self.metadata_broker, view = answer.broker, answer.view
        if self.view is not None and view.listing is not self.view.listing:
            if listing.is_behind(self.view.listing, view.listing):
                view = self._confirm_with_another_broker(brokers, answer, ends)
            view = self._kept(view)
        view = self._with_hidden(brokers, view, ends)
        self.view = view
        return view

    def wanted(self, topic: str) -> bool:
        """The configuration does not leave it out."""
        return bool(self._include.fullmatch(topic)) and not self._exclude.fullmatch(topic)

    def _order(self, brokers: BrokerConnections) -> list[int]:
        """The metadata broker first, then those with higher ids, so that each gets its turn."""
        known = brokers.broker_ids()
        return sorted(known, key=lambda b: (b < self.metadata_broker, b))

    def _first(
        self, brokers: BrokerConnections, candidates: Sequence[int], ends: float
    ) -> _Answer | None:
        """The answer of the first of these brokers that gives one in its part of the time."""
        left_ms = int((ends - time.monotonic()) * 1_000)
        patience_ms = left_ms // _PATIENCE
        for broker in candidates:
            left_ms = int((ends - time.monotonic()) * 1_000)
            if left_ms <= 0:
                break
            reply = brokers.ask([broker], self._questions, min(patience_ms, left_ms))[broker]
            answer = self._read(broker, reply)
            if answer is not None:
                return answer
        return None

    def _questions(self, broker: int, versions: Versions) -> list[EncodedRequest]:
        metadata = negotiate_version(versions, MetadataRequest, _HIGHEST_METADATA)
        cluster = negotiate_version(versions, DescribeClusterRequest)
        self._versions[broker] = (metadata, cluster)
        if (metadata, cluster) not in self._kept_questions:
            self._kept_questions[metadata, cluster] = _encoded(metadata, cluster, self._client_id)
        return self._kept_questions[metadata, cluster]

    def _read(self, broker: int, reply: BrokerResponse) -> _Answer | None:
        metadata, cluster = self._versions.get(broker, (None, None))
        if metadata is None or not reply.bodies or reply.bodies[0] is None:
            self.problems[broker] = reply.problem or "does not know Metadata"
            return None
        body = reply.bodies[0]
        before = self._answer
        if before is not None and before.version == metadata and before.same_listing(body):
            alive, found = before.alive, before.view.listing
        else:
            decoded = MetadataResponse.decode(body, version=metadata)
            alive = tuple(Address(b.node_id, b.host, b.port, b.rack or "") for b in decoded.brokers)
            found = listing.from_metadata(decoded.topics, self._shards, self.wanted)
        described = reply.bodies[1] if len(reply.bodies) > 1 else None
        view = ClusterMetadata(_registered(alive, described, cluster), found)
        at = _controller_at(body, metadata)
        self._answer = _Answer(broker, body, metadata, at, alive, view)
        return self._answer

    def _confirm_with_another_broker(
        self, brokers: BrokerConnections, stale: _Answer, ends: float
    ) -> ClusterMetadata:
        others = [b for b in self._order(brokers) if b != stale.broker]
        fresh = self._first(brokers, others, ends)
        # What is told then is nobody's answer alone: the next one must be decoded.
        self._answer = None
        if fresh is None:
            return stale.view
        self.metadata_broker = fresh.broker
        topics, agree = listing.merge_metadata(fresh.topics(), stale.topics())
        found = listing.from_metadata(topics, self._shards, self.wanted, complete=agree)
        return ClusterMetadata(fresh.view.brokers, found)

    def _with_hidden(
        self, brokers: BrokerConnections, view: ClusterMetadata, ends: float
    ) -> ClusterMetadata:
        """The view, as an incomplete one while topics are hidden: then nobody deletes them."""
        placement = view.listing.placement
        gone = set(self._gone)
        if self.view is not None and self.view.listing.placement is not placement:
            gone.update(self.view.listing.placement.topic)
        gone.difference_update(placement.topic)
        errors = self._asked_for(brokers, sorted(gone)[:_MOST_NAMED], ends) if gone else {}
        self.hidden = frozenset(
            name for name, error in errors.items() if error == TOPIC_NOT_ALLOWED
        )
        self._gone = frozenset(gone - (errors.keys() - self.hidden))
        return (
            ClusterMetadata(view.brokers, replace(view.listing, complete=False))
            if self._gone
            else view
        )

    def _asked_for(
        self, brokers: BrokerConnections, names: Sequence[str], ends: float
    ) -> dict[str, int]:
        """The error code of each of these topics, 0 if it exists; empty without an answer."""
        version = self._versions[self.metadata_broker][0]
        assert version is not None  # it has listed the topics
        if version < _BY_NAME:
            return dict.fromkeys(names, 0)
        topic = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=[topic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        question = EncodedRequest.encode(request, version, self._client_id)
        left_ms = max(1, int((ends - time.monotonic()) * 1_000))
        reply = brokers.ask([self.metadata_broker], lambda *_: [question], left_ms)[
            self.metadata_broker
        ]
        if not reply.bodies or reply.bodies[0] is None:
            return {}
        answer = MetadataResponse.decode(reply.bodies[0], version=version)
        return {t.name: t.error_code for t in answer.topics}

    def _kept(self, view: ClusterMetadata) -> ClusterMetadata:
        """The view with the old placement object where nothing of it has changed."""
        assert self.view is not None
        before, found = self.view.listing.placement, view.listing
        if found.placement is before or not found.placement.same_as(before):
            return view
        return ClusterMetadata(view.brokers, replace(found, placement=before))


@dataclass(frozen=True, slots=True)
class _Answer:
    """One broker's answer to Metadata, to know it again. Decoded, it would be ten times as big."""

    broker: int
    body: bytes
    version: int
    controller_at: int
    alive: tuple[Address, ...]
    view: ClusterMetadata

    def topics(self) -> Sequence[Any]:
        """The topics as kafka-python decodes them."""
        found: Sequence[Any] = MetadataResponse.decode(self.body, version=self.version).topics
        return found

    def same_listing(self, body: bytes) -> bool:
        """Nothing but the throttle time and the controller id differs."""
        at = self.controller_at
        return (
            len(body) == len(self.body)
            and body[4:at] == self.body[4:at]
            and body[at + 4 :] == self.body[at + 4 :]
        )


def _controller_at(body: bytes, version: int) -> int:
    """Where the controller id stands; its end if this version is not worth the trouble."""
    if version < _METADATA_FLEXIBLE:
        return len(body)
    cursor = Cursor(body, 4)
    for _ in range(cursor.count()):
        cursor.skip(4)
        cursor.text()  # host
        cursor.skip(4)
        cursor.text()  # rack
        for _ in range(cursor.uvarint()):
            cursor.uvarint()
            cursor.skip(cursor.uvarint())
    cursor.text()  # cluster id
    return cursor.at


def _encoded(metadata: int | None, cluster: int | None, client_id: str) -> list[EncodedRequest]:
    if metadata is None:
        return []
    everything = MetadataRequest(
        topics=MetadataRequest.ALL_TOPICS,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    questions = [EncodedRequest.encode(everything, metadata, client_id)]
    if cluster is not None:
        fenced_too = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=True,
        )
        questions.append(EncodedRequest.encode(fenced_too, cluster, client_id))
    return questions


def _registered(
    alive: Sequence[Address], described: bytes | None, version: int | None
) -> tuple[RegisteredBroker, ...]:
    """The brokers that are alive and, since Kafka 4.0, those that are fenced."""
    found = {a.broker: RegisteredBroker(a, UNKNOWN) for a in alive}
    if described is not None and version is not None:
        answer = DescribeClusterResponse.decode(described, version=version)
        for b in answer.brokers if answer.error_code == 0 else ():
            fenced = int(b.is_fenced) if version >= 2 else UNKNOWN
            address = Address(b.broker_id, b.host, b.port, b.rack or "")
            found[b.broker_id] = RegisteredBroker(address, fenced)
    return tuple(found[b] for b in sorted(found))
