"""Brokers that lead far more partitions than others, although others are preferred for them.

A restart moves leaders away, and nothing brings them back where auto.leader.rebalance.enable is
off: after a roll one broker may lead everything.

Source: ReplicationControlManager.maybeBalancePartitionLeaders, Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import (
    NO_BROKER,
    ClusterTable,
    Float64,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.tables.state import Assignment, Brokers, Partitions

MUCH: Final = 2.0
"""More than this times the even share of leaders: with three brokers two thirds of them."""

MUCH_OF_TWO: Final = 1.5
"""The same with two brokers, of which one cannot lead more than twice the even share."""

LEAST_NOT_PREFERRED: Final = 10
"""Partitions that would go back; with fewer the shares of a small cluster say nothing."""


class BrokerLeaders(ShardReport, kind="broker_leaders"):
    """[K] partitions that each broker leads, of a shard, sorted by id."""

    broker: Int32 = column("broker id")
    leaders: Int64 = column("partitions that it leads", fill=0)
    not_preferred: Int64 = column(
        "of these, partitions that another replica is preferred for", fill=0
    )


@rule
def broker_leaders(
    partitions: Partitions, assignment: Assignment, brokers: Brokers
) -> BrokerLeaders:
    """A broker that serves and leads nothing counts, too."""
    serves = brokers.broker[brokers.listed & (brokers.fenced != 1)]
    is_led = partitions.leader != NO_BROKER
    leader, preferred = partitions.leader[is_led], assignment.broker[is_led, 0]
    each = np.union1d(keys.distinct(leader)[0], serves).astype(np.int32)
    at, count = keys.find_sorted(each, leader), len(each)
    moved = at[leader != preferred]
    return BrokerLeaders(
        each, np.bincount(at, minlength=count), np.bincount(moved, minlength=count)
    )


class LeaderShares(ClusterTable, kind="leader_shares"):
    """[K] how many partitions each broker leads, sorted by id."""

    broker: Int32 = column("broker id")
    leaders: Int64 = column("partitions that it leads")
    not_preferred: Int64 = column("of these, partitions that another replica is preferred for")
    even_shares: Float64 = column("these leaders over the mean of all brokers", fill=np.nan)


@rule
def leader_shares(reported: BrokerLeaders) -> LeaderShares:
    """The sums of all shards."""
    broker, at = np.unique(reported.broker, return_inverse=True)
    leaders, moved = np.zeros(len(broker), np.int64), np.zeros(len(broker), np.int64)
    np.add.at(leaders, at, reported.leaders)
    np.add.at(moved, at, reported.not_preferred)
    shares = leaders * len(broker) / max(leaders.sum(), 1)
    return LeaderShares(broker, leaders, moved, shares)


@risk(
    "broker_leads_too_much",
    rank=156,
    severity="info",
    per="broker",
    # A roll takes leaders from each broker in turn, and balancing comes every five minutes.
    open_after_ms=900_000,
    close_after_ms=60_000,
    sentence="it leads far more partitions than others, which are preferred for many of them",
    source="ReplicationControlManager.maybeBalancePartitionLeaders, Kafka 4.3",
    alert=Alert(
        summary="lead far more partitions than others",
        description="{n} brokers of {cluster} have led more than twice the even share of "
        "partitions (of two brokers: three quarters) for a quarter of an hour, and others are "
        "preferred for many of them.",
        wait="5m",
        keep_firing_for="10m",
    ),
)
def leads_too_much(shares: LeaderShares) -> ByBroker:
    """It leads more than so many even shares, and some of it is preferred elsewhere."""
    much = MUCH_OF_TWO if len(shares.broker) == 2 else MUCH
    is_much = (shares.even_shares > much) & (shares.not_preferred >= LEAST_NOT_PREFERRED)
    return ByBroker(shares.broker, is_much.astype(np.int64))


@gauge(
    "leader_even_share_ratio",
    "Partitions that the broker leads over the mean of all brokers.",
    level="broker",
)
def leader_even_share_ratio(shares: LeaderShares) -> ByBroker:
    """The shares of brokers."""
    return ByBroker(shares.broker, shares.even_shares)
