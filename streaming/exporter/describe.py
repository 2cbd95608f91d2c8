"""Partitions, brokers and the whole cluster as plain data for the API.

Unknown is null. Every object says when it was observed and how old that is.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streaming.exporter.view import Picture
from twin.fleet import Array, Fleet
from twin.rules.coverage import held_bytes, span_ms
from twin.rules.election import LossOutcome, effective_min_isr
from twin.rules.replication import lag_records
from twin.rules.risks import RULES as RISKS
from twin.tables import SAMPLE_COLUMNS, UNKNOWN, Coverage, PendingUpload, Slot
from twin.totals import COUNTS, RULES

MOST_ROWS: Final = 1_000
_NUMBERS: Final = ("partition", "broker", "limit", "offset")
_MOST_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Query:
    """Which partitions are asked for."""

    topic: str = ""
    partition: int = UNKNOWN
    broker: int = UNKNOWN
    at_risk: bool = False
    limit: int = 100
    offset: int = 0

    @staticmethod
    def of(parameters: dict[str, str]) -> Query:
        """From a URL's parameters.

        Raises:
            ValueError: one line that says which parameter and why.
        """
        chosen: dict[str, Any] = {}
        for name, text in parameters.items():
            if name in _NUMBERS:
                if not text.isdecimal() or len(text) > _MOST_DIGITS:
                    raise ValueError(f"{name}: {text!r} is not a number")
                chosen[name] = int(text)
            elif name == "topic":
                chosen[name] = text
            elif name == "at_risk":
                if text not in ("true", "false"):
                    raise ValueError(f"at_risk: {text!r} is neither true nor false")
                chosen[name] = text == "true"
            else:
                raise ValueError(f"{name}: there is no such parameter")
        if chosen.get("limit", 1) > MOST_ROWS:
            raise ValueError(f"limit: at most {MOST_ROWS}")
        return Query(**chosen)


def partitions(picture: Picture, asked: Query, now_ms: int) -> dict[str, Any]:
    """The partitions asked for, and how many match in all.

    In order of shard, topic and number; those at risk with the worst risk first.
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
    if asked.at_risk:
        risks = np.concatenate([f.risks[rows] for f, rows in zip(fleets, matching, strict=True)])
        # The lowest bit is the risk a person would act on first.
        chosen = np.argsort(risks & -risks, kind="stable")[first:last]
    told: dict[int, dict[str, Any]] = {}
    for i in np.unique(of[chosen]).tolist():
        here = chosen[of[chosen] == i]
        told |= zip(here.tolist(), _rows(fleets[i], row[here], now_ms), strict=True)
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
    if asked.at_risk:
        wanted &= fleet.risks != 0
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
                "fenced": _known(b.fenced[i], bool),
                "answered": bool(b.answered[i]),
                "answered_in_ms": _known(b.answered_in_ms[i]),
                "log_dir_total_bytes": _known(b.log_dir_total_bytes[i]),
                "log_dir_usable_bytes": _known(b.log_dir_usable_bytes[i]),
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
                **_observed(b.answered_at_ms[i], now_ms),
            }
        )  # fmt: skip
    return {"brokers": told}


def summary(cluster: str, picture: Picture, now_ms: int) -> dict[str, Any]:
    """The cluster at a glance; counts are null before anything is known."""
    counts, known = picture.totals.cluster, bool(picture.pieces)
    at_risk = sum(int((p.fleet.risks != 0).sum()) for p in picture.pieces)
    thin = sum(n for (name, _), n in picture.totals.broker.items() if name == "thin_replicas")
    return {
        "cluster": cluster,
        "up": not picture.why_not_up(now_ms),
        "why_not_up": picture.why_not_up(now_ms) or None,
        **{name: counts[name] if known else None for name in COUNTS},
        "at_risk": at_risk if known else None,
        "risks": {
            rule.name: {
                "partitions": picture.totals.risk[rule.name] if known else None,
                "severity": rule.severity,
                "meaning": rule.sentence,
            }
            for rule in RISKS
        },
        "thin_replicas": thin if known else None,
        "observations_refused": sum(picture.refused.values()),
        **_observed(picture.observed_at_ms, now_ms),
    }


def _rows(fleet: Fleet, rows: Array, now_ms: int) -> list[dict[str, Any]]:
    if not len(rows):
        return []
    span, size, lag = span_ms(fleet, now_ms), held_bytes(fleet), lag_records(fleet)
    least = effective_min_isr(fleet)
    described = fleet.described_at_ms != UNKNOWN
    names = fleet.topic_names()
    told = []
    for row in rows.tolist():
        replicas = [
            {
                "broker": int(fleet.broker[row, slot]),
                **_marks(int(fleet.slot[row, slot])),
                **{
                    name: _known(getattr(fleet, name)[row, slot])
                    for name in SAMPLE_COLUMNS
                    if name not in ("pending_upload", "error_code", "local_log_bytes")
                },
                "pending_upload": _word(PendingUpload, fleet.pending_upload[row, slot]),
                "error_code": int(fleet.error_code[row, slot]),
                "local_log_bytes": _known(size[row, slot]),
                "local_log_span_seconds": _seconds(span[row, slot]),
                "lag_records": _known(lag[row, slot]),
                "in_sync": _known(fleet.in_sync[row, slot], bool),
                "coverage": _word(Coverage, fleet.coverage[row, slot]),
                "caught_up_at_ms": _known(fleet.caught_up_at_ms[row, slot]),
                **_observed(fleet.sampled_at_ms[row, slot], now_ms),
            }
            for slot in range(int(fleet.assigned[row]))
        ]
        told.append(
            {
                "topic": names[row],
                "topic_id": _topic_id(fleet.topics.topic_id[fleet.topic_index[row]]),
                "partition": int(fleet.partition[row]),
                # Nobody leads: -1. Nobody has told yet: null.
                "leader": int(fleet.leader[row]) if described[row] else None,
                "leader_epoch": _known(fleet.leader_epoch[row]),
                "min_isr": int(least[row]),
                "risks": [rule.name for rule in RISKS if int(fleet.risks[row]) & rule.risk],
                "if_leader_lost": {
                    rule: {
                        "leader": int(getattr(fleet, f"next_leader_{rule}")[row]),
                        "outcome": _word(LossOutcome, getattr(fleet, f"next_outcome_{rule}")[row]),
                    }
                    for rule in RULES
                },
                "replicas": replicas,
                **_observed(fleet.described_at_ms[row], now_ms),
            }
        )
    return told


def _topic_id(sixteen: bytes) -> str:
    """As Kafka's own tools write it."""
    return base64.urlsafe_b64encode(sixteen).rstrip(b"=").decode()


def _marks(slot: int) -> dict[str, bool]:
    return {
        name: bool(slot & mark)
        for name, mark in (
            ("in_isr", Slot.IN_ISR),
            ("in_elr", Slot.IN_ELR),
            ("offline", Slot.OFFLINE),
            ("adding", Slot.ADDING),
            ("removing", Slot.REMOVING),
        )
    }


def _observed(at_ms: Any, now_ms: int) -> dict[str, Any]:
    at = int(at_ms)
    if at == UNKNOWN:
        return {"observed_at_ms": None, "age_seconds": None}
    return {"observed_at_ms": at, "age_seconds": max(now_ms - at, 0) / 1000}


def _known(value: Any, kind: type = int) -> Any:
    return None if int(value) == UNKNOWN else kind(value)


def _seconds(value_ms: Any) -> float | None:
    return None if int(value_ms) == UNKNOWN else int(value_ms) / 1000


def _word(kind: Any, value: Any) -> str | None:
    return None if int(value) == UNKNOWN else str(kind(int(value)).name).lower()
