"""May these brokers be restarted now? The verdict over all shards, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypedDict

import msgspec

from streaming.bus.view import ClusterView
from streaming.questions.answer import NotThereError, listed, some
from streaming.questions.groups import HurtGroup, harm_data, harm_lines
from streaming.runtime.quantities import size_text
from twin.arrays import plain
from twin.builtin import CATALOG
from twin.declarations.table import KAFKA, UNKNOWN
from twin.plans.restart_cost import RestartCost, RestartCosts, restart_costs, total_costs
from twin.questions import gate
from twin.questions.gate import LASTING_REASONS, UNKNOWN_REASONS, Names, Reason, Terms
from twin.questions.whatif_groups import GroupHarm, hurt_by_loss, together

MAX_NAMES: Final = 100
"""Names listed for a reason; ``count`` has the number of all."""

Verdict = Literal["safe", "unsafe", "unknown"]

EXIT_CODES: Final[Mapping[Verdict, int]] = {"safe": 0, "unsafe": 1, "unknown": 2}


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


class RestartVerdict(TypedDict):
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
    costs: dict[str, dict[str, int]]
    groups: list[HurtGroup]
    groups_hurt: int
    groups_remote_bytes: int
    observed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class RestartAnswer:
    """A verdict and the reasons for it."""

    brokers: tuple[int, ...]  # to be restarted together
    reasons: Names  # against a restart
    allowed: Names  # set aside on request
    stale: str  # why the twin is not up, empty if it is
    leaders: int  # partitions that the brokers lead now
    costs: RestartCosts  # by election rule
    hurt: Sequence[GroupHarm]  # groups of consumers, the worst first
    observed_at_ms: int

    @property
    def verdict(self) -> Verdict:
        """Unsafe if one reason is certain; unknown if one may be; safe if there is none."""
        return "unknown" if self.stale else verdict_of(self.reasons)

    def data(self) -> RestartVerdict:
        """The verdict as plain data."""
        return {
            "brokers": list(self.brokers),
            "verdict": self.verdict,
            "once_allowed": "unknown" if self.stale else once_allowed(self.reasons),
            "stale": self.stale or None,
            "reasons": reasons_data(self.reasons),
            "allowed": reasons_data(self.allowed),
            "leaders": self.leaders,
            "costs": costs_data(self.costs),
            **hurt_data(self.hurt),
            "observed_at_ms": plain.integer(self.observed_at_ms),
        }

    def lines(self) -> list[str]:
        """The verdict for a person."""
        return verdict_lines(self.data())


def verdict_lines(answer: RestartVerdict) -> list[str]:
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


class HurtGroups(TypedDict):
    """The groups that are hurt meanwhile: the worst MAX_NAMES, and the numbers of all."""

    groups: list[HurtGroup]
    groups_hurt: int
    groups_remote_bytes: int


def hurt_data(hurt: Sequence[GroupHarm]) -> HurtGroups:
    """The groups as plain data."""
    return {
        "groups": [harm_data(each) for each in hurt[:MAX_NAMES]],
        "groups_hurt": len(hurt),
        "groups_remote_bytes": sum(each.remote_bytes for each in hurt),
    }


def hurt_lines(answer: Mapping[str, Any]) -> list[str]:
    """Sentences about the groups of an answer with ``HurtGroups``."""
    lines = harm_lines(answer["groups"], answer["groups_hurt"], answer["groups_remote_bytes"])
    return [f"  {line}" for line in lines]


def judge(
    view: ClusterView, brokers: Collection[int], terms: Terms, now_ms: int, since_ms: int = UNKNOWN
) -> RestartAnswer:
    """The verdict for brokers that are restarted together; for none, whether all are in sync.

    ``since_ms``: the twin must have observed everything since then.

    Raises:
        NoSuchBrokerError: the twin does not know one of the brokers.
    """
    check_brokers(view, brokers)
    ids = tuple(sorted(set(brokers)))
    states, losses = view.states, view.lose(ids)
    reasons = gate.reasons(states, ids, terms, losses, own=view.cluster)
    return RestartAnswer(
        brokers=ids,
        reasons={r: names for r, names in reasons.items() if not terms.allows(r)},
        allowed={r: names for r, names in reasons.items() if terms.allows(r)},
        stale=why_stale(view, now_ms, since_ms),
        leaders=sum(gate.leadership_count(state, ids) for state in states),
        costs=total_costs(
            restart_costs(state, ids, loss) for state, loss in zip(states, losses, strict=True)
        ),
        hurt=together(
            hurt_by_loss(state, ids, loss) for state, loss in zip(states, losses, strict=True)
        ),
        observed_at_ms=view.observed_at_ms,
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


def costs_data(costs: RestartCosts) -> dict[str, dict[str, int]]:
    """The costs as plain data, by election rule."""
    return {rule: asdict(cost) for rule, cost in costs.items()}


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


def reasons_data(reasons: Names) -> list[GivenReason]:
    """The reasons as plain data."""
    return [
        {
            "reason": reason.name.lower(),
            "meaning": reason.value,
            "remedy": REMEDIES.get(reason),
            "count": len(names),
            "names": list(names[:MAX_NAMES]),
        }
        for reason, names in reasons.items()
    ]


REMEDIES: Final[Mapping[Reason, str]] = {
    Reason.ONE_REPLICA: "--allow-rf1, or for good cluster.one_replica_topics in twin.toml",
    Reason.NO_SPARE_REPLICA: "--allow-rf-min-isr",
    Reason.SMALL_QUORUM: "--allow-small-quorum",
    Reason.COLD: "--cold-ok",
    Reason.OVER_CAPACITY: "--allow-over-capacity",
    Reason.FULL_DISK: "--allow-full-disk",
}
"""How a user allows a reason."""


def is_settled(answer: RestartVerdict) -> bool:
    """It is safe, or for a reason that no waiting removes it will not be."""
    lasting = {reason.name.lower() for reason in LASTING_REASONS}
    return answer["verdict"] == "safe" or any(
        each["reason"] in lasting for each in answer["reasons"]
    )


ALLOWABLE: Final[Mapping[str, Reason]] = {
    "rf1": Reason.ONE_REPLICA,
    "rf_min_isr": Reason.NO_SPARE_REPLICA,
    "small_quorum": Reason.SMALL_QUORUM,
    "cold": Reason.COLD,
    "over_capacity": Reason.OVER_CAPACITY,
    "full_disk": Reason.FULL_DISK,
}
"""The reasons that a user may allow, by the name of the option and parameter."""
