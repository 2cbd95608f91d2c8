"""The answer to ``load``: what each survivor would carry after a loss, the largest growth first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Annotated, Any, Final, TypedDict

import numpy as np

from streaming.bus.quorum_view import elects
from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer, brokers_of, listed
from streaming.questions.loss import brokers_lost
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, text
from streaming.questions.question import question
from streaming.runtime.quantities import size_text
from twin.arrays import plain
from twin.declarations.table import KAFKA, Array, Bool, Float64, Int32
from twin.questions.load import load_at_once, load_in_turn, peaks_of
from twin.rules.load.amounts import IN, LEADERS, OUT, QUANTITIES, Amounts
from twin.rules.load.capacity import capacities
from twin.rules.load.forecast import (
    LoadForecast,
    at_once,
    exceeds,
    in_turn,
    measured,
)
from twin.tables.state import BrokerMetrics, Brokers

_GROWS: Final = {"leaders": LEADERS, "bytes_in_per_s": IN, "bytes_out_per_s": OUT}
"""What the largest growth is said of."""


class Amount(TypedDict):
    """A sum, and the number of its parts that are unknown: then it is at least this.

    ``value`` is null if nothing of it is known.
    """

    value: float | None
    unknown: int


class BrokerLoad(TypedDict):
    """What a broker carries now. ``measured`` names what it measures itself (JMX).

    The rest is the twin's own: rates of log ends and of committed offsets, times the mean size of
    records.
    """

    broker: int
    measured: list[str]
    capacity_bytes_in_per_s: float | None
    capacity_bytes_out_per_s: float | None
    now: dict[str, Amount]


class LargestGrowth(TypedDict):
    """The survivor whose amount grows most, by Kafka's election rule; capacity as a ratio."""

    lost: list[int]
    broker: int
    now: Amount
    then: Amount
    capacity_ratio: float | None


class LoadThen(TypedDict):
    """What a survivor carries after a loss, by election rule.

    ``above_capacity``: by Kafka's rule more than its capacity, and more than now; null where that
    is unknown, or no capacity is set.
    """

    lost: list[int]
    elects: bool | None
    broker: int
    above_capacity: bool | None
    then: dict[str, dict[str, Amount]]


class LoadsAfterLoss(TypedDict):
    """What brokers carry now, and survivors after each loss: the largest growth of bytes first.

    Amounts: `leaders` are partitions; `bytes_in_per_s` come from producers, and `bytes_out_per_s`
    go to consumers; replication is apart; `remote_bytes` is what groups will read there from remote
    storage. ``total`` counts survivors of which something changes.
    """

    brokers: list[BrokerLoad]
    largest: dict[str, LargestGrowth]
    above_capacity: int
    total: int
    loads: list[LoadThen]


# ---------------------------------------------------------------- text


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    lines = [*_largest_lines(data["largest"]), *_about_rates(data["brokers"])]
    if data["above_capacity"]:
        carries = plain.counted(
            data["above_capacity"], "survivor would carry", "survivors would carry"
        )
        lines.append(f"{carries} more than the capacity.")
    now = {each["broker"]: each["now"] for each in data["brokers"]}
    rows = [_row(each, now[each["broker"]]) for each in data["loads"]]
    header = ("lost", "survivor", "leaders", "bytes in/s", "bytes out/s", "replication in/s",
              "replication out/s", "remote bytes", "above capacity")  # fmt: skip
    return Answer(
        data, lines or ["No loss changes what a survivor carries."], header, rows, data["total"]
    )


def _largest_lines(largest: Mapping[str, Any]) -> Iterator[str]:
    titles = {"leaders": "leaders", "bytes_in_per_s": "bytes in", "bytes_out_per_s": "bytes out"}
    for name, each in largest.items():
        text = _leaders if name == "leaders" else _bytes
        per = "" if name == "leaders" else "/s"
        share = each["capacity_ratio"]
        capacity = "" if share is None else f", {share:.0%} of its capacity".replace("%", " %")
        lost = "broker" if len(each["lost"]) == 1 else "brokers"
        yield (
            f"Largest growth of {titles[name]}: broker {each['broker']} from "
            f"{text(each['now'])}{per} to {text(each['then'])}{per}{capacity}, "
            f"if {lost} {listed(each['lost'])} {'is' if lost == 'broker' else 'are'} lost."
        )


def _about_rates(brokers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    by_jmx = [each["broker"] for each in brokers if each["measured"]]
    own = [each["broker"] for each in brokers if not each["measured"]]
    if by_jmx:
        yield f"Rates as brokers measure them (JMX): {listed(by_jmx)}."
    if own:
        yield f"Rates by log ends, committed offsets and sizes of records: {listed(own)}."
    if any(amount["unknown"] for each in brokers for amount in each["now"].values()):
        yield "≥ marks sums of which a part is unknown; ? those of which all is."


def _row(load: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Any, ...]:
    then = load["then"][KAFKA]
    cells = [
        _change(now[name], then[name], _leaders if name == "leaders" else _bytes)
        for name in ("leaders", "bytes_in_per_s", "bytes_out_per_s", "replication_in_per_s",
                     "replication_out_per_s", "remote_bytes")
    ]  # fmt: skip
    above = {True: "yes", False: "no", None: "-"}[load["above_capacity"]]
    no_quorum = "" if load["elects"] in (True, None) else " (no quorum)"
    return (f"{listed(load['lost'])}{no_quorum}", load["broker"], *cells, above)


def _change(now: Mapping[str, Any], then: Mapping[str, Any], text: Any) -> str:
    return text(now) if now == then else f"{text(now)} → {text(then)}"


def _leaders(amount: Mapping[str, Any]) -> str:
    return f"{amount['value']:.0f}"


def _bytes(amount: Mapping[str, Any]) -> str:
    if amount["value"] is None:
        return "?"
    return ("≥ " if amount["unknown"] else "") + size_text(round(amount["value"]))


# ---------------------------------------------------------------- the question


@question(
    "what each survivor leads, receives, replicates and serves after a loss, against now",
    text=_text,
    refusals={404: "there is no such broker or rack"},
)
def load(
    view: ClusterView,
    *,
    broker: Annotated[
        Sequence[int],
        number("a broker to lose; each in turn if none is named", example="3", repeated=True),
    ] = (),
    rack: Annotated[Sequence[str], text("a rack to lose", example="az-a", repeated=True)] = (),
    limit: Annotated[int | None, limit("survivors", DEFAULT_ROWS)] = None,
) -> LoadsAfterLoss:
    """Say what survivors carry after a loss.

    Each broker is lost in turn, or the given brokers and racks at once. Shows what each survivor
    then leads, receives from producers, replicates and serves to consumers, and reads from remote
    storage for groups, against now. Rates are those that brokers measure (JMX) where they do, else
    the twin's own.
    """
    states, newest = view.states, view.newest
    gone = brokers_lost(states, broker, rack)
    ids = np.array(brokers_of(states), np.int32)
    if newest is None:
        return {"brokers": [], "largest": {}, "above_capacity": 0, "total": 0, "loads": []}
    own = measured(newest[BrokerMetrics], ids, newest.observed_at_ms)
    if gone:
        rules = newest.catalog.election_rules
        each = zip(states, view.lose(gone), strict=True)
        total = reduce(add, (load_at_once(s, ids, gone, loss, rules) for s, loss in each))
        lost, forecast_of = [gone], at_once
    else:
        total = reduce(add, (load_in_turn(state, ids) for state in states))
        lost, forecast_of = [[int(each)] for each in ids], in_turn
    by_rule = {rule: forecast_of(total.now, s, own) for rule, s in total.shifts.items()}
    peaks, now_ms = peaks_of(view.cluster), newest.observed_at_ms
    capacity = capacities(newest[Brokers], ids, peaks, now_ms)
    return _answer(view, ids, lost, by_rule, capacity, limit)


def _answer(
    view: ClusterView, ids: Int32, lost: list[list[int]], by_rule: Mapping[str, LoadForecast],
    capacity: Float64, most: int | None,
) -> LoadsAfterLoss:  # fmt: skip
    forecast = by_rule[KAFKA]
    survives = np.array([~np.isin(ids, each) for each in lost]).reshape(len(lost), len(ids))
    above, may_be = exceeds(forecast, capacity)
    is_above: Bool = above.any(axis=0) & survives
    is_unknown: Bool = may_be.any(axis=0) & survives
    change = forecast.then.known - forecast.now.known[:, None]
    changes = np.zeros(survives.shape, bool)
    for each in by_rule.values():
        for then, now in ((each.then.known, each.now.known), (each.then.unknown, each.now.unknown)):
            changes |= (then != now[:, None]).any(axis=0)
    k, b = np.nonzero(survives & changes)
    grows = change[IN, k, b] + change[OUT, k, b]
    order = np.lexsort([b, k, -change[LEADERS, k, b], -grows, ~is_above[k, b]])[:most]
    has_capacity: Bool = np.logical_or.reduce(np.isfinite(capacity))
    elected = [elects(view, each) for each in lost]
    return {
        "brokers": [_now(ids, capacity, forecast, i) for i in range(len(ids))],
        "largest": {
            name: growth
            for name, quantity in _GROWS.items()
            if (growth := _largest(ids, lost, forecast, capacity, quantity, survives)) is not None
        },
        "above_capacity": int(is_above.sum()),
        "total": len(k),
        "loads": [
            {
                "lost": lost[i],
                "elects": elected[i],
                "broker": int(ids[j]),
                "above_capacity": _above(is_above[i, j], is_unknown[i, j], has_capacity[j]),
                "then": {rule: _amounts(each.then, i, j) for rule, each in by_rule.items()},
            }
            for i, j in zip(k[order].tolist(), b[order].tolist(), strict=True)
        ],
    }


def _now(ids: Int32, capacity: Float64, forecast: LoadForecast, i: int) -> BrokerLoad:
    limits: list[float] = capacity[[IN, OUT], i].tolist()
    into, out = (None if np.isnan(each) else each for each in limits)
    is_measured = forecast.is_measured[:, i].tolist()
    return {
        "broker": int(ids[i]),
        "measured": [name for name, yes in zip(QUANTITIES, is_measured, strict=True) if yes],
        "capacity_bytes_in_per_s": into,
        "capacity_bytes_out_per_s": out,
        "now": _amounts(forecast.now, i),
    }


def _largest(
    ids: Int32, lost: list[list[int]], forecast: LoadForecast, capacity: Float64, quantity: int,
    survives: Array,
) -> LargestGrowth | None:  # fmt: skip
    """The largest growth of the known parts; None if nothing grows."""
    change = forecast.then.known[quantity] - forecast.now.known[quantity]
    change = np.where(survives, change, -1.0)
    if not change.size or change.max() <= 0:
        return None
    k, b = divmod(int(change.argmax()), len(ids))
    share = forecast.then.known[quantity, k, b] / capacity[quantity, b]
    return {
        "lost": lost[k],
        "broker": int(ids[b]),
        "now": _amount(forecast.now, quantity, b),
        "then": _amount(forecast.then, quantity, k, b),
        "capacity_ratio": None if np.isnan(share) else float(share),
    }


def _above(is_above: bool, is_unknown: bool, has_capacity: bool) -> bool | None:
    if is_above:
        return True
    return None if is_unknown or not has_capacity else False


def _amounts(amounts: Amounts, *place: int) -> dict[str, Amount]:
    return {name: _amount(amounts, q, *place) for q, name in enumerate(QUANTITIES)}


def _amount(amounts: Amounts, *place: Any) -> Amount:
    known, unknown = float(amounts.known[place]), int(amounts.unknown[place])
    return {"value": None if unknown and not known else round(known, 1), "unknown": unknown}
