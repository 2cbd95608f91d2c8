"""The answer to ``pairs``: what the loss of two brokers or of a rack would do, the worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypedDict

import numpy as np

from streaming.bus.quorum_view import elects
from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer, brokers_of, listed
from streaming.questions.parameters import MAX_ROWS, limit
from streaming.questions.question import question
from twin.declarations.table import KAFKA, UNKNOWN, Int64
from twin.questions.contingencies import contingencies
from twin.questions.effects import BY_RULE, counted_things
from twin.rules.brokers.racks import rack_names, racks_of
from twin.tables.state import Brokers

_SHOWN: Final = 20
_WORST_BY: Final = ("offline", "records_lost", "outside_isr", "under_min_isr", "cold")


class LossOfSeveral(TypedDict):
    """What the loss of those brokers would do, in partitions; ``records_lost`` counts records.

    ``offline_together`` are those that stay online if only one of the two, or only the rack or the
    broker beside it, is lost; null for a rack alone. ``records_unknown`` are partitions that lose
    records, nobody knows how many. ``elects``: as in ``lose``, false where no majority of the
    controllers is left, so that nobody is elected; null if that is unknown.
    """

    rack: str | None
    brokers: list[int]
    elects: bool | None
    offline_together: int | None
    under_min_isr: int
    records_lost: int
    records_unknown: int
    by_rule: dict[str, dict[str, int]]


class LossesOfSeveral(TypedDict):
    """The worst losses of each kind, and how many there are.

    ``..._offline`` is the number of losses that take partitions offline which neither of its two
    parts takes offline alone. A rack of one broker, and all pairs with it, are listed as such too.
    """

    pairs_total: int
    pairs_offline: int
    racks_total: int
    racks_and_one_total: int
    racks_and_one_offline: int
    pairs: list[LossOfSeveral]
    racks: list[LossOfSeveral]
    racks_and_one: list[LossOfSeveral]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    lines = [
        "Pairs of brokers that take partitions offline which neither takes offline alone: "
        f"{data['pairs_offline']} of {data['pairs_total']}.",
        "A rack and one more broker, likewise: "
        f"{data['racks_and_one_offline']} of {data['racks_and_one_total']}.",
    ]
    losses: list[Mapping[str, Any]] = [
        *data["racks"],
        *data["pairs"][:_SHOWN],
        *data["racks_and_one"][:_SHOWN],
    ]
    rules = list(losses[0]["by_rule"]) if losses else [KAFKA]
    others = [r for r in rules if r != KAFKA and any(_differs(each, r) for each in losses)]
    header = ["lost", "offline", "by both", "under min ISR", "records lost", "outside ISR", "cold"]
    header += [f"{name} ({rule})" for rule in others for name in ("offline", "outside ISR", "cold")]
    rows = [_row(each, others) for each in losses]
    total = data["racks_total"] + data["pairs_total"] + data["racks_and_one_total"]
    return Answer(data, lines, header, rows, total)


def _differs(loss: Mapping[str, Any], rule: str) -> bool:
    return bool(loss["by_rule"][rule] != loss["by_rule"][KAFKA])


def _row(loss: Mapping[str, Any], others: Sequence[str]) -> tuple[Any, ...]:
    kafka, both = loss["by_rule"][KAFKA], loss["offline_together"]
    records = f"{loss['records_lost']}{' or more' if loss['records_unknown'] else ''}"
    return (
        _name(loss), kafka["offline"], "" if both is None else both, loss["under_min_isr"], records,
        kafka["outside_isr"], kafka["cold"],
        *(loss["by_rule"][rule][name] for rule in others for name in BY_RULE),
    )  # fmt: skip


def _name(loss: Mapping[str, Any]) -> str:
    no_quorum = "" if loss["elects"] in (True, None) else " (no quorum)"
    if loss["rack"] is None:
        return f"brokers {listed(loss['brokers'])}{no_quorum}"
    one = f" and broker {loss['brokers'][-1]}" if loss["offline_together"] is not None else ""
    return f"rack {loss['rack']}{one}{no_quorum}"


@question("what the loss of each pair of brokers and of each rack would do", text=_text)
def pairs(
    view: ClusterView,
    *,
    limit: Annotated[int | None, limit("losses of each kind", MAX_ROWS)] = None,
) -> LossesOfSeveral:
    """Lose each pair of brokers and each rack.

    Shows the worst of each, and of racks with one more broker: partitions that go offline, that
    end under min ISR, that lose records, and that are led from outside the ISR or by a cold
    replica. Every number is that of lose.
    """
    states = view.states
    ids = np.array(brokers_of(states), np.int32)
    newest = view.newest
    racks = [] if newest is None else rack_names(newest[Brokers])
    rack = np.full(len(ids), UNKNOWN) if newest is None else racks_of(newest[Brokers], ids)
    losses = contingencies(states, ids, rack)
    names = counted_things(states[0].catalog.election_rules)
    offline = names.index((KAFKA, "offline"))
    of_broker, of_rack = losses.broker[offline], losses.rack[offline]

    a, b = np.triu_indices(len(ids), 1)
    pair = losses.pairs(a, b)
    by_both = pair[offline] - of_broker[a] - of_broker[b]
    k, c = np.nonzero(rack[None, :] != np.arange(len(racks))[:, None])
    more = losses.racks_and_one(k, c)
    by_all = more[offline] - of_rack[k] - of_broker[c]
    inside = [ids[rack == number].tolist() for number in range(len(racks))]
    return {
        "pairs_total": len(a),
        "pairs_offline": int((by_both > 0).sum()),
        "racks_total": len(racks),
        "racks_and_one_total": len(k),
        "racks_and_one_offline": int((by_all > 0).sum()),
        "pairs": [
            _loss(view, names, pair[:, i], None, ids[[a[i], b[i]]].tolist(), int(by_both[i]))
            for i in _worst(names, pair, limit)
        ],
        "racks": [
            _loss(view, names, losses.rack[:, i], racks[i], inside[i], None)
            for i in _worst(names, losses.rack, limit)
        ],
        "racks_and_one": [
            _loss(
                view,
                names,
                more[:, i],
                racks[k[i]],
                [*inside[k[i]], int(ids[c[i]])],
                int(by_all[i]),
            )
            for i in _worst(names, more, limit)
        ],
    }


def _worst(names: Sequence[tuple[str, str]], losses: Int64, most: int | None) -> list[int]:
    """The places of the worst of [C, M] losses, the worst first."""
    order = [-losses[names.index((KAFKA, each))] for each in reversed(_WORST_BY)]
    places: list[int] = np.lexsort(order)[:most].tolist()
    return places


def _loss(
    view: ClusterView, names: Sequence[tuple[str, str]], numbers: Int64, rack: str | None,
    brokers: list[int], offline_together: int | None,
) -> LossOfSeveral:  # fmt: skip
    counts = dict(zip(names, numbers.tolist(), strict=True))
    by_rule: dict[str, dict[str, int]] = {}
    for (rule, name), number in counts.items():
        if name in BY_RULE:
            by_rule.setdefault(rule, {})[name] = number
    return {
        "rack": rack,
        "brokers": brokers,
        "elects": elects(view, brokers),
        "offline_together": offline_together,
        "under_min_isr": counts[KAFKA, "under_min_isr"],
        "records_lost": counts[KAFKA, "records_lost"],
        "records_unknown": counts[KAFKA, "records_unknown"],
        "by_rule": by_rule,
    }
