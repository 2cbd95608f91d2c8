"""Fake brokers with the API versions of older Kafkas, as their ApiVersions responses name them."""

from __future__ import annotations

from typing import Final

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest

from tests.collector.fake_broker import FakeBroker, FakeCluster

_HIGHEST: Final = {
    "2.8": {ListOffsetsRequest: 6, DescribeClusterRequest: 0, DescribeTopicPartitionsRequest: None},
    "3.3": {ListOffsetsRequest: 7, DescribeClusterRequest: 0, DescribeTopicPartitionsRequest: None},
    "3.6": {ListOffsetsRequest: 8, DescribeClusterRequest: 0, DescribeTopicPartitionsRequest: None},
    "3.7": {ListOffsetsRequest: 8, DescribeClusterRequest: 1, DescribeTopicPartitionsRequest: None},
    "3.9": {ListOffsetsRequest: 9, DescribeClusterRequest: 1, DescribeTopicPartitionsRequest: 0},
    "4.0": {ListOffsetsRequest: 10, DescribeClusterRequest: 2, DescribeTopicPartitionsRequest: 0},
}


def be_kafka(version: str, *brokers: FakeBroker) -> None:
    """Those brokers support what that version does, for connections made from now on."""
    for broker in brokers:
        broker.highest |= {api.API_KEY: most for api, most in _HIGHEST[version].items()}


def all_be_kafka(version: str, cluster: FakeCluster) -> None:
    """Every broker of the cluster supports what that version does."""
    be_kafka(version, *cluster.brokers.values())
