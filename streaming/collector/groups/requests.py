"""Requests about groups.

kafka-python lacks ConsumerGroupDescribe (KIP-848), so this file encodes it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from streaming.collector.about import About, Acl, Needed
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version

CONSUMER_GROUP_DESCRIBE: Final = 69

OFFSETS_TOPIC: Final = "__consumer_offsets"

SEVERAL_GROUPS: Final = 8
"""First version of OffsetFetch that takes several groups (Kafka 3.0)."""

_OFFSET_FETCH_BY_NAME: Final = 9
"""Last version of OffsetFetch that has topic names; the next one has topic ids."""

_ALL_TOPICS: Final = 2
"""First version of OffsetFetch that can return all topics (Kafka 0.10.2)."""

_ONLY_METADATA_OF_NAMES: Final = 12

GROUPS: Final = About(
    "groups",
    "offsets and members of consumer groups that it does not cover",
    Acl("DESCRIBE", "group", option="collector.groups_interval_ms"),
    every="collector.groups_interval_ms",
    needs=(
        Needed(ListGroupsRequest, "Kafka 0.9"),
        Needed(DescribeGroupsRequest, "Kafka 0.9"),
        Needed(
            OffsetFetchRequest, "Kafka 0.10.2", lowest=_ALL_TOPICS, highest=_OFFSET_FETCH_BY_NAME
        ),
    ),
)


def list_groups(versions: Versions, client_id: str) -> EncodedRequest | None:
    """Request all groups that the broker coordinates; None if the broker is too old."""
    version = negotiate_version(versions, ListGroupsRequest)
    if version is None:
        return None
    return EncodedRequest.encode(ListGroupsRequest(), version, client_id)


def offsets_topic(versions: Versions, client_id: str) -> EncodedRequest | None:
    """Metadata of the topic whose leaders are the coordinators of all groups."""
    version = negotiate_version(versions, MetadataRequest, _ONLY_METADATA_OF_NAMES)
    if version is None:
        return None
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)],
        allow_auto_topic_creation=False,
    )
    return EncodedRequest.encode(request, version, client_id)


def offset_fetch_version(versions: Versions) -> int | None:
    """The version to use with a broker, None if it cannot return all topics."""
    version = negotiate_version(versions, OffsetFetchRequest, _OFFSET_FETCH_BY_NAME)
    return version if version is not None and version >= _ALL_TOPICS else None


def offset_fetch(groups: Sequence[str], version: int, client_id: str) -> EncodedRequest:
    """Request all committed offsets of these groups; of one group before version 8.

    The response lacks offsets of an open transaction: it has the offsets committed before. (With
    ``require_stable`` the broker would return an error; consumer tools do not set it either.)
    """
    if version >= SEVERAL_GROUPS:
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(
            groups=[group(group_id=name, topics=None) for name in groups], require_stable=False
        )
    else:
        [name] = groups
        request = OffsetFetchRequest(group_id=name, topics=None, require_stable=False)
    return EncodedRequest.encode(request, version, client_id)


def describe_groups_version(versions: Versions) -> int | None:
    """The version to use with a broker."""
    return negotiate_version(versions, DescribeGroupsRequest)


def describe_groups(groups: Sequence[str], version: int, client_id: str) -> EncodedRequest:
    """State and members of classic groups."""
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    return EncodedRequest.encode(request, version, client_id)


def consumer_group_describe_version(versions: Versions) -> int | None:
    """The version to use with a broker: 0, since the twin needs nothing of version 1."""
    low, _ = versions.get(CONSUMER_GROUP_DESCRIBE, (1, 1))
    return 0 if low == 0 else None


def consumer_group_describe(groups: Sequence[str], version: int, client_id: str) -> EncodedRequest:
    """State and members of groups of the consumer protocol (KIP-848)."""
    client = client_id.encode()
    header = struct.pack(">hhih", CONSUMER_GROUP_DESCRIBE, version, 0, len(client)) + client
    names = b"".join(_uvarint(len(name) + 1) + name for name in map(str.encode, groups))
    no_tags, no_operations = b"\0", b"\0"
    body = _uvarint(len(groups) + 1) + names + no_operations + no_tags
    encoded = header + no_tags + body
    framed = struct.pack(">i", len(encoded)) + encoded
    return EncodedRequest(CONSUMER_GROUP_DESCRIBE, version, framed, flexible=True, throttled=True)


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= _CONTINUES:
        encoded.append(value & ~_CONTINUES & 0xFF | _CONTINUES)
        value >>= 7
    return bytes([*encoded, value])


_CONTINUES: Final = 0x80
