"""Parameters that the gate and the order of restarts share: margin, time and allowed reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaming.exporter.endpoint import Values
from streaming.questions.parameters import InputParameter, number, yes_or_no
from streaming.questions.restart import ALLOWABLE
from twin.declarations.table import UNKNOWN
from twin.questions.gate import Terms

SINCE: Final = number("take no observation from before this time, in seconds since the epoch")

TERMS: Final[Mapping[str, InputParameter]] = {
    "since": SINCE,
    "margin": number(
        "replicas in sync above min.insync.replicas that must remain, where there are enough"
    ),
    **{
        f"allow_{name}": yes_or_no(f"allow that {reason.value}")
        for name, reason in ALLOWABLE.items()
    },
}


def since_ms(values: Values) -> int:
    """The time of ``since``."""
    return values["since"] * 1_000 if "since" in values else UNKNOWN


def terms(values: Values) -> Terms:
    """The terms from those parameters."""
    allowed = {reason for name, reason in ALLOWABLE.items() if values.get(f"allow_{name}")}
    return Terms(values.get("margin", 0), frozenset(allowed))
