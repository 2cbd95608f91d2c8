"""Partitions, brokers and the whole cluster as plain data for the API.

Unknown is null. Every object says when it was observed and how old that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streaming.bus.view import Picture
from streaming.exporter import signals
from streaming.exporter.partitions import partition_rows
from streaming.exporter.plain import known, observed
from twin.fleet import Array, Fleet
from twin.rules.election import LossOutcome
from twin.rules.risks import BY_NAME
from twin.rules.risks import RULES as RISKS
from twin.tables import UNKNOWN
from twin.totals import COUNTS, RULES, Totals

MOST_ROWS: Final = 1_000
_NUMBERS: Final = ("partition", "broker", "limit", "offset")
_MOST_DIGITS: Final = 10
_ANY_RISK: Final = sum(int(rule.risk) for rule in RISKS)


@dataclass(frozen=True, slots=True)
class Query:
    """Which partitions are asked for."""

    topic: str = ""
    partition: int = UNKNOWN
    broker: int = UNKNOWN
    risks: int = 0  # one of these bits, at the least
    limit: int = 100
    offset: int = 0

    @staticmethod
    def of(parameters: Iterable[tuple[str, str]]) -> Query:
        """From a URL's parameters. ``risk`` names one, ``at_risk`` means any.

        Raises:
            ValueError: one line that says which parameter and why.
        """
        chosen: dict[str, Any] = {}
        given: set[str] = set()
        for name, text in parameters:
            if name in given:
                raise ValueError(f"{name}: it is given twice")
            given.add(name)
            if name in _NUMBERS:
                if not text.isdecimal() or len(text) > _MOST_DIGITS:
                    raise ValueError(f"{name}: {text!r} is not a number")
                chosen[name] = int(text)
            elif name == "topic":
                chosen[name] = text
            elif name == "at_risk":
                if text not in ("true", "false"):
                    raise ValueError(f"at_risk: {text!r} is neither true nor false")
                if text == "true":
                    chosen.setdefault("risks", _ANY_RISK)
            elif name == "risk":
                if text not in BY_NAME:
                    raise ValueError(f"risk: {text!r} is none of {', '.join(BY_NAME)}")
                chosen["risks"] = int(BY_NAME[text].risk)
            else:
                raise ValueError(f"{name}: there is no such parameter")
        if chosen.get("limit", 1) > MOST_ROWS:
            raise ValueError(f"limit: at most {MOST_ROWS}")
        return Query(**chosen)


def partitions(picture: Picture, asked: Query, now_ms: int) -> dict[str, Any]:
    """The partitions asked for, and how many match in all.

    In order of shard, topic and number; where risks are asked for, the worst risk first.
    """
    fleets = [piece.fleet for piece in picture.pieces]
    matching = [_matching(fleet, asked) for fleet in fleets]
    total = sum(map(len, matching))
    if not total:
        return {"total": 0, "partitions": []}
    row = np.concatenate(matching)
    of = np.repeat(np.arange(len(fleets)), [len(rows) for rows in matching])
    first, last = asked.offset, asked.offset + asked.limit
    chosen = np.arange(total)[first:last]
    if asked.risks:
        risks = np.concatenate([f.risks[rows] for f, rows in zip(fleets, matching, strict=True)])
        # The lowest bit is the risk a person would act on first.
        chosen = np.argsort(risks & -risks, kind="stable")[first:last]
    told: dict[int, dict[str, Any]] = {}
    for i in np.unique(of[chosen]).tolist():
        here = chosen[of[chosen] == i]
        told |= zip(here.tolist(), partition_rows(fleets[i], row[here], now_ms), strict=True)
    return {"total": total, "partitions": [told[place] for place in chosen.tolist()]}


def _matching(fleet: Fleet, asked: Query) -> Array:
    """[N] the rows asked for."""
    wanted = np.ones(len(fleet), bool)
    if asked.topic:
        wanted &= (fleet.topics.topic == asked.topic)[fleet.topic_index]
    if asked.partition != UNKNOWN:
        wanted &= fleet.partition == asked.partition
    if asked.broker != UNKNOWN:
        wanted &= ((fleet.broker == asked.broker) & fleet.present).any(axis=1)
    if asked.risks:
        wanted &= (fleet.risks & asked.risks) != 0
    return np.flatnonzero(wanted)


def brokers(picture: Picture, now_ms: int) -> dict[str, Any]:
    """Every registered broker: what it has, and what losing it would do."""
    fleet, totals = picture.newest, picture.totals
    if fleet is None:
        return {"brokers": []}
    told = []
    b = fleet.brokers
    for i, broker in enumerate(b.broker.tolist()):
        told.append(
            {
                "broker": broker,
                "rack": b.rack[i] or None,
                "host": b.host[i] or None,
                "fenced": known(b.fenced[i], bool),
                "answered": bool(b.answered[i]),
                "answered_in_ms": known(b.answered_in_ms[i]),
                "log_dir_total_bytes": known(b.log_dir_total_bytes[i]),
                "log_dir_usable_bytes": known(b.log_dir_usable_bytes[i]),
                **{
                    name: totals.broker[name, broker]
                    for name in ("leaders", "replicas", "thin_replicas", "local_log_bytes")
                },
                "loss": {
                    rule: {
                        outcome.name.lower(): totals.loss[broker, rule, outcome.name.lower()]
                        for outcome in LossOutcome
                    }
                    for rule in RULES
                },
                "loss_under_min_isr_partitions":
                    totals.broker["loss_under_min_isr_partitions", broker],
                "signals": signals.of_broker(fleet, broker),
                **observed(b.answered_at_ms[i], now_ms),
            }
        )  # fmt: skip
    return {"brokers": told}


def summary(cluster: str, picture: Picture, now_ms: int) -> dict[str, Any]:
    """The cluster at a glance; counts are null before anything is known."""
    counts, told = picture.totals.cluster, bool(picture.pieces)
    at_risk = sum(int((p.fleet.risks != 0).sum()) for p in picture.pieces)
    thin = sum(n for (name, _), n in picture.totals.broker.items() if name == "thin_replicas")
    return {
        "cluster": cluster,
        "up": not picture.why_not_up(now_ms),
        "why_not_up": picture.why_not_up(now_ms) or None,
        **{name: counts[name] if told else None for name in COUNTS},
        "at_risk": at_risk if told else None,
        "risks": {
            rule.name: {
                "partitions": picture.totals.risk[rule.name] if told else None,
                "severity": rule.severity,
                "meaning": rule.sentence,
            }
            for rule in RISKS
        },
        "thin_replicas": thin if told else None,
        "racks": _racks(picture.totals),
        "observations_refused": sum(picture.refused.values()),
        **observed(picture.observed_at_ms, now_ms),
    }


def _racks(totals: Totals) -> dict[str, dict[str, Any]]:
    """Leaders by rack, and what keeps them from being balanced."""
    racks: dict[str, dict[str, Any]] = defaultdict(dict)
    for (name, rack), count in totals.rack.items():
        racks[rack][name] = count
    for rack, waits in totals.seconds_to_balance.items():
        racks[rack]["seconds_to_balance"] = waits
    return racks
