"""May this broker be restarted now? The verdict over all shards, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from streaming.bus.view import ClusterView
from streaming.questions.answer import some
from streaming.runtime.errors import UserError
from twin import gate
from twin.gate import UNKNOWN_REASONS, Names, Reason, Terms
from twin.tables.state import Brokers, ControllerQuorum

MAX_NAMES: Final = 100
"""Names listed for a reason; ``count`` has the number of all."""

Verdict = Literal["safe", "unsafe", "unknown"]

EXIT_CODES: Final[Mapping[Verdict, int]] = {"safe": 0, "unsafe": 1, "unknown": 2}


class NoSuchBrokerError(UserError):
    """The broker is not one of the cluster's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict and the reasons for it."""

    broker: int
    reasons: Names  # against a restart
    allowed: Names  # set aside on request
    stale: str  # why the twin is not up, empty if it is
    leaders: int  # partitions that the broker leads now
    observed_at_ms: int

    @property
    def verdict(self) -> Verdict:
        """Unsafe if one reason is certain; unknown if one may be; safe if there is none."""
        if self.stale:
            return "unknown"
        if self.reasons.keys() - UNKNOWN_REASONS:
            return "unsafe"
        return "unknown" if self.reasons else "safe"

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "broker": self.broker,
            "verdict": self.verdict,
            "stale": self.stale or None,
            "reasons": _listed(self.reasons),
            "allowed": _listed(self.allowed),
            "leaders": self.leaders,
            "observed_at_ms": self.observed_at_ms,
        }

    def lines(self) -> list[str]:
        """For a person: the verdict first, then a line a reason."""
        lines = [f"broker {self.broker}: {self.verdict} to restart"]
        if self.verdict == "unknown":
            lines = [f"broker {self.broker}: unknown whether it is safe to restart"]
        if self.stale:
            lines.append(f"  {self.stale}")
        for reason, names in self.reasons.items():
            lines.append(f"  {len(names)} {reason.value}: {some(names)}")
        for reason, names in self.allowed.items():
            lines.append(f"  allowed: {len(names)} {reason.value}: {some(names)}")
        lines.append(f"  it leads {self.leaders} partitions, which get another leader")
        return lines


def judge(view: ClusterView, broker: int, terms: Terms, now_ms: int) -> Answer:
    """The verdict for one broker.

    Raises:
        NoSuchBrokerError: the twin does not know the broker.
    """
    newest = view.newest
    brokers = Brokers.empty() if newest is None else newest[Brokers]
    if newest is not None and broker not in brokers.broker:
        ids = ", ".join(map(str, brokers.broker.tolist()))
        raise NoSuchBrokerError(f"there is no broker {broker}; brokers are {ids}")
    states = [shard.state for shard in view.shards]
    quorum = max(
        (state[ControllerQuorum] for state in states),
        key=lambda each: int(each.observed_at_ms.max(initial=-1)),
        default=ControllerQuorum.empty(),
    )
    reasons = gate.combined(
        [
            *(gate.restart(state, broker, terms) for state in states),
            gate.not_in_sync([gate.outside_isr(state, broker) for state in states]),
            gate.of_brokers(brokers, broker),
            gate.of_quorum(quorum, broker),
        ]
    )
    return Answer(
        broker=broker,
        reasons={r: names for r, names in reasons.items() if r not in terms.allowed},
        allowed={r: names for r, names in reasons.items() if r in terms.allowed},
        stale=view.why_not_up(now_ms),
        leaders=sum(gate.led_by(state, broker) for state in states),
        observed_at_ms=view.observed_at_ms,
    )


def _listed(reasons: Names) -> list[dict[str, Any]]:
    return [
        {
            "reason": reason.name.lower(),
            "meaning": reason.value,
            "count": len(names),
            "names": list(names[:MAX_NAMES]),
        }
        for reason, names in reasons.items()
    ]


ALLOWABLE: Final[Mapping[str, Reason]] = {
    "rf1": Reason.ONE_REPLICA,
    "rf_min_isr": Reason.NO_SPARE_REPLICA,
    "small_quorum": Reason.SMALL_QUORUM,
    "cold": Reason.COLD,
}
"""The reasons that a user may allow, by the name of the option and parameter."""
