"""DescribeConfigs requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest

from streaming.collector.wire.connections import EncodedRequest

TOPIC: Final = 2
BROKER: Final = 4
"""Kafka's resource types."""

Resource = tuple[int, str, Sequence[str]]
"""Type, name and the keys that are read."""


def describe_configs(resources: Iterable[Resource], version: int, client_id: str) -> EncodedRequest:
    """One request for the settings of these resources."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
            for kind, name, keys in resources
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    return EncodedRequest.encode(request, version, client_id)
