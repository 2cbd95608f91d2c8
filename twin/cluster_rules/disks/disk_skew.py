"""Brokers that hold far more than the even share of the local log, while others hold far less.

Kafka places replicas by number, not by size, and a broker that is added gets none of the old ones.
So disks fill unevenly: one is full while others are nearly empty, and only a reassignment helps.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import (
    UNKNOWN,
    ClusterTable,
    Float64,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.rules.partitions.leaders import Roles
from twin.tables.state import Assignment, Brokers, Replicas

MUCH: Final = 1.5
"""More than this times the even share is too much, if another broker has too little."""

LITTLE: Final = 0.5
"""Less than this times the even share is too little."""

LEAST_EVEN_SHARE_BYTES: Final = 10 << 30
"""A cluster with less on each broker has no skew that matters: a few segments of 1 GiB, Kafka's
default, make the difference, and no disk is near its end."""


class BrokerLogBytes(ShardReport, kind="broker_log_bytes"):
    """[K] bytes of local log of a shard's replicas, by broker, sorted by id."""

    broker: Int32 = column("broker id")
    local_log_bytes: Int64 = column("bytes of the replicas of known size", fill=0)
    unknown_replicas: Int64 = column("replicas of unknown size", fill=0)


@rule
def broker_log_bytes(
    assignment: Assignment, roles: Roles, replicas: Replicas, brokers: Brokers
) -> BrokerLogBytes:
    """The sums of assigned replicas; a broker that serves and has none holds nothing."""
    serves = brokers.listed & (brokers.fenced != 1)
    broker, size = assignment.broker[roles.is_assigned], replicas.local_log_bytes[roles.is_assigned]
    held_by, at = keys.distinct(broker)
    each = np.union1d(held_by, brokers.broker[serves]).astype(np.int32)
    at, is_known = keys.find_sorted(each, held_by)[at], size != UNKNOWN
    total = np.zeros(len(each), np.int64)
    np.add.at(total, at[is_known], size[is_known])
    return BrokerLogBytes(each, total, np.bincount(at[~is_known], minlength=len(each)))


class DiskShares(ClusterTable, kind="disk_shares"):
    """[K] how much local log each broker holds, sorted by id."""

    broker: Int32 = column("broker id")
    local_log_bytes: Int64 = column("bytes of its replicas; unknown if the size of one is")
    even_shares: Float64 = column(
        "these bytes over the mean of all brokers; NaN while a broker's are unknown", fill=np.nan
    )


@rule
def disk_shares(reported: BrokerLogBytes) -> DiskShares:
    """One broker of unknown size makes the mean unknown, and so every share."""
    broker, at = np.unique(reported.broker, return_inverse=True)
    total, unknown = np.zeros(len(broker), np.int64), np.zeros(len(broker), np.int64)
    np.add.at(total, at, reported.local_log_bytes)
    np.add.at(unknown, at, reported.unknown_replicas)
    is_known = not unknown.any() and total.any()
    shares = total * len(broker) / total.sum() if is_known else np.full(len(broker), np.nan)
    return DiskShares(broker, np.where(unknown > 0, UNKNOWN, total), shares)


@risk(
    "broker_disk_skewed",
    rank=165,
    severity="info",
    per="broker",
    # During a reassignment, a replica exists twice while it is being copied.
    open_after_ms=600_000,
    close_after_ms=60_000,
    sentence="it holds far more local log than the even share, while another holds far less",
    source="sizes of DescribeLogDirs",
    alert=Alert(
        summary="hold far more local log than others",
        description="{n} brokers of {cluster} hold more than 1.5 times the even share of the local "
        "log, while another holds less than half of it.",
        wait="10m",
        keep_firing_for="10m",
    ),
)
def is_skewed(shares: DiskShares) -> ByBroker:
    """Unknown while a size is unknown; never true while the cluster holds little data."""
    size, share = shares.local_log_bytes, shares.even_shares
    if (size == UNKNOWN).any():
        return ByBroker(shares.broker, np.full(len(size), UNKNOWN))
    is_much = (share > MUCH) & (share < LITTLE).any()
    matters = size.sum() >= LEAST_EVEN_SHARE_BYTES * len(size)
    return ByBroker(shares.broker, (is_much & matters).astype(np.int64))


@gauge(
    "local_log_even_share_ratio",
    "Bytes of local log of the broker over the mean of all brokers; no series while the size of a "
    "replica is unknown.",
    level="broker",
)
def local_log_even_share_ratio(shares: DiskShares) -> ByBroker:
    """The shares of brokers; an empty cluster has none."""
    return ByBroker(shares.broker, shares.even_shares, named_only=True)
