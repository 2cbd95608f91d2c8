"""A round of groups: 1 000 groups with 100 committed offsets each, on the brokers of a bench.

Beside it the same the plain way: each request built, and each answer decoded by kafka-python's
codec. The groups have no members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.errors import CoordinatorNotAvailableError
from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

from streaming.collector.groups import requests as group_requests
from streaming.collector.groups.committed import decoded
from streaming.collector.groups.coordinators import RequestLimits
from streaming.collector.groups.round import GroupRound
from streaming.collector.sources import groups
from streaming.collector.wire.connections import (
    Address,
    BrokerConnections,
    EncodedRequest,
    Versions,
)
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from tests.bench import figure
from tests.waiting import until

GROUPS, PARTITIONS = 1_000, 100
AT_ONCE = RequestLimits().groups

Medians = Callable[[Callable[[], object]], tuple[float, float]]
"""Wall and CPU seconds of several calls."""


def measure(
    config: Config,
    brokers: Sequence[Address],
    partitions: Sequence[TopicPartition],
    medians: Medians,
) -> None:
    """Commit the offsets, then print the medians of rounds."""
    assert len(partitions) == PARTITIONS
    deadline_ms = config.collector.deadline_ms
    with (
        KafkaAdminClient(bootstrap_servers=config.cluster.bootstrap) as admin,
        groups.GroupSource(config, "bench", background=False) as source,
        BrokerConnections(config.cluster.bootstrap, {}, deadline_ms) as connections,
    ):
        _commit(admin, partitions)
        source.update_metadata(brokers)

        def read() -> GroupRound:
            source.read_now()
            round_ = source.take()
            assert round_ is not None
            assert source.problems == (), source.problems
            return round_

        round_ = read()
        assert len(round_.offsets) >= GROUPS * PARTITIONS
        about = {"groups": GROUPS, "offsets": len(round_.offsets)}
        kept = medians(read)
        figure("collector_groups_seconds", kept[0], "s", **about)
        figure("collector_groups_cpu_seconds", kept[1], "s", **about)
        coordinators = dict(zip(round_.group, round_.coordinator.tolist(), strict=True))
        plain = medians(lambda: _plainly(connections, coordinators, deadline_ms))
        figure("collector_groups_cpu_ratio_to_plain", plain[1] / kept[1], "x", **about)


def _commit(admin: KafkaAdminClient, partitions: Sequence[TopicPartition]) -> None:
    def committed(number: int) -> bool:
        offsets = {at: OffsetAndMetadata(number % 3, "", -1) for at in partitions}
        try:
            results = admin.alter_group_offsets(f"group-{number:04d}", offsets)
        except CoordinatorNotAvailableError:  # the topic of groups is created with the first one
            return False
        return not any(error.errno for error in results.values())  # a coordinator may be loading

    for number in range(GROUPS):
        until(partial(committed, number), 60, f"group {number} has no coordinator")


def _plainly(connections: BrokerConnections, coordinators: dict[str, int], deadline_ms: int) -> int:
    """The same offsets and members; returns how many offsets were read."""
    batches = {
        broker: [
            names[start : start + AT_ONCE]
            for names in [[n for n, at in coordinators.items() if at == broker]]
            for start in range(0, len(names), AT_ONCE)
        ]
        for broker in set(coordinators.values())
    }

    def make(broker: int, versions: Versions) -> list[EncodedRequest]:
        version = group_requests.offset_fetch_version(versions)
        assert version is not None
        describe = versions[DescribeGroupsRequest.API_KEY][1]
        return [
            request
            for names in batches[broker]
            for request in (
                group_requests.offset_fetch(names, version, "bench"),
                group_requests.describe_groups(names, describe, "bench"),
            )
        ]

    count = 0
    deadline = Deadline.after_ms(deadline_ms)
    for broker, response in connections.ask(sorted(batches), make, deadline).items():
        for i, body in enumerate(response.bodies):
            if i % 2:
                DescribeGroupsResponse.decode(body, version=_DESCRIBE)
            else:
                count += len(decoded(body or b"", _OFFSET_FETCH, batches[broker][i // 2]).offset)
    assert count >= GROUPS * PARTITIONS
    return count


_OFFSET_FETCH, _DESCRIBE = 9, 6
"""Versions of Kafka 4.3."""
