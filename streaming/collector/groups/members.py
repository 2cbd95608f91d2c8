"""Reads the state and members of groups: DescribeGroups, and ConsumerGroupDescribe (KIP-848).

A response with the same bytes as the previous one is not decoded again: groups change rarely.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from kafka.protocol.admin import DescribeGroupsResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from streaming.collector.groups.requests import consumer_group_describe, describe_groups
from streaming.collector.listing import Array
from streaming.collector.wire.connections import EncodedRequest
from streaming.runtime.kafka.messages import ByteReader, MalformedBytes
from twin.declarations.table import UNKNOWN

CONSUMER: Final = "consumer"
"""Protocol type of classic groups whose members are consumers."""

_UUID_BYTES: Final = 16


Assignment = Iterable[tuple[str, Sequence[int]]]
"""Topics and their partitions."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """One group as its coordinator describes it."""

    error: int = 0  # Kafka's error code; if set, all fields below are unknown
    state: str = ""
    members: int = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class DescribedGroups:
    """The groups of a response. Shapes: [n] partitions that are assigned to members."""

    members: Mapping[str, GroupMembers] = field(default_factory=dict)
    group: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()
    rack: tuple[str, ...] = ()
    group_of: Array = field(default_factory=lambda: np.zeros(0, np.int32))  # [n] index into group
    topic_of: Array = field(default_factory=lambda: np.zeros(0, np.int32))  # [n]
    partition: Array = field(default_factory=lambda: np.zeros(0, np.int32))  # [n]
    rack_of: Array = field(default_factory=lambda: np.zeros(0, np.int32))  # [n] of the member


class _Assignments:
    """Collects the partitions of members."""

    def __init__(self) -> None:
        self.members: dict[str, GroupMembers] = {}
        self._places: tuple[dict[str, int], ...] = ({}, {}, {})
        self._runs: list[tuple[int, ...]] = []
        self._partitions: list[Array] = [np.zeros(0, np.int32)]

    def add(self, group: str, rack: str, assignment: Assignment) -> None:
        """The partitions of one member."""
        for topic, partitions in assignment:
            named = zip(self._places, (group, topic, rack), strict=True)
            self._runs.append(tuple(place.setdefault(n, len(place)) for place, n in named))
            self._partitions.append(np.array(partitions, np.int32))

    def described(self) -> DescribedGroups:
        """All collected partitions as arrays."""
        partition = np.concatenate(self._partitions)
        lengths = [len(each) for each in self._partitions[1:]]
        runs = np.array(self._runs, np.int32).reshape(-1, 3).repeat(lengths, axis=0)
        group_of, topic_of, rack_of = runs.T
        group, topic, rack = map(tuple, self._places)
        return DescribedGroups(
            self.members, group, topic, rack, group_of, topic_of, partition, rack_of
        )


class DescribeBatch:
    """The request about some groups of one coordinator, and its last response."""

    def __init__(
        self,
        groups: Sequence[str],
        request: EncodedRequest,
        read: Callable[[bytes, int], DescribedGroups],
    ) -> None:
        self.groups = tuple(groups)
        self.request = request
        self._read = read
        self._body: bytes | None = None
        self._described = DescribedGroups()

    def read(self, body: bytes) -> DescribedGroups:
        """The groups of a response; a malformed response has none."""
        if body != self._body:
            try:
                self._described = self._read(body, self.request.api_version)
            except (MalformedBytes, UnicodeDecodeError):
                self._described = DescribedGroups()
            self._body = body
        return self._described


def classic_batch(groups: Sequence[str], version: int, client_id: str) -> DescribeBatch:
    """The request about classic groups."""
    return DescribeBatch(groups, describe_groups(groups, version, client_id), read_classic)


def consumer_batch(groups: Sequence[str], version: int, client_id: str) -> DescribeBatch:
    """The request about groups of the consumer protocol."""
    request = consumer_group_describe(groups, version, client_id)
    return DescribeBatch(groups, request, read_consumer)


# ---------------------------------------------------------------- classic groups


def read_classic(body: bytes, version: int) -> DescribedGroups:
    """The groups of a DescribeGroups response."""
    response: Any = DescribeGroupsResponse.decode(body, version=version)
    assigned = _Assignments()
    for group in response.groups:
        members = UNKNOWN if group.error_code else len(group.members)
        assigned.members[group.group_id] = GroupMembers(
            group.error_code, group.group_state, members
        )
        for member in group.members if group.protocol_type == CONSUMER else ():
            partitions = _assignment_of(member.member_assignment)
            assigned.add(group.group_id, _rack_of(member.member_metadata), partitions)
    return assigned.described()


def _rack_of(subscription: bytes | None) -> str:
    """The rack in a member's subscription, empty if it has none (KIP-881, Kafka 3.5)."""
    try:
        decoded = ConsumerProtocolSubscription.decode(bytes(subscription or b""))
    except (ValueError, struct.error):  # a member may write anything there
        return ""
    return getattr(decoded, "rack_id", None) or ""


def _assignment_of(assignment: bytes | None) -> list[tuple[str, Sequence[int]]]:
    """The partitions of a member; there are none until its group is stable."""
    try:
        decoded = ConsumerProtocolAssignment.decode(bytes(assignment or b""))
    except (ValueError, struct.error):
        return []
    return [(each.topic, each.partitions) for each in decoded.assigned_partitions]


# ---------------------------------------------------------------- groups of KIP-848


def read_consumer(body: bytes, version: int) -> DescribedGroups:
    """The groups of a ConsumerGroupDescribe response, version 0.

    Raises:
        MalformedBytes: the response ends early.
    """
    del version  # there is one
    reader, assigned = ByteReader(body), _Assignments()
    reader.skip(4)  # throttle time
    for _ in range(reader.count()):
        _read_consumer_group(reader, assigned)
    return assigned.described()


def _read_consumer_group(reader: ByteReader, assigned: _Assignments) -> None:
    error = reader.number(2)
    reader.text()  # error message
    name, state = reader.text(), reader.text()
    reader.skip(4 + 4)  # epochs of the group and of its assignment
    reader.text()  # assignor
    members = reader.count()
    for _ in range(members):
        _read_member(reader, name, assigned)
    reader.skip(4)  # authorized operations
    reader.skip_tagged_fields()
    assigned.members[name] = GroupMembers(error, state, UNKNOWN if error else members)


def _read_member(reader: ByteReader, group: str, assigned: _Assignments) -> None:
    reader.text()  # member id
    reader.text()  # instance id
    rack = reader.text()
    reader.skip(4)  # member epoch
    reader.text()  # client id
    reader.text()  # client host
    for _ in range(reader.count()):
        reader.text()  # subscribed topic
    reader.text()  # subscribed regular expression
    assigned.add(group, rack, _read_assignment(reader))
    _read_assignment(reader)  # the target assignment, once other members have released it
    reader.skip_tagged_fields()


def _read_assignment(reader: ByteReader) -> list[tuple[str, Sequence[int]]]:
    topics: list[tuple[str, Sequence[int]]] = []
    for _ in range(reader.count()):
        reader.skip(_UUID_BYTES)
        name, count = reader.text(), reader.count()
        topics.append((name, np.frombuffer(reader.take(4 * count), ">i4").tolist()))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return topics
