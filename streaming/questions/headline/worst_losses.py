"""The broker and the rack whose loss alone would do most harm, in partitions.

Partitions of one replica go with their broker, whatever the state of the cluster: they are in none
of these numbers, as in the sentence on which broker can be lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypedDict

import numpy as np

from streaming.bus.quorum_view import elects
from streaming.bus.view import ClusterView
from twin.declarations.table import KAFKA
from twin.kafka.election import Outcome
from twin.questions.contingencies import rack_losses
from twin.questions.effects import counted_things
from twin.rules.brokers.racks import rack_names, racks_of
from twin.rules.election.next_leader import NOBODY
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Brokers
from twin.totals import Totals

_UNCLEAN: Final = tuple(each.name.lower() for each in (Outcome.LAST_KNOWN, Outcome.UNCLEAN))
_COVERAGES: Final = (*(each.name.lower() for each in Coverage), NOBODY)


class WorstBroker(TypedDict):
    """A broker that cannot be lost, and how many there are of them.

    ``offline``: nobody would lead them. ``unclean``: who would lead them may lack records.
    ``harmed``: both, and those that would refuse acks=all.
    """

    broker: int
    harmed: int
    offline: int
    unclean: int
    cannot_be_lost: int


class WorstRack(TypedDict):
    """The rack whose loss would take most partitions offline; ``brokers`` are those in it.

    ``elects``: false where no majority of the controllers would be left, null if that is unknown.
    """

    rack: str
    brokers: list[int]
    elects: bool | None
    offline: int
    under_min_isr: int


def worst_broker(totals: Totals, cannot_be_lost: Collection[int]) -> WorstBroker | None:
    """The worst of those that cannot be lost; None if each can be."""
    losses: list[WorstBroker] = [
        {
            "broker": broker,
            "harmed": int(totals.value("kafka_twin_broker_loss_harmed_partitions", str(broker))),
            "offline": _offline(totals, broker) - one_replica(totals, broker),
            "unclean": sum(_led(totals, broker, outcome) for outcome in _UNCLEAN),
            "cannot_be_lost": len(cannot_be_lost),
        }
        for broker in cannot_be_lost
    ]
    return max(losses, key=_harm, default=None)


def _harm(loss: WorstBroker) -> tuple[int, int, int, int]:
    return loss["offline"], loss["unclean"], loss["harmed"], -loss["broker"]


def worst_rack(view: ClusterView) -> WorstRack | None:
    """The worst of several racks; None if there are fewer than two, or nothing was observed."""
    newest = view.newest
    racks = [] if newest is None else rack_names(newest[Brokers])
    if newest is None or len(racks) < 2:
        return None
    ids = np.sort(newest[Brokers].broker)
    rack = racks_of(newest[Brokers], ids)
    effects = rack_losses(view.states, ids, rack)
    names = counted_things(newest.catalog.election_rules)
    only = np.array([one_replica(view.totals, broker) for broker in ids.tolist()], np.int64)
    apart = np.array([only[rack == number].sum() for number in range(len(racks))])
    offline, under = (
        np.maximum(effects[names.index((KAFKA, name))] - apart, 0)
        for name in ("offline", "under_min_isr")
    )
    worst = int(np.lexsort((-under, -offline))[0])
    brokers = ids[rack == worst].tolist()
    return {
        "rack": racks[worst],
        "brokers": brokers,
        "elects": elects(view, brokers),
        "offline": int(offline[worst]),
        "under_min_isr": int(under[worst]),
    }


def one_replica(totals: Totals, broker: int) -> int:
    """Partitions that are on that broker alone and that it leads."""
    if not totals.value("kafka_twin_broker_leaders", str(broker)):
        return 0
    alone = sum(
        int(totals.value(f"kafka_twin_broker_{name}_partitions", str(broker)))
        for name in ("one_replica", "one_replica_accepted")
    )
    return min(alone, _offline(totals, broker))


def _offline(totals: Totals, broker: int) -> int:
    return _led(totals, broker, NOBODY)


def _led(totals: Totals, broker: int, outcome: str) -> int:
    """Partitions whose next leader, if that broker is lost, has that outcome."""
    lost = "kafka_twin_broker_loss_partitions", str(broker), KAFKA, outcome
    return sum(int(totals.value(*lost, coverage)) for coverage in _COVERAGES)
