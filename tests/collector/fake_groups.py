"""The part of a fake broker that coordinates groups."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tests.collector import schemas

if TYPE_CHECKING:
    from tests.collector.fake_broker import World

COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
GROUP_AUTHORIZATION_FAILED: Final = 30
GROUP_ID_NOT_FOUND: Final = 69


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):
    """The request of KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):
    """The response of KIP-848."""


REQUESTS: Final = {
    request.API_KEY: request
    for request in (
        ListGroupsRequest,
        OffsetFetchRequest,
        DescribeGroupsRequest,
        ConsumerGroupDescribeRequest,
    )
}


@dataclass
class Member:
    """A member of a group: what it is assigned, and where it is."""

    assigned: dict[str, list[int]] = field(default_factory=dict)
    rack: str | None = None
    target: dict[str, list[int]] = field(default_factory=dict)
    subscription: bytes | None = None  # in place of one that Kafka's consumer would write


@dataclass
class Group:
    """A group of consumers."""

    coordinator: int = 1
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    type: str = "classic"
    state: str = "Stable"
    protocol_type: str = "consumer"
    metadata: Mapping[tuple[str, int], str | None] = field(default_factory=dict)
    listed_by: int | None = None  # a broker that does not coordinate it, and lists it all the same
    error: int = 0  # of every request about it
    partition_errors: dict[tuple[str, int], int] = field(default_factory=dict)


class FakeCoordinator:
    """Answers about the groups of the world that a broker coordinates."""

    node: int
    world: World

    def _ListGroupsRequest(self, _: Any, version: int) -> Any:  # noqa: N802
        error = self.world.list_errors.get(self.node, 0)
        groups = []
        for name, group in self.world.groups.items():
            if (group.listed_by or group.coordinator) != self.node:
                continue
            listed = ListGroupsResponse.ListedGroup(
                group_id=name, protocol_type=group.protocol_type
            )
            if version >= 4:
                listed.group_state = group.state
            if version >= 5:
                listed.group_type = group.type.title()
            groups.append(listed)
        return ListGroupsResponse(error_code=error, groups=[] if error else groups)

    def _OffsetFetchRequest(self, request: Any, version: int) -> Any:  # noqa: N802
        if version < 8:
            error, topics = self._offsets(request.group_id, OffsetFetchResponse, version)
            return OffsetFetchResponse(error_code=error, topics=topics)
        kind = OffsetFetchResponse.OffsetFetchResponseGroup
        groups = []
        for asked in request.groups:
            assert asked.topics is None
            error, topics = self._offsets(asked.group_id, kind, version)
            groups.append(kind(group_id=asked.group_id, topics=topics, error_code=error))
        return OffsetFetchResponse(groups=groups)

    def _offsets(self, name: str, kind: Any, version: int) -> tuple[int, list[Any]]:
        topic_kind = (
            kind.OffsetFetchResponseTopics if version >= 8 else kind.OffsetFetchResponseTopic
        )
        part = (
            topic_kind.OffsetFetchResponsePartitions
            if version >= 8
            else topic_kind.OffsetFetchResponsePartition
        )
        group = self._coordinated(name)
        error = NOT_COORDINATOR if group is None else group.error
        if group is None or error:
            return error, []
        by_topic: dict[str, list[Any]] = {}
        for (topic, number), offset in group.offsets.items():
            by_topic.setdefault(topic, []).append(
                part(
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=3,
                    metadata=group.metadata.get((topic, number), ""),
                    error_code=group.partition_errors.get((topic, number), 0),
                )
            )
        return 0, [topic_kind(name=topic, partitions=each) for topic, each in by_topic.items()]

    def _coordinated(self, name: str) -> Group | None:
        group = self.world.groups.get(name)
        return group if group is not None and group.coordinator == self.node else None

    def _DescribeGroupsRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = DescribeGroupsResponse.DescribedGroup
        return DescribeGroupsResponse(
            groups=[kind(group_id=name, **self._classic(name, kind)) for name in request.groups]
        )

    def _classic(self, name: str, kind: Any) -> dict[str, Any]:
        group = self._coordinated(name)
        error = NOT_COORDINATOR if group is None else group.error
        error = GROUP_AUTHORIZATION_FAILED if self.world.groups_hidden else error
        if group is None or error:
            nothing = {"group_state": "", "protocol_type": "", "protocol_data": "", "members": []}
            return {"error_code": error, **nothing}
        return {
            "error_code": 0,
            "group_state": group.state,
            "protocol_type": group.protocol_type,
            "protocol_data": "range",
            "members": [
                kind.DescribedGroupMember(
                    member_id=f"member-{i}",
                    client_id="client",
                    client_host="/127.0.0.1",
                    member_metadata=_subscription(member),
                    member_assignment=_assignment(member),
                )
                for i, member in enumerate(group.members)
            ],
        }

    def _ConsumerGroupDescribeRequest(self, request: Any, _: int) -> Any:  # noqa: N802
        kind = ConsumerGroupDescribeResponse.DescribedGroup
        groups = []
        for name in request.group_ids:
            group = self._coordinated(name)
            error = NOT_COORDINATOR if group is None else group.error
            there = [] if group is None or error else group.members
            groups.append(
                kind(
                    error_code=error,
                    group_id=name,
                    group_state="" if group is None or error else group.state,
                    group_epoch=4,
                    assignment_epoch=4,
                    assignor_name="uniform",
                    members=[_modern(i, member, kind.Member) for i, member in enumerate(there)],
                )
            )
        return ConsumerGroupDescribeResponse(groups=groups)


def _modern(i: int, member: Member, kind: Any) -> Any:
    def assignment(topics: Mapping[str, Iterable[int]]) -> Any:
        each = kind.Assignment.TopicPartitions
        return kind.Assignment(
            topic_partitions=[
                each(topic_id=uuid.uuid4(), topic_name=name, partitions=list(numbers))
                for name, numbers in topics.items()
            ]
        )

    return kind(
        member_id=f"member-{i}",
        instance_id=None,
        rack_id=member.rack,
        member_epoch=4,
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=list(member.assigned),
        subscribed_topic_regex=None,
        assignment=assignment(member.assigned),
        target_assignment=assignment(member.target),
    )


def _subscription(member: Member) -> bytes:
    if member.subscription is not None:
        return member.subscription
    made = ConsumerProtocolSubscription(
        version=3 if member.rack else 1,
        topics=list(member.assigned),
        user_data=None,
        owned_partitions=[],
        **({"generation_id": 1, "rack_id": member.rack} if member.rack else {}),
    )
    return bytes(made.encode())


def _assignment(member: Member) -> bytes:
    kind = ConsumerProtocolAssignment.TopicPartition
    made = ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[
            kind(topic=name, partitions=list(numbers)) for name, numbers in member.assigned.items()
        ],
        user_data=None,
    )
    return bytes(made.encode())
