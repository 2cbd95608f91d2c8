"""In which order may brokers be restarted? The plan over all shards, as plain data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypedDict

import msgspec

from streaming.bus.view import ClusterView
from streaming.questions.answer import listed
from streaming.questions.gate.restart import (
    GivenReason,
    Verdict,
    allowed_lines,
    check_brokers,
    cost_text,
    costs_data,
    hurt_data,
    hurt_lines,
    once_allowed,
    other_cost_lines,
    reason_lines,
    reasons_data,
    verdict_of,
    why_stale,
)
from streaming.questions.groups import HurtGroup
from twin.arrays import plain
from twin.declarations.table import KAFKA, UNKNOWN
from twin.plans.restart_cost import RestartCost
from twin.plans.roll import Roll, roll
from twin.questions import gate
from twin.questions.gate import Terms


class RollBatch(TypedDict):
    """Brokers that may be restarted together, in one rack if that is known.

    Of ``groups``, which are hurt meanwhile, the worst MAX_NAMES are listed.
    """

    brokers: list[int]
    rack: str | None
    allowed: list[GivenReason]
    costs: dict[str, dict[str, int]]
    groups: list[HurtGroup]
    groups_hurt: int
    groups_remote_bytes: int


class RollLeftOut(TypedDict):
    """A broker that may not be restarted as things are."""

    broker: int
    verdict: Verdict
    once_allowed: Verdict
    reasons: list[GivenReason]


class RollPlan(TypedDict):
    """An order of restarts. ``stale`` says why there is none."""

    verdict: Verdict
    stale: str | None
    batches: list[RollBatch]
    left_out: list[RollLeftOut]
    observed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class RollAnswer:
    """A plan, or why there is none."""

    roll: Roll
    stale: str  # why the twin is not up, empty if it is
    observed_at_ms: int

    @property
    def verdict(self) -> Verdict:
        """Safe if every broker is in a batch; unsafe if one cannot be; unknown if one may be."""
        verdicts = {verdict_of(each.reasons) for each in self.roll.left_out}
        if self.stale:
            return "unknown"
        if "unsafe" in verdicts:
            return "unsafe"
        return "unknown" if verdicts else "safe"

    def data(self) -> RollPlan:
        """The plan as plain data."""
        return {
            "verdict": self.verdict,
            "stale": self.stale or None,
            "batches": [
                {
                    "brokers": list(batch.brokers),
                    "rack": batch.rack or None,
                    "allowed": reasons_data(batch.allowed),
                    "costs": costs_data(batch.costs),
                    **hurt_data(batch.hurt),
                }
                for batch in self.roll.batches
            ],
            "left_out": [
                {
                    "broker": each.broker,
                    "verdict": verdict_of(each.reasons),
                    "once_allowed": once_allowed(each.reasons),
                    "reasons": reasons_data(each.reasons),
                }
                for each in self.roll.left_out
            ],
            "observed_at_ms": plain.integer(self.observed_at_ms),
        }

    def lines(self) -> list[str]:
        """The plan for a person."""
        return roll_lines(self.data())


def roll_lines(plan: RollPlan) -> list[str]:
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
) -> RollAnswer:
    """The plan for those brokers; if none is named, for all that serve or hold a replica.

    Raises:
        NoSuchBrokerError: the twin does not know one of the brokers.
    """
    check_brokers(view, brokers)
    if stale := why_stale(view, now_ms, since_ms):
        return RollAnswer(Roll((), ()), stale, view.observed_at_ms)
    states = [shard.state for shard in view.shards]
    known = gate.newest_brokers(states)
    to_restart = set(brokers) or set(known.broker[~gate.holding_nothing(states, known)].tolist())
    plan = roll(states, to_restart, terms, by_rack, most, view.cluster)
    return RollAnswer(plan, "", view.observed_at_ms)
