"""Where groups of consumers would read if the leader of their partition were lost.

The next leader may hold less on its disk than the present one: what it lacks consumers read from
remote storage. Which replica that is follows from the election rule; ``twin.proposals`` has the
answer by KIP-1303's.

Source: KIP-1303, motivation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from twin.declare import ByBroker, gauge, group_gauge, rule
from twin.rules.group_moves import GroupMoves
from twin.rules.group_reads import GroupReads, ReadsFrom, Servers, racks_of_readers
from twin.rules.growth import RecordSizes
from twin.rules.leaders import Roles
from twin.rules.next_leader import NextLeaders
from twin.rules.selection import SelectorViews, leader_selectors
from twin.rules.topic_configs import TopicConfigs
from twin.signature import Lazy
from twin.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int8,
    Int32,
    Int64,
    SparseTable,
    Table,
    column,
)
from twin.tables.state import (
    Assignment,
    Brokers,
    GroupOffsets,
    Partitions,
    ReaderRacks,
    Replicas,
)


class ReadsThen(Table):
    """Where groups would read."""

    broker: Int32 = column("broker that would serve it", fill=NO_BROKER)
    reads_from: Int8 = column("where its next records would come from", enum=ReadsFrom)
    remote_records: Int64 = column("records that it would read from remote storage")
    remote_bytes: Float64 = column(
        "size of these, at the mean size of the leader's records; NaN if unknown",
        fill=float("nan"),
    )
    more_remote_bytes: Float64 = column(
        "of these, what it does not read from remote storage anyway", fill=float("nan")
    )


class GroupsIfLeaderLost(
    ReadsThen, SparseTable, kind="group_if_leader_lost",
    on_demand="a comparison of the next leader's stored offsets",
):  # fmt: skip
    """[N] where each group would read if its leader were lost, in the order of ``group_offsets``.

    The next leader is the one by Kafka's rule.
    """


@rule
def groups_if_leader_lost(
    following: NextLeaders,
    moves: GroupMoves,
    reads: GroupReads,
    offsets: GroupOffsets,
    reader_racks: ReaderRacks,
    assignment: Assignment,
    partitions: Partitions,
    replicas: Replicas,
    roles: Roles,
    brokers: Brokers,
    configs: TopicConfigs,
    sizes: RecordSizes,
    views: Lazy[SelectorViews],
) -> GroupsIfLeaderLost:
    """By the present offsets of the replicas that are left."""
    rack = racks_of_readers(offsets, reader_racks, brokers)
    servers = Servers(assignment, replicas, roles, configs, views)
    led = led_by(following.leader, roles.is_leader, servers, partitions, brokers)
    return GroupsIfLeaderLost(*reads_then(led, moves, reads, rack, sizes))


@dataclass(frozen=True, slots=True)
class Led:
    """Servers under other leaders: [P] slot and selector of these."""

    servers: Servers
    slot: Array
    selector: Int8


def led_by(
    leader: Int32, gone: Bool, servers: Servers, partitions: Partitions, brokers: Brokers
) -> Led:
    """The servers with these leaders [P], and without the replicas that are gone [P, R]."""
    roles = servers.roles
    leads = (servers.assignment.broker == leader[:, None]) & (leader != NO_BROKER)[:, None]
    stays = roles.is_assigned & (~gone | leads)
    left = replace(roles, is_leader=leads, is_assigned=stays)
    slot = np.where(leads.any(axis=1), leads.argmax(axis=1), UNKNOWN)
    kind = leader_selectors(replace(partitions, leader=leader), brokers).replica_selector
    return Led(replace(servers, roles=left), slot, kind)


def reads_then(
    led: Led, moves: GroupMoves, reads: GroupReads, rack: Int64, sizes: RecordSizes
) -> tuple[Array, ...]:
    """The columns of ``ReadsThen``, and that of the rows before them."""
    reads_from, records = led.servers.read(moves, led.slot, led.selector, rack)
    broker = led.servers.brokers(moves, led.slot, led.selector, rack)
    known_now = np.maximum(reads.remote_records, 0)
    more = np.where(records == UNKNOWN, UNKNOWN, np.maximum(records - known_now, 0))
    size = sizes.bytes_per_record[moves.row]
    in_bytes = (_in_bytes(each, size) for each in (records, more))
    return moves.row, broker, reads_from, records, *in_bytes


def _in_bytes(records: Array, size: Float64) -> Float64:
    return np.where(records == UNKNOWN, np.nan, np.where(records == 0, 0.0, records * size))


def remote_bytes_by_broker(then: ReadsThen, row: Array, partitions: Partitions) -> ByBroker:
    """By the leader that would be lost; rows of unknown size are left out."""
    leader = partitions.leader[row]
    is_counted = ~np.isnan(then.more_remote_bytes) & (leader != NO_BROKER)
    values = np.rint(then.more_remote_bytes[is_counted]).astype(np.int64)
    return ByBroker(leader[is_counted], values)


# ---------------------------------------------------------------- exported


@group_gauge(
    "if_leader_lost_remote_records",
    "Records that {of} would read from remote storage if the leader were lost, by election rule.",
    labels=("rule",),
)
def if_leader_lost_remote_records(then: GroupsIfLeaderLost) -> Mapping[tuple[str], Array]:
    """By Kafka's rule."""
    return {("kafka",): then.remote_records}


@group_gauge(
    "if_leader_lost_remote_bytes",
    "Estimated bytes that {of} would read from remote storage if the leader were lost, by election "
    "rule.",
    labels=("rule",),
)
def if_leader_lost_remote_bytes(then: GroupsIfLeaderLost) -> Mapping[tuple[str], Array]:
    """By Kafka's rule."""
    return {("kafka",): np.rint(then.remote_bytes)}


@gauge(
    "loss_remote_read_bytes",
    "Estimated bytes that groups of consumers would read from remote storage, and do not now, if "
    "the broker were lost, by election rule.",
    level="broker",
    labels=("rule",),
)
def loss_remote_read_bytes(
    then: GroupsIfLeaderLost, partitions: Partitions
) -> Mapping[tuple[str], ByBroker]:
    """By Kafka's rule."""
    return {("kafka",): remote_bytes_by_broker(then, then.row, partitions)}
