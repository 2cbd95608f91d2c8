"""A controller quorum that does not answer: nobody is fenced or elected until it does.

Brokers forward DescribeQuorum to the active controller. While no controller is active, which is so
when a majority of the voters is lost, brokers go on serving with the leaders that they know.

Source: ForwardingManager and KafkaRaftClient, Kafka 4.3; KIP-595.
"""

from __future__ import annotations

import numpy as np

from twin.cluster_rules.silent_brokers import SilentBrokers
from twin.declarations.declare import Alert, risk, rule
from twin.declarations.signature import Cycle
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    ClusterTable,
    Int64,
    ShardReport,
    column,
)
from twin.tables.state import ControllerQuorum


class QuorumAnswers(ShardReport, kind="quorum_answers"):
    """[1] whether the quorum answered the newest cycle; no row in shards that do not know it."""

    silent_since_ms: Int64 = column("its last answer; unknown while it answers")


@rule
def quorum_answers(quorum: ControllerQuorum, cycle: Cycle) -> QuorumAnswers:
    """No row without a quorum: before it is known, and with ZooKeeper."""
    at_ms = quorum.observed_at_ms[quorum.node != NO_BROKER][:1]
    return QuorumAnswers(np.where(at_ms < cycle.observed_at_ms, at_ms, UNKNOWN))


class SilentQuorum(ClusterTable, kind="silent_quorum"):
    """[1] since when the quorum is silent; no row while it is not known."""

    silent_since_ms: Int64 = column("its last answer; unknown while it answers")


@rule
def silent_quorum(reported: QuorumAnswers) -> SilentQuorum:
    """One shard knows the quorum."""
    return SilentQuorum(reported.silent_since_ms[:1])


@risk(
    "quorum_lost",
    rank=6,
    severity="page",
    per="cluster",
    # The election of another controller takes a few seconds.
    open_after_ms=15_000,
    sentence="no controller answers: nobody is fenced or elected until one does",
    source="DescribeQuorum; KIP-595",
    alert=Alert(
        summary="has no active controller",
        description="Brokers of {cluster} answer, and its controller quorum does not. No broker is "
        "fenced and no leader is elected until a majority of the voters is back: partitions whose "
        "leader is lost stay without one.",
        wait="0s",
        keep_firing_for="1m",
    ),
)
def is_quorum_lost(quorum: SilentQuorum, brokers: SilentBrokers) -> int:
    """Unknown while no broker answers, since brokers ask the controllers for the twin."""
    if not len(quorum.silent_since_ms) or (brokers.silent_since_ms != UNKNOWN).all():
        return UNKNOWN
    return int((quorum.silent_since_ms != UNKNOWN).any())
