"""Brokers that are registered and fenced, and hold no replica.

A broker that was scaled away stays registered until somebody unregisters it: Kafka never does so by
itself. It serves nothing and nothing waits for it, so it is no reason against anything, and nobody
is paged for it. It is said once, with the command that ends it.

Source: ClusterControlManager.unregisterBroker, Kafka 4.3; KIP-631.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import Alert, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import Bool, ClusterTable, Int32, ShardReport, column
from twin.rules.partitions.leaders import Roles, assigned_brokers
from twin.tables.state import Assignment, Brokers


class BrokerRegistrations(ShardReport, kind="broker_registrations"):
    """[K] whether each broker is fenced, and holds replicas of the shard, sorted by id."""

    broker: Int32 = column("broker id")
    is_fenced: Bool = column("the cluster lists it as fenced", fill=False)
    holds: Bool = column("a replica of the shard is assigned to it", fill=False)


@rule
def broker_registrations(
    brokers: Brokers, assignment: Assignment, roles: Roles
) -> BrokerRegistrations:
    """The brokers of the newest cycle."""
    holds = np.isin(brokers.broker, assigned_brokers(assignment, roles))
    return BrokerRegistrations(brokers.broker, brokers.listed & (brokers.fenced == 1), holds)


class LeftOverBrokers(ClusterTable, kind="left_over_brokers"):
    """[K] whether each broker is only registered, sorted by id."""

    broker: Int32 = column("broker id")
    is_left_over: Bool = column("it is fenced, and no replica is assigned to it", fill=False)


@rule
def left_over_brokers(reported: BrokerRegistrations) -> LeftOverBrokers:
    """It is fenced by all reports, and holds a replica of no shard."""
    broker, at = np.unique(reported.broker, return_inverse=True)
    is_left_over = np.ones(len(broker), bool)
    np.logical_and.at(is_left_over, at, reported.is_fenced & ~reported.holds)
    return LeftOverBrokers(broker, is_left_over)


@risk(
    "broker_left_over",
    rank=168,
    severity="info",
    per="broker",
    # One that is new, or is started again, is fenced until it has read the metadata.
    open_after_ms=600_000,
    sentence="it is registered and fenced, and holds no replica: if it does not come back, "
    "unregister it",
    source="DescribeCluster; KIP-631",
    alert=Alert(
        summary="are registered and fenced, and hold no replica",
        description="{n} brokers of {cluster} are registered and fenced, and hold no replica. "
        "Nothing waits for them. One that does not come back is removed by kafka-cluster.sh "
        "unregister --bootstrap-server BOOTSTRAP --id N.",
        wait="10m",
        keep_firing_for="10m",
    ),
)
def is_left_over(brokers: LeftOverBrokers) -> ByBroker:
    """Before Kafka 4.0 no request lists fenced brokers, so there is none."""
    return ByBroker(brokers.broker, brokers.is_left_over.astype(np.int64))
