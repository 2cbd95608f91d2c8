"""Which broker can be lost now: one sentence, the same wherever it is shown.

A broker can be lost if every partition on it keeps a leader that has all committed records, and
enough replicas in sync for acks=all. Partitions whose replication is too small for that, whatever
the state of the cluster, are counted apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np

from streaming.bus.quorum_view import silent_since_ms
from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer
from streaming.questions.headline.remote_storage import of_remote_storage
from streaming.questions.question import OwnTopics, question
from streaming.runtime.quantities import utc_text
from twin.arrays import keys
from twin.arrays.plain import counted, enumerated
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.brokers.brokers import is_silent
from twin.rules.election.redundancy import Redundancy, Spare
from twin.tables.state import Brokers, PartitionIndex, Topics

MOST_NAMED: Final = 5
"""More brokers than these are counted, not listed."""

_HARMED: Final = "kafka_twin_broker_loss_harmed_partitions"
_LEADS: Final = "kafka_twin_broker_leaders"


class BrokerLoss(TypedDict):
    """Partitions that a broker leads, that its loss harms, and that are on no other broker."""

    broker: int
    leads: int
    harmed: int
    one_replica: int


class SingleLoss(TypedDict):
    """Brokers by whether each can be lost, and partitions that no broker's loss spares.

    Brokers that are fenced or not listed are in neither list; those in ``silent`` do not answer,
    and Kafka has not fenced them. ``one_replica_own`` of the partitions
    with ``one_replica`` are of topics of kafka-twin; accepted ones are not in them.
    """

    sentence: str
    can_be_lost: list[int]
    cannot_be_lost: list[int]
    silent: list[int]
    one_replica: int
    one_replica_own: int
    one_replica_accepted: int
    no_spare_replica: int
    not_described: int


class LosingEach(SingleLoss):
    """The same, with the brokers one by one."""

    brokers: list[BrokerLoss]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    rows = [
        (
            each["broker"],
            "yes" if each["broker"] in data["can_be_lost"]
            else "no" if each["broker"] in data["cannot_be_lost"] else "down",
            each["leads"] or "·",
            each["harmed"] or "·",
            each["one_replica"] or "·",
        )
        for each in data["brokers"]
    ]  # fmt: skip
    header = ("broker", "can be lost", "leads", "partitions it would harm", "with one replica")
    return Answer(data, [data["sentence"]], header, rows)


@question(
    "which brokers can be lost now, one at a time, and what is said apart",
    text=_text,
    option_of="lose",
)
def lose_each(view: ClusterView, own_topics: OwnTopics) -> LosingEach:
    """Every broker by itself: which can be lost?"""
    return {**single_loss(view, own_topics), "brokers": _rows(view)}


@dataclass(frozen=True, slots=True)
class _SeparateCounts:
    """Numbers of partitions that are said apart."""

    one_replica: int
    one_replica_own: int
    no_spare_replica: int
    not_described: int


def single_loss(view: ClusterView, own_topics: Collection[str]) -> SingleLoss:
    """The brokers of a view that can be lost, one at a time.

    Args:
        view: the newest snapshots.
        own_topics: names of the twin's topics, if the bus is on the cluster that is watched.
    """
    totals = view.totals
    brokers = _serving(view)
    quorum_since_ms = silent_since_ms(view)
    # Nobody is elected then, so each loss of a leader harms.
    harms = _HARMED if quorum_since_ms == UNKNOWN else _LEADS
    harmed = {int(broker) for (broker,), count in totals[harms].items() if count}
    can = [broker for broker in brokers if broker not in harmed]
    cannot = [broker for broker in brokers if broker in harmed]
    apart = _SeparateCounts(
        one_replica=int(totals.value("kafka_twin_partitions_one_replica")),
        one_replica_own=sum(_own_one_replica(shard.state, own_topics) for shard in view.shards),
        no_spare_replica=int(totals.value("kafka_twin_partitions_no_spare_replica")),
        not_described=int(totals.value("kafka_twin_partitions_not_described")),
    )
    silence = _silence(view, brokers)
    return {
        "sentence": _of_quorum(quorum_since_ms)
        + of_remote_storage(view)
        + _sentence(can, cannot, apart, silence),
        "can_be_lost": can,
        "cannot_be_lost": cannot,
        "silent": sorted(silence),
        "one_replica": apart.one_replica,
        "one_replica_own": apart.one_replica_own,
        "one_replica_accepted": int(totals.value("kafka_twin_partitions_one_replica_accepted")),
        "no_spare_replica": apart.no_spare_replica,
        "not_described": apart.not_described,
    }


def _rows(view: ClusterView) -> list[BrokerLoss]:
    newest = view.newest
    ids = [] if newest is None else newest[Brokers].broker.tolist()

    def count(name: str, broker: int) -> int:
        return int(view.totals.value(f"kafka_twin_broker_{name}", str(broker)))

    return [
        {
            "broker": broker,
            "leads": count("leaders", broker),
            "harmed": count("loss_harmed_partitions", broker),
            "one_replica": count("one_replica_partitions", broker),
        }
        for broker in ids
    ]


def _serving(view: ClusterView) -> list[int]:
    """The brokers that are listed and not fenced."""
    if view.newest is None:
        return []
    brokers = view.newest[Brokers]
    serves = brokers.listed & (brokers.fenced != 1)
    return [int(broker) for broker in brokers.broker[serves]]


def _silence(view: ClusterView, serving: Collection[int]) -> dict[int, int]:
    """Those of the serving brokers that do not answer, with the time of their last answer."""
    if view.newest is None:
        return {}
    brokers = view.newest[Brokers]
    mask = is_silent(brokers, view.newest.observed_at_ms) & np.isin(brokers.broker, list(serving))
    ids, since_ms = brokers.broker[mask].tolist(), brokers.answered_at_ms[mask].tolist()
    return dict(zip(ids, since_ms, strict=True))


def _own_one_replica(state: ShardState, own_topics: Collection[str]) -> int:
    names = np.array(sorted(own_topics), object)
    row = keys.find_sorted(state[Topics].topic, names)
    one = state[Redundancy].redundancy == Spare.ONE_REPLICA
    return int((one & np.isin(state[PartitionIndex].topic_index, row[row != UNKNOWN])).sum())


def _sentence(
    can: Sequence[int], cannot: Sequence[int], apart: _SeparateCounts, silence: Mapping[int, int]
) -> str:
    """The brokers that do not answer, then those that can be lost, then what is said apart."""
    if not can and not cannot:
        return "Nothing is known of any broker yet."
    since = _time(max(silence.values())) if silence else ""  # none of them has answered since
    if len(silence) == len(can) + len(cannot):
        return f"No broker has answered since {since}: what is shown is how the cluster was then."
    clauses = [_brokers(can, cannot)]
    if silence:
        who = "Broker" if len(silence) == 1 else "Brokers"
        has = "has" if len(silence) == 1 else "have"
        clauses[0] = (
            f"{who} {enumerated(sorted(silence))} {has} not answered since {since}. {clauses[0]}"
        )
    if apart.one_replica:
        own = f" ({apart.one_replica_own} of kafka-twin's own topics)"
        clauses.append(
            counted(
                apart.one_replica,
                "partition has one replica and goes with its broker",
                "partitions have one replica and go with their broker",
            )
            + (own if apart.one_replica_own else "")
        )
    if apart.no_spare_replica:
        clauses.append(
            counted(
                apart.no_spare_replica,
                "partition has no spare replica and refuses acks=all without any of its brokers",
                "partitions have no spare replica and refuse acks=all without any of their brokers",
            )
        )
    if apart.not_described:
        clauses.append(
            counted(
                apart.not_described,
                "partition is not described yet",
                "partitions are not described yet",
            )
        )
    return "; ".join(clauses) + "."


def _time(at_ms: int) -> str:
    """Date and time, e.g. ``2026-01-15 03:33:52 UTC``; words if there is none."""
    if at_ms == UNKNOWN:
        return "the twin started"
    return utc_text(at_ms)


def _of_quorum(since_ms: int) -> str:
    if since_ms == UNKNOWN:
        return ""
    since = utc_text(since_ms)
    return f"No controller has answered since {since}: no leader is elected until one does. "


def _brokers(can: Sequence[int], cannot: Sequence[int]) -> str:
    if not cannot:
        return "You can lose any one broker"
    if not can:
        return "You cannot lose any broker"
    if len(cannot) <= min(MOST_NAMED, len(can)):
        return f"You can lose any broker but {enumerated(cannot)}"
    if len(can) <= MOST_NAMED:
        only = "broker you can lose is" if len(can) == 1 else "brokers you can lose are"
        return f"The only {only} {enumerated(can)}"
    return f"You cannot lose {len(cannot)} of {len(can) + len(cannot)} brokers"
