"""Brokers that do not answer the twin, and the cluster when none does.

A broker that was stopped on purpose does not answer either. A shard without a topic knows the
brokers too, so every shard reports them.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import Alert, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import UNKNOWN, Bool, ClusterTable, Int32, Int64, ShardReport, column
from twin.rules.partitions.leaders import Roles, assigned_brokers
from twin.tables.state import Assignment, Brokers


class BrokerAnswers(ShardReport, kind="broker_answers"):
    """[K] whether each broker answered the newest cycle, sorted by id."""

    broker: Int32 = column("broker id")
    silent_since_ms: Int64 = column("its last answer; unknown while it answers")
    is_expected: Bool = column(
        "the cluster lists it and has not fenced it, or a replica is assigned to it", fill=False
    )


@rule
def broker_answers(brokers: Brokers, assignment: Assignment, roles: Roles) -> BrokerAnswers:
    """The brokers of the newest cycle."""
    holds = np.isin(brokers.broker, assigned_brokers(assignment, roles))
    since = np.where(brokers.answered, UNKNOWN, np.maximum(brokers.answered_at_ms, 0))
    serves = brokers.listed & (brokers.fenced != 1)
    return BrokerAnswers(brokers.broker, since, serves | holds)


class SilentBrokers(ClusterTable, kind="silent_brokers"):
    """[K] since when each broker is silent, sorted by id."""

    broker: Int32 = column("broker id")
    silent_since_ms: Int64 = column("its last answer, 0 if it never did; unknown if it answers")


@rule
def silent_brokers(reported: BrokerAnswers) -> SilentBrokers:
    """A broker answers if one shard says so: the report of another may be of an earlier cycle."""
    broker, at = np.unique(reported.broker, return_inverse=True)
    since = np.full(len(broker), np.iinfo(np.int64).max)
    np.minimum.at(since, at, reported.silent_since_ms)
    is_expected = np.zeros(len(broker), bool)
    np.logical_or.at(is_expected, at, reported.is_expected)
    return SilentBrokers(broker[is_expected], since[is_expected])


@risk(
    "cluster_silent",
    rank=5,
    severity="page",
    per="cluster",
    open_after_ms=10_000,
    sentence="no broker answers",
    source="answers of brokers",
    alert=Alert(
        summary="does not answer: none of its brokers does",
        description="No broker of {cluster} answers the twin. All that is shown of the cluster is "
        "how it was before.",
        wait="0s",
        keep_firing_for="1m",
    ),
)
def is_cluster_silent(silent: SilentBrokers) -> int:
    """Unknown before any broker is known."""
    if not len(silent.broker):
        return UNKNOWN
    return int((silent.silent_since_ms != UNKNOWN).all())


@risk(
    "broker_silent",
    rank=45,
    severity="warn",
    per="broker",
    # A restart in good order takes a broker away for about as long.
    open_after_ms=60_000,
    sentence="it does not answer",
    source="answers of brokers",
    alert=Alert(
        summary="do not answer",
        description="{n} brokers of {cluster} have not answered the twin for a minute.",
        wait="0s",
        keep_firing_for="1m",
    ),
)
def is_silent(silent: SilentBrokers) -> ByBroker:
    """One that is fenced, or no longer listed, and that holds no replica, is not expected."""
    return ByBroker(silent.broker, (silent.silent_since_ms != UNKNOWN).astype(np.int64))
