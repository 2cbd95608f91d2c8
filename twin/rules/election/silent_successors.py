"""Next leaders that do not answer.

Kafka elects a replica in sync as long as its broker is not fenced, which takes a session (9 s by
default), and elects again once it is. While the controllers have no majority nobody is fenced. So
of a next leader that has not answered for a while it is said since when, and who leads once it is
fenced as well.

Source: ReplicationControlManager.LeaderAcceptor and handleBrokerFenced, Kafka 4.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.declarations.declare import api_field, gauge, rule
from twin.declarations.signature import Cycle
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Int8,
    Int32,
    Int64,
    SparseTable,
    column,
)
from twin.kafka.election import Outcome
from twin.rules.brokers.brokers import is_silent
from twin.rules.election.after_loss import LeadersAfterLoss
from twin.rules.election.next_leader import NextLeaders
from twin.tables.state import Brokers, Partitions


class SilentSuccessors(
    SparseTable, kind="silent_successors", on_demand="next leaders, put beside silent brokers"
):
    """[N] one row a partition whose next leader, by Kafka's rule, does not answer."""

    broker: Int32 = column("broker id of that next leader")
    since_ms: Int64 = column("its last answer; unknown if it never answered")
    then: Int32 = column(
        "broker id of the leader once silent brokers are fenced too, -1 for nobody",
        fill=NO_BROKER,
        minus_one_is_a_value=True,
    )
    outcome: Int8 = column("how safe that leader is", enum=Outcome)


@rule
def silent_successors(
    following: NextLeaders, after: LeadersAfterLoss, brokers: Brokers, cycle: Cycle
) -> SilentSuccessors:
    """The next leaders among the silent brokers, and who is elected without these."""
    silent = brokers.pick(is_silent(brokers, cycle.observed_at_ms))
    row = np.flatnonzero(np.isin(following.leader, silent.broker))
    if not len(row):
        return SilentSuccessors.empty()
    broker = following.leader[row]
    return SilentSuccessors(
        row=row.astype(np.int32),
        broker=broker,
        since_ms=silent.answered_at_ms[np.searchsorted(silent.broker, broker)],
        then=after.leader[row],
        outcome=after.outcome[row],
    )


# ---------------------------------------------------------------- exported


@gauge(
    "partitions_with_silent_successor",
    "Partitions whose next leader has not answered for more than ten seconds.",
)
def partitions_with_silent_successor(successors: SilentSuccessors, partitions: Partitions) -> int:
    """The partitions that have a leader now, and such a successor."""
    return int((partitions.leader[successors.row] != NO_BROKER).sum())


@api_field(
    "silent_successor",
    "the next leader by Kafka's rule, if it does not answer: its `broker`, `since_ms` of its last "
    "answer, and who leads once such brokers are fenced too: `then` (-1 for nobody) with its "
    "`outcome`; null if the next leader answers",
)
def silent_successor_field(
    successors: SilentSuccessors, partitions: Partitions
) -> list[dict[str, Any] | None]:
    """The silent successor of each partition, null without one."""
    objects: list[dict[str, Any] | None] = [None] * len(partitions.leader)
    for i, row in enumerate(successors.row.tolist()):
        since_ms = int(successors.since_ms[i])
        objects[row] = {
            "broker": int(successors.broker[i]),
            "since_ms": None if since_ms == UNKNOWN else since_ms,
            "then": int(successors.then[i]),
            "outcome": Outcome(int(successors.outcome[i])).name.lower(),
        }
    return objects
