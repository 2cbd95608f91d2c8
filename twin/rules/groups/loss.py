"""Where groups of consumers would read if the leader of their partition were lost.

The next leader may hold less on its disk than the present one; consumers read the rest from remote
storage. The election rule decides which replica leads next.

Source: KIP-1303, motivation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import gauge, group_gauge, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import EachRule, NowMs
from twin.declarations.table import (
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
from twin.rules.election.after_loss import LeadersAfterLoss
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom, Servers
from twin.rules.partitions.growth import RecordSizes
from twin.rules.reading.selection import leader_selectors
from twin.tables.state import BrokerMetrics, GroupOffsets, Partitions

READER_THREADS: Final = 10
"""Default of remote.log.reader.threads. A consumer waits for one read at a time."""


class ReadsThen(Table):
    """The reads of groups after a change of leaders."""

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
    on_demand="a comparison of the next leader's stored offsets", by_election_rule=True,
):  # fmt: skip
    """[N] where each group would read if its leader were lost, by row of ``group_offsets``."""


@rule
def groups_if_leader_lost(
    after: LeadersAfterLoss,
    moves: GroupMoves,
    reads: GroupReads,
    offsets: GroupOffsets,
    servers: Servers,
    partitions: Partitions,
    sizes: RecordSizes,
) -> GroupsIfLeaderLost:
    """The reads of each group by the present offsets of the replicas that are left."""
    rack = servers.reader_racks(offsets)
    after_loss = servers_after_loss(after.leader, servers.roles.is_leader, servers, partitions)
    return GroupsIfLeaderLost(*reads_then(after_loss, moves, reads, rack, sizes))


@dataclass(frozen=True, slots=True)
class ServersAfterLoss:
    """Servers of groups under other leaders: [P] slot and selector of these leaders."""

    servers: Servers
    slot: Array
    selector: Int8


def servers_after_loss(
    leader: Int32, gone: Bool, servers: Servers, partitions: Partitions
) -> ServersAfterLoss:
    """The servers with these leaders [P], and without the replicas that are gone [P, R]."""
    roles = servers.roles
    leads = (servers.assignment.broker == leader[:, None]) & (leader != NO_BROKER)[:, None]
    stays = roles.is_assigned & (~gone | leads)
    left = replace(roles, is_leader=leads, is_assigned=stays)
    slot = np.where(leads.any(axis=1), leads.argmax(axis=1), UNKNOWN)
    selectors = leader_selectors(replace(partitions, leader=leader), servers.brokers)
    return ServersAfterLoss(replace(servers, roles=left), slot, selectors.replica_selector)


def reads_then(
    after_loss: ServersAfterLoss,
    moves: GroupMoves,
    reads: GroupReads,
    rack: Int64,
    sizes: RecordSizes,
) -> tuple[Array, ...]:
    """What groups would read after the loss: their rows, then each column of ``ReadsThen``."""
    reads_from, records = after_loss.servers.read(moves, after_loss.slot, after_loss.selector, rack)
    ahead = after_loss.servers.ahead_then(moves, after_loss.slot)
    reads_from = np.where(ahead, np.int8(ReadsFrom.AHEAD), reads_from)
    records = np.where(ahead, UNKNOWN, records)
    broker = after_loss.servers.serving(moves, after_loss.slot, after_loss.selector, rack)
    known_now = np.maximum(reads.remote_records, 0)
    more = np.where(records == UNKNOWN, UNKNOWN, np.maximum(records - known_now, 0))
    size = sizes.bytes_per_record[moves.row]
    in_bytes = (_in_bytes(each, size) for each in (records, more))
    return moves.row, broker, reads_from, records, *in_bytes


def _in_bytes(records: Array, size: Float64) -> Float64:
    return np.where(records == UNKNOWN, np.nan, np.where(records == 0, 0.0, records * size))


def remote_bytes_by_broker(then: ReadsThen, row: Array, partitions: Partitions) -> ByBroker:
    """The bytes by the leader that would be lost; rows of unknown size are left out."""
    leader = partitions.leader[row]
    is_counted = ~np.isnan(then.more_remote_bytes) & (leader != NO_BROKER)
    values = np.rint(then.more_remote_bytes[is_counted]).astype(np.int64)
    return ByBroker(leader[is_counted], values)


def remote_seconds_by_broker(
    then: ReadsThen, row: Array, partitions: Partitions, metrics: BrokerMetrics, now_ms: int
) -> ByBroker:
    """The time until the slowest successor has read the bytes, by the leader that would be lost.

    The time and the bytes of a read are those that the successor's broker measures now, or the
    mean of all brokers if it reads nothing. NaN if there are bytes to read and no broker reads.
    """
    leader, size = partitions.leader[row], then.more_remote_bytes
    is_counted = (size > 0) & (leader != NO_BROKER) & (then.broker != NO_BROKER)
    both, place = np.unique(
        keys.pack(leader[is_counted], then.broker[is_counted]), return_inverse=True
    )
    lost_leader, reader = keys.unpack(both)
    readers = np.minimum(np.bincount(place, minlength=len(both)), READER_THREADS)
    bytes_per_s = _bytes_per_s(metrics, reader, now_ms) * readers
    seconds = np.bincount(place, size[is_counted], len(both)) / bytes_per_s
    slowest: dict[int, float] = {}
    for broker, each in zip(lost_leader.tolist(), seconds.tolist(), strict=True):
        slowest[broker] = float(np.maximum(slowest.get(broker, 0.0), each))  # NaN stays
    return ByBroker(np.array(list(slowest), np.int64), np.array(list(slowest.values()), float))


def _bytes_per_s(metrics: BrokerMetrics, reader: Int32, now_ms: int) -> Float64:
    """[N] what one thread of those brokers reads; the mean of all where one reads nothing."""

    def of_all(name: str) -> Float64:
        return metrics.of_brokers(metrics.broker, name, now_ms)

    read_ms, reads = of_all("remote_read_mean_ms"), of_all("remote_fetch_requests_per_s")
    measured = (read_ms > 0) & (reads > 0)
    rate = np.full(len(measured), np.nan)
    fetched = of_all("remote_fetch_bytes_per_s")[measured]
    rate[measured] = fetched / reads[measured] / read_ms[measured] * 1_000
    mean = rate[measured].mean() if measured.any() else np.nan
    place = keys.find(metrics.broker.astype(np.int64), reader.astype(np.int64))
    own = np.append(rate, np.nan)[place]
    return np.where(np.isnan(own), mean, own)


# ---------------------------------------------------------------- exported


@group_gauge(
    "if_leader_lost_remote_records",
    "Records that {group} would read from remote storage if the leader were lost, by election "
    "rule.",
    labels=("rule",),
)
def if_leader_lost_remote_records(
    then: EachRule[GroupsIfLeaderLost],
) -> Mapping[tuple[str], Array]:
    """The remote records of each group by election rule."""
    return {(name,): each.remote_records for name, each in then.items()}


@group_gauge(
    "if_leader_lost_remote_bytes",
    "Estimated bytes that {group} would read from remote storage if the leader were lost, by "
    "election rule.",
    labels=("rule",),
)
def if_leader_lost_remote_bytes(then: EachRule[GroupsIfLeaderLost]) -> Mapping[tuple[str], Array]:
    """The remote bytes of each group by election rule."""
    return {(name,): np.rint(each.remote_bytes) for name, each in then.items()}


@gauge(
    "loss_remote_read_bytes",
    "Estimated bytes that groups of consumers would read from remote storage, and do not now, if "
    "the broker were lost, by election rule.",
    level="broker",
    labels=("rule",),
)
def loss_remote_read_bytes(
    then: EachRule[GroupsIfLeaderLost], partitions: Partitions
) -> Mapping[tuple[str], ByBroker]:
    """The remote bytes by lost broker, by election rule."""
    return {
        (name,): remote_bytes_by_broker(each, each.row, partitions) for name, each in then.items()
    }


@gauge(
    "loss_remote_read_seconds",
    "Seconds that groups of consumers would take to read broker_loss_remote_read_bytes, by "
    "election rule, at the time that reads take now and with Kafka's default of 10 "
    "remote.log.reader.threads; no series where bytes are to be read and no broker measures reads.",
    level="broker",
    labels=("rule",),
)
def loss_remote_read_seconds(
    then: EachRule[GroupsIfLeaderLost],
    partitions: Partitions,
    metrics: BrokerMetrics,
    now_ms: NowMs,
) -> Mapping[tuple[str], ByBroker]:
    """The seconds of these reads by lost broker, by election rule."""
    return {
        (name,): remote_seconds_by_broker(each, each.row, partitions, metrics, now_ms)
        for name, each in then.items()
    }
