"""Requests that list the cluster, and what their responses say of its brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import MetadataRequest

from streaming.collector.wire.connections import (
    Address,
    EncodedRequest,
)
from streaming.runtime.kafka.messages import ByteReader
from twin.declarations.table import UNKNOWN

_METADATA_FLEXIBLE: Final = 9

_WITH_FENCED: Final = 2
"""First version of DescribeCluster that lists fenced brokers (Kafka 4.0)."""


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker that is registered with the controller, or may be if it is not listed."""

    address: Address
    fenced: int  # tri-state
    listed: bool = True


def controller_at(body: bytes, version: int) -> int:
    """Position of the controller id; the end of the body in versions that are rarely used."""
    if version < _METADATA_FLEXIBLE:
        return len(body)
    cursor = ByteReader(body, 4)
    for _ in range(cursor.count()):
        cursor.skip(4)
        cursor.text()  # host
        cursor.skip(4)
        cursor.text()  # rack
        cursor.skip_tagged_fields()
    cursor.text()  # cluster id
    return cursor.at


def listing_requests(
    metadata: int | None, cluster: int | None, client_id: str
) -> list[EncodedRequest]:
    if metadata is None:
        return []
    everything = MetadataRequest(
        topics=MetadataRequest.ALL_TOPICS,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    requests = [EncodedRequest.encode(everything, metadata, client_id)]
    if cluster is not None:
        with_fenced = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=True,
        )
        requests.append(EncodedRequest.encode(with_fenced, cluster, client_id))
    return requests


def registered_brokers(
    alive: Sequence[Address], described: bytes | None, version: int | None
) -> tuple[tuple[RegisteredBroker, ...], bool]:
    """The live brokers, also fenced ones since Kafka 4.0; and whether these are listed."""
    registered = {a.broker: RegisteredBroker(a, UNKNOWN) for a in alive}
    lists_fenced = False
    if described is not None and version is not None:
        response = DescribeClusterResponse.decode(described, version=version)
        lists_fenced = version >= _WITH_FENCED and response.error_code == 0
        for b in response.brokers if response.error_code == 0 else ():
            fenced = int(b.is_fenced) if lists_fenced else UNKNOWN
            address = Address(b.broker_id, b.host, b.port, b.rack or "")
            registered[b.broker_id] = RegisteredBroker(address, fenced)
    return tuple(registered[b] for b in sorted(registered)), lists_fenced
