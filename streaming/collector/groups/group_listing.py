"""Which groups exist, and which broker coordinates each: ListGroups on every broker.

A broker lists the groups of the partitions of ``__consumer_offsets`` that it leads. So the listing
is complete when the leader of each of these partitions has answered; a group that is missing from
an incomplete listing may still exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.metadata import MetadataResponse

from streaming.collector.groups.requests import GROUPS, list_groups, offsets_topic
from streaming.collector.problem import Problem, from_code
from streaming.collector.wire.connections import (
    BrokerConnections,
    BrokerResponse,
    EncodedRequest,
    Versions,
)
from streaming.runtime.deadline import Deadline
from twin.declarations.table import NO_BROKER

_NOT_ASKED = "Kafka is too old to list its groups"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it."""

    coordinator: int
    type: str  # classic, consumer, share or streams, in lower case; empty before Kafka 3.8
    state: str  # empty before Kafka 2.6


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """The groups of the cluster."""

    groups: Mapping[str, ListedGroup]
    complete: bool  # it has every group that this user may describe
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _BrokerGroups:
    """The groups of one broker, and the response that they were read from."""

    body: bytes
    error: int
    groups: Mapping[str, ListedGroup]


class GroupLister:
    """Asks all brokers; reads a response again only if it changed."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.versions: dict[int, Versions] = {}  # of the connections to the brokers
        self._requests: dict[int, EncodedRequest] = {}
        self._brokers: dict[int, _BrokerGroups] = {}

    def read(
        self,
        connections: BrokerConnections,
        brokers: Iterable[int],
        deadline: Callable[[], Deadline],
    ) -> ListedGroups:
        """The groups of all brokers; ``brokers`` are all known ones."""
        responses = connections.ask(sorted(brokers), self._list, deadline())
        self._brokers = {
            broker: self._read(broker, response.first)
            for broker, response in responses.items()
            if response.first is not None
        }
        for kept in (self.versions, self._requests):
            for broker in kept.keys() - responses.keys():
                del kept[broker]
        groups: dict[str, ListedGroup] = {}
        for listed in self._brokers.values():
            groups |= listed.groups
        answered = {b for b, listed in self._brokers.items() if listed.error == 0}
        leaders = self._leaders(connections, answered, deadline())
        return ListedGroups(
            groups,
            complete=(leaders if leaders is not None else responses.keys()) <= answered,
            problems=tuple(self._problems(responses)),
        )

    def _list(self, broker: int, versions: Versions) -> list[EncodedRequest]:
        if self.versions.get(broker) != versions:
            self.versions[broker] = versions
            self._requests.pop(broker, None)
            request = list_groups(versions, self._client_id)
            if request is not None:
                self._requests[broker] = request
        return [self._requests[broker]] if broker in self._requests else []

    def _read(self, broker: int, body: bytes) -> _BrokerGroups:
        kept = self._brokers.get(broker)
        if kept is not None and kept.body == body:
            return kept
        version = self._requests[broker].api_version
        response: Any = ListGroupsResponse.decode(body, version=version)
        groups = {
            group.group_id: ListedGroup(
                broker,
                getattr(group, "group_type", "").lower(),
                getattr(group, "group_state", ""),
            )
            for group in response.groups
        }
        return _BrokerGroups(body, response.error_code, groups)

    def _problems(self, responses: Mapping[int, BrokerResponse]) -> Iterable[Problem]:
        for broker, response in responses.items():
            if response.problem is not None:
                yield response.problem.at(GROUPS.name)
            elif broker not in self._brokers:
                yield Problem(GROUPS.name, broker, "UnsupportedVersion", _NOT_ASKED)
            elif error := self._brokers[broker].error:
                yield from_code(GROUPS.name, error, "its groups stay as they were", broker)

    def _leaders(
        self, connections: BrokerConnections, brokers: Iterable[int], deadline: Deadline
    ) -> set[int] | None:
        """The leaders of ``__consumer_offsets``, -1 among them if a partition has none.

        None if that topic may not be described, or does not exist yet.
        """
        encoded: list[EncodedRequest] = []

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            request = offsets_topic(versions, self._client_id)
            encoded.extend([] if request is None else [request])
            return encoded

        for broker in sorted(brokers)[:1]:
            body = connections.ask([broker], make, deadline)[broker].first
            if body is None:
                return {NO_BROKER}
            response: Any = MetadataResponse.decode(body, version=encoded[0].api_version)
            [topic] = response.topics
            if topic.error_code == 0:
                return {partition.leader_id for partition in topic.partitions}
        return None
