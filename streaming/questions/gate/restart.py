"""May these brokers be restarted now? The verdict over all shards, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict

import msgspec

from streaming.bus.view import ClusterView
from streaming.questions.answer import NotThereError, harm_lines, listed, some
from streaming.runtime.quantities import size_text
from twin.arrays import plain
from twin.builtin import CATALOG
from twin.declarations.table import KAFKA, UNKNOWN
from twin.plans.restart_cost import RestartCost, RestartCosts, restart_costs, total_costs
from twin.questions import gate
from twin.questions.gate import LASTING_REASONS, UNKNOWN_REASONS, Names, Reason, Terms
from twin.questions.whatif_groups import HurtGroup, hurt_by_loss, together

MAX_NAMES: Final = 100
"""Names listed for a reason; ``count`` has the number of all."""

Verdict = Literal["safe", "unsafe", "unknown"]

EXIT_CODES: Final[Mapping[Verdict, int]] = {"safe": 0, "unsafe": 1, "unknown": 2}


@dataclass(frozen=True, slots=True)
class Allowance:
    """A reason that a user may allow, with which option of a command, and what else allows it."""

    reason: Reason
    option: str
    help: str
    or_else: str = ""


class NoSuchBrokerError(NotThereError):
    """The broker is not one of the cluster's."""


class GivenReason(TypedDict):
    """A reason, and what it is about: at most MAX_NAMES names, ``count`` in all.

    ``remedy`` is how to allow it, null where nothing allows it.
    """

    reason: str
    meaning: str
    remedy: str | None
    count: int
    names: list[str]


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """May the brokers be restarted together? Without brokers: is every broker in sync?

    ``once_allowed`` is the verdict with every reason allowed that no time and no order of restarts
    removes. ``stale`` says why the twin is not up. Of ``groups`` the worst MAX_NAMES are listed.
    ``costs`` are by election rule: the verdict follows Kafka's, ``kafka``.
    """

    brokers: list[int]
    verdict: Verdict
    once_allowed: Verdict
    stale: str | None
    reasons: list[GivenReason]
    allowed: list[GivenReason]
    leaders: int
    costs: RestartCosts
    groups: list[HurtGroup]
    groups_hurt: int
    groups_remote_bytes: int
    observed_at_ms: int | None

    def data(self) -> dict[str, Any]:
        """The verdict as plain data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    def lines(self) -> list[str]:
        """The verdict for a person."""
        return verdict_lines(self.data())


def verdict_lines(answer: Mapping[str, Any]) -> list[str]:
    """The answer for a person: the verdict first, then a line a reason."""
    lines = [_headline(answer["brokers"], answer["verdict"], answer["once_allowed"])]
    if answer["stale"]:
        lines.append(f"  {answer['stale']}")
    lines += reason_lines(answer["reasons"])
    lines += allowed_lines(answer["allowed"])
    if answer["brokers"]:
        costs = msgspec.convert(answer["costs"], dict[str, RestartCost])
        lines.append(f"  meanwhile {cost_text(costs[KAFKA])}")
        lines += other_cost_lines(costs)
    return lines + hurt_lines(answer)


def hurt_lines(answer: Mapping[str, Any]) -> list[str]:
    """Sentences about the groups of an answer."""
    lines = harm_lines(answer["groups"], answer["groups_hurt"], answer["groups_remote_bytes"])
    return [f"  {line}" for line in lines]


def judge(
    view: ClusterView, brokers: Collection[int], terms: Terms, now_ms: int, since_ms: int = UNKNOWN
) -> RestartVerdict:
    """The verdict for brokers that are restarted together; for none, whether all are in sync.

    ``since_ms``: the twin must have observed everything since then.

    Raises:
        NoSuchBrokerError: the twin does not know one of the brokers.
    """
    check_brokers(view, brokers)
    ids = tuple(sorted(set(brokers)))
    states, losses = view.states, view.lose(ids)
    reasons = gate.reasons(states, ids, terms, losses, own=view.cluster)
    against = {r: names for r, names in reasons.items() if not terms.allows(r)}
    allowed = {r: names for r, names in reasons.items() if terms.allows(r)}
    stale = why_stale(view, now_ms, since_ms)
    each = list(zip(states, losses, strict=True))
    hurt = together(hurt_by_loss(state, ids, loss) for state, loss in each)
    return RestartVerdict(
        brokers=list(ids),
        verdict="unknown" if stale else verdict_of(against),
        once_allowed="unknown" if stale else once_allowed(against),
        stale=stale or None,
        reasons=given_reasons(against),
        allowed=given_reasons(allowed),
        leaders=sum(gate.leadership_count(state, ids) for state in states),
        costs=total_costs(restart_costs(state, ids, loss) for state, loss in each),
        groups=hurt[:MAX_NAMES],
        groups_hurt=len(hurt),
        groups_remote_bytes=sum(group.remote_bytes for group in hurt),
        observed_at_ms=plain.integer(view.observed_at_ms),
    )


def _headline(brokers: Sequence[int], verdict: Verdict, then: Verdict) -> str:
    if not brokers:
        return {
            "safe": "every broker is in sync",
            "unsafe": "not every broker is in sync",
            "unknown": "unknown whether every broker is in sync",
        }[verdict]
    who = f"{'broker' if len(brokers) == 1 else 'brokers'} {listed(brokers)}"
    if verdict == "unknown":
        return f"{who}: unknown whether it is safe to restart"
    if verdict == "unsafe" and then == "safe":
        return f"{who}: safe to restart once this is allowed, which no restart can avoid"
    return f"{who}: {verdict} to restart"


def check_brokers(view: ClusterView, brokers: Collection[int]) -> None:
    """Refuse brokers that the twin does not know, once it knows any.

    Raises:
        NoSuchBrokerError: one is not there.
    """
    if not view.shards:
        return
    existing = gate.newest_brokers(shard.state for shard in view.shards).broker.tolist()
    for broker in brokers:
        if broker not in existing:
            raise NoSuchBrokerError(f"there is no broker {broker}; brokers are {listed(existing)}")


def why_stale(view: ClusterView, now_ms: int, since_ms: int) -> str:
    """One sentence, empty while the view is complete, fresh, and observed since that time.

    A cycle lists the cluster before it takes its own time, so only what was observed after an
    earlier cycle of that time or later is certain to be of that time.
    """
    if why := view.why_not_up(now_ms):
        return why
    if any(shard.state.prev_observed_at_ms < since_ms for shard in view.shards):
        return "the twin has not observed the whole cluster since that time yet"
    return ""


def verdict_of(reasons: Names) -> Verdict:
    """Unsafe if one reason is certain; unknown if one may be; safe if there is none."""
    if reasons.keys() - UNKNOWN_REASONS:
        return "unsafe"
    return "unknown" if reasons else "safe"


def once_allowed(reasons: Names) -> Verdict:
    """The verdict without the reasons that no time and no order of restarts removes."""
    return verdict_of({r: names for r, names in reasons.items() if r not in LASTING_REASONS})


def cost_text(cost: RestartCost) -> str:
    """The cost of a restart while it lasts, as a sentence."""
    moved = plain.counted(cost.leaders_moved, "partition gets", "partitions get")
    parts = [f"{moved} another leader"]
    if cost.cold_leaders:
        unknown = f", and more in {cost.remote_bytes_unknown}" if cost.remote_bytes_unknown else ""
        parts.append(
            f"{cost.cold_leaders} of them a cold one (consumers of old records read "
            f"{size_text(cost.remote_bytes)}{unknown} from remote storage)"
        )
    parts.append(f"{plain.counted(cost.at_min_isr, 'is', 'are')} at min ISR")
    if cost.under_min_isr:
        parts.append(f"{cost.under_min_isr} under min ISR")
    if cost.offline:
        parts.append(f"{cost.offline} offline")
    return ", ".join(parts)


def other_cost_lines(costs: RestartCosts) -> list[str]:
    """A line for each other election rule by which the restart costs something else."""
    return [
        f"  by {CATALOG.election_rules.get(rule, rule)}: {cost_text(cost)}"
        for rule, cost in costs.items()
        if cost != costs[KAFKA]
    ]


def reason_lines(reasons: Sequence[GivenReason]) -> list[str]:
    """A line for each reason, with how to allow it."""
    return [
        _line(each) + (f" (to allow it: {each['remedy']})" if each["remedy"] else "")
        for each in reasons
    ]


def allowed_lines(reasons: Sequence[GivenReason]) -> list[str]:
    """A line for each reason that is allowed."""
    return [f"  allowed:{_line(each)[1:]}" for each in reasons]


def _line(reason: GivenReason) -> str:
    return f"  {reason['meaning']}: {some(reason['names'], reason['count'])}"


def given_reasons(reasons: Names) -> list[GivenReason]:
    """The reasons, each with what it is about."""
    return [
        {
            "reason": reason.name.lower(),
            "meaning": reason.value,
            "remedy": _REMEDIES.get(reason),
            "count": len(names),
            "names": list(names[:MAX_NAMES]),
        }
        for reason, names in reasons.items()
    ]


def is_settled(answer: Mapping[str, Any]) -> bool:
    """It is safe, or for a reason that no waiting removes it will not be."""
    lasting = {reason.name.lower() for reason in LASTING_REASONS}
    return answer["verdict"] == "safe" or any(
        each["reason"] in lasting for each in answer["reasons"]
    )


ALLOWABLE: Final[Mapping[str, Allowance]] = {
    "rf1": Allowance(
        Reason.ONE_REPLICA,
        "--allow-rf1",
        "Take partitions with one replica offline.",
        ", or for good cluster.one_replica_topics in twin.toml",
    ),
    "rf_min_isr": Allowance(
        Reason.NO_SPARE_REPLICA,
        "--allow-rf-min-isr",
        "Refuse acks=all where there are no more replicas than min.insync.replicas.",
    ),
    "small_quorum": Allowance(
        Reason.SMALL_QUORUM, "--allow-small-quorum", "Stop a quorum of one or two controllers."
    ),
    "cold": Allowance(Reason.COLD, "--cold-ok", "Let cold replicas lead."),
    "over_capacity": Allowance(
        Reason.OVER_CAPACITY,
        "--allow-over-capacity",
        "Let brokers carry more than the capacity that the configuration gives them.",
    ),
    "full_disk": Allowance(
        Reason.FULL_DISK,
        "--allow-full-disk",
        "Restart brokers of which a disk is full before they are back.",
    ),
}
"""The reasons that a user may allow, by the name of the parameter."""

_REMEDIES: Final = {each.reason: each.option + each.or_else for each in ALLOWABLE.values()}
"""How a user allows a reason."""
