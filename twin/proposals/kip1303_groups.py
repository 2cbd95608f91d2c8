"""Where groups of consumers would read if a leader were lost and KIP-1303 chose the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twin import plain
from twin.declare import ByBroker, adds_to, api_field, rule
from twin.proposals.kip1303 import NextLeadersKip1303
from twin.rules.group_answers import then_objects
from twin.rules.group_loss import (
    ReadsThen,
    led_by,
    reads_then,
    remote_bytes_by_broker,
    remote_seconds_by_broker,
)
from twin.rules.group_moves import GroupMoves
from twin.rules.group_reads import GroupReads, Servers
from twin.rules.growth import RecordSizes
from twin.signature import NowMs
from twin.table import Array, SparseTable
from twin.tables.state import (
    BrokerMetrics,
    GroupOffsets,
    Partitions,
)


class GroupsIfLeaderLostKip1303(
    ReadsThen, SparseTable, kind="group_if_leader_lost_kip1303",
    on_demand="a comparison of the next leader's stored offsets",
):  # fmt: skip
    """[N] where each group would read if its leader were lost and KIP-1303 chose the next one."""


@rule
def groups_if_leader_lost_kip1303(
    following: NextLeadersKip1303,
    moves: GroupMoves,
    reads: GroupReads,
    offsets: GroupOffsets,
    servers: Servers,
    partitions: Partitions,
    sizes: RecordSizes,
) -> GroupsIfLeaderLostKip1303:
    """The reads of each group if KIP-1303 chose the next leader."""
    rack = servers.reader_racks(offsets)
    led = led_by(following.leader, servers.roles.is_leader, servers, partitions)
    return GroupsIfLeaderLostKip1303(*reads_then(led, moves, reads, rack, sizes))


@adds_to("kafka_twin_group_if_leader_lost_remote_records")
@adds_to("kafka_twin_group_topic_if_leader_lost_remote_records")
@adds_to("kafka_twin_group_partition_if_leader_lost_remote_records")
def if_leader_lost_remote_records(then: GroupsIfLeaderLostKip1303) -> Mapping[tuple[str], Array]:
    """The remote records of each group by the rule of KIP-1303."""
    return {("kip1303",): then.remote_records}


@adds_to("kafka_twin_group_if_leader_lost_remote_bytes")
@adds_to("kafka_twin_group_topic_if_leader_lost_remote_bytes")
@adds_to("kafka_twin_group_partition_if_leader_lost_remote_bytes")
def if_leader_lost_remote_bytes(then: GroupsIfLeaderLostKip1303) -> Mapping[tuple[str], Array]:
    """The remote bytes of each group by the rule of KIP-1303."""
    return {("kip1303",): np.rint(then.remote_bytes)}


@adds_to("kafka_twin_broker_loss_remote_read_bytes")
def loss_remote_read_bytes(
    then: GroupsIfLeaderLostKip1303, partitions: Partitions
) -> Mapping[tuple[str], ByBroker]:
    """The remote bytes by lost broker, by the rule of KIP-1303."""
    return {("kip1303",): remote_bytes_by_broker(then, then.row, partitions)}


@adds_to("kafka_twin_broker_loss_remote_read_seconds")
def loss_remote_read_seconds(
    then: GroupsIfLeaderLostKip1303, partitions: Partitions, metrics: BrokerMetrics, now_ms: NowMs
) -> Mapping[tuple[str], ByBroker]:
    """The seconds of these reads by lost broker, by the rule of KIP-1303."""
    return {("kip1303",): remote_seconds_by_broker(then, then.row, partitions, metrics, now_ms)}


@api_field(
    "groups_kip1303",
    "for each entry of `groups`, in the same order: `if_leader_lost` by the rule of KIP-1303, with "
    "`broker`, `reads_from`, `remote_records` and `remote_bytes`",
)
def groups_kip1303(
    partitions: Partitions, then: GroupsIfLeaderLostKip1303
) -> list[list[dict[str, Any]]]:
    """A list of groups for each partition."""
    objects = ({"if_leader_lost": each} for each in then_objects(then))
    return plain.by_partition(then.row, objects, len(partitions.leader))
