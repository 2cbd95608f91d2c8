"""Fake brokers with the API versions of older Kafkas, as their ApiVersions responses name them."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.producer import ProduceRequest

from tests.collector.fake_broker import FakeBroker, FakeCluster
from tests.collector.fake_groups import ConsumerGroupDescribeRequest


def _highest(
    produce: int,
    fetch: int,
    list_offsets: int,
    log_dirs: int,
    cluster: int,
    topic_partitions: int | None,
    groups: dict[Any, int | None],
) -> dict[Any, int | None]:
    return {
        ProduceRequest: produce,
        FetchRequest: fetch,
        ListOffsetsRequest: list_offsets,
        DescribeLogDirsRequest: log_dirs,
        DescribeClusterRequest: cluster,
        DescribeTopicPartitionsRequest: topic_partitions,
        **groups,
    }


def _groups(
    list_groups: int, offset_fetch: int, describe_groups: int, consumer: int | None
) -> dict[Any, int | None]:
    return {
        ListGroupsRequest: list_groups,
        OffsetFetchRequest: offset_fetch,
        DescribeGroupsRequest: describe_groups,
        ConsumerGroupDescribeRequest: consumer,
    }


_HIGHEST: Final = {
    "2.3": _highest(7, 11, 5, 1, 0, None, _groups(2, 5, 3, None)),
    "2.8": _highest(9, 12, 6, 2, 0, None, _groups(4, 7, 5, None)),
    "3.3": _highest(9, 13, 7, 4, 0, None, _groups(4, 8, 5, None)),
    "3.6": _highest(9, 15, 8, 4, 0, None, _groups(4, 8, 5, None)),
    "3.7": _highest(10, 16, 8, 4, 1, None, _groups(4, 9, 5, None)),
    "3.9": _highest(11, 17, 9, 4, 1, 0, _groups(5, 9, 5, 0)),
    "4.0": _highest(12, 17, 10, 4, 2, 0, _groups(5, 9, 6, 1)),
}


def be_kafka(version: str, *brokers: FakeBroker) -> None:
    """Let those brokers support what that version does, on connections made from now on."""
    for broker in brokers:
        broker.highest |= {api.API_KEY: most for api, most in _HIGHEST[version].items()}


def all_be_kafka(version: str, cluster: FakeCluster) -> None:
    """Every broker of the cluster supports what that version does."""
    be_kafka(version, *cluster.brokers.values())
