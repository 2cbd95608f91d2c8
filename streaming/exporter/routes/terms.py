"""Parameters that the gate and the order of restarts share: margin, time and allowed reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from streaming.questions.gate.restart import ALLOWABLE
from streaming.questions.parameters import InputParameter, number, yes_or_no
from twin.declarations.table import UNKNOWN
from twin.questions.gate import Terms

SINCE: Final = number("take no observation from before this time, in seconds since the epoch")


def _allows(name: str) -> InputParameter:
    return yes_or_no(f"allow that {ALLOWABLE[name].reason.value}")


@dataclass(frozen=True, slots=True)
class GivenTerms:
    """The terms of a restart, as parameters of a URL."""

    since: Annotated[int, SINCE] = UNKNOWN
    margin: Annotated[
        int,
        number(
            "replicas in sync above min.insync.replicas that must remain, where there are enough"
        ),
    ] = 0
    allow_rf1: Annotated[bool, _allows("rf1")] = False
    allow_rf_min_isr: Annotated[bool, _allows("rf_min_isr")] = False
    allow_small_quorum: Annotated[bool, _allows("small_quorum")] = False
    allow_cold: Annotated[bool, _allows("cold")] = False
    allow_over_capacity: Annotated[bool, _allows("over_capacity")] = False
    allow_full_disk: Annotated[bool, _allows("full_disk")] = False

    @property
    def terms(self) -> Terms:
        """Margin and allowed reasons."""
        allowed = {
            each.reason for name, each in ALLOWABLE.items() if getattr(self, f"allow_{name}")
        }
        return Terms(self.margin, frozenset(allowed))


def in_ms(since: int) -> int:
    """The time of ``since``."""
    return UNKNOWN if since == UNKNOWN else since * 1_000
