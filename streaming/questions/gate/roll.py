"""In which order may brokers be restarted? The plan over all shards, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streaming.bus.view import ClusterView
from streaming.questions.answer import listed
from streaming.questions.gate.restart import (
    MAX_NAMES,
    GivenReason,
    Verdict,
    allowed_lines,
    check_brokers,
    cost_text,
    given_reasons,
    hurt_lines,
    once_allowed,
    other_cost_lines,
    reason_lines,
    verdict_of,
    why_stale,
)
from twin.arrays import plain
from twin.declarations.table import KAFKA, UNKNOWN
from twin.plans.restart_cost import RestartCost, RestartCosts
from twin.plans.roll import RestartBatch, roll
from twin.questions import gate
from twin.questions.gate import Terms
from twin.questions.whatif_groups import HurtGroup


@dataclass(frozen=True, slots=True)
class RollBatch:
    """Brokers that may be restarted together, in one rack if that is known.

    Of ``groups``, which are hurt meanwhile, the worst MAX_NAMES are listed.
    """

    brokers: list[int]
    rack: str | None
    allowed: list[GivenReason]
    costs: RestartCosts
    groups: list[HurtGroup]
    groups_hurt: int
    groups_remote_bytes: int


@dataclass(frozen=True, slots=True)
class RollLeftOut:
    """A broker that may not be restarted as things are."""

    broker: int
    verdict: Verdict
    once_allowed: Verdict
    reasons: list[GivenReason]


@dataclass(frozen=True, slots=True)
class RollPlan:
    """An order of restarts. ``stale`` says why there is none.

    The verdict is safe if every broker is in a batch, unsafe if one cannot be, and unknown if one
    may be.
    """

    verdict: Verdict
    stale: str | None
    batches: list[RollBatch]
    left_out: list[RollLeftOut]
    observed_at_ms: int | None

    def data(self) -> dict[str, Any]:
        """The plan as plain data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    def lines(self) -> list[str]:
        """The plan for a person."""
        return roll_lines(self.data())


def roll_lines(plan: Mapping[str, Any]) -> list[str]:
    """The plan for a person: a line a batch, then the brokers that are left out, and why."""
    if plan["stale"]:
        return [f"no plan: {plan['stale']}"]
    lines = []
    for number, batch in enumerate(plan["batches"], 1):
        costs = msgspec.convert(batch["costs"], dict[str, RestartCost])
        rack = f" in rack {batch['rack']}" if batch["rack"] else ""
        who = "broker" if len(batch["brokers"]) == 1 else "brokers"
        cost = cost_text(costs[KAFKA])
        lines.append(f"{number}. {who} {listed(batch['brokers'])}{rack}: {cost}")
        lines += other_cost_lines(costs)
        lines += allowed_lines(batch["allowed"])
        lines += hurt_lines(batch)
    for each in plan["left_out"]:
        is_lasting = each["verdict"] == "unsafe" and each["once_allowed"] == "safe"
        why = "safe to restart once this is allowed" if is_lasting else _WHY[each["verdict"]]
        lines.append(f"not now: broker {each['broker']}, {why}")
        lines += reason_lines(each["reasons"])
    return lines


_WHY = {"unsafe": "unsafe to restart", "unknown": "unknown whether it is safe to restart"}


def plan_roll(
    view: ClusterView,
    brokers: Collection[int],
    terms: Terms,
    now_ms: int,
    *,
    since_ms: int = UNKNOWN,
    by_rack: bool = False,
    most: int | None = None,
) -> RollPlan:
    """The plan for those brokers; if none is named, for all that serve or hold a replica.

    Raises:
        NoSuchBrokerError: the twin does not know one of the brokers.
    """
    check_brokers(view, brokers)
    at_ms = plain.integer(view.observed_at_ms)
    if stale := why_stale(view, now_ms, since_ms):
        return RollPlan("unknown", stale, [], [], at_ms)
    states = [shard.state for shard in view.shards]
    known = gate.newest_brokers(states)
    to_restart = set(brokers) or set(known.broker[~gate.holding_nothing(states, known)].tolist())
    plan = roll(states, to_restart, terms, by_rack, most, view.cluster)
    left_out = [
        RollLeftOut(
            each.broker,
            verdict_of(each.reasons),
            once_allowed(each.reasons),
            given_reasons(each.reasons),
        )
        for each in plan.left_out
    ]
    verdicts = {each.verdict for each in left_out}
    verdict: Verdict = "unsafe" if "unsafe" in verdicts else "unknown" if verdicts else "safe"
    return RollPlan(verdict, None, list(map(_batch, plan.batches)), left_out, at_ms)


def _batch(batch: RestartBatch) -> RollBatch:
    return RollBatch(
        brokers=list(batch.brokers),
        rack=batch.rack or None,
        allowed=given_reasons(batch.allowed),
        costs=batch.costs,
        groups=list(batch.hurt[:MAX_NAMES]),
        groups_hurt=len(batch.hurt),
        groups_remote_bytes=sum(each.remote_bytes for each in batch.hurt),
    )
