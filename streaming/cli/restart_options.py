"""Options of the commands that ask whether brokers may be restarted: the gate and ``plan roll``."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from streaming.bus.connection import BusError
from streaming.cli.exporter_client import ExporterUnavailableError
from streaming.questions.gate.restart import ALLOWABLE
from streaming.runtime.deadline import Deadline
from twin.declarations.table import UNKNOWN
from twin.questions.gate import Terms

T = TypeVar("T")

_AGAIN_S: Final = 2.0
"""Seconds between two reads of the snapshots while waiting: a cycle takes longer."""

_ALLOW: Final = {
    "rf1": ("--allow-rf1", "Take partitions with one replica offline."),
    "rf_min_isr": (
        "--allow-rf-min-isr",
        "Refuse acks=all where there are no more replicas than min.insync.replicas.",
    ),
    "small_quorum": ("--allow-small-quorum", "Stop a quorum of one or two controllers."),
    "cold": ("--cold-ok", "Let cold replicas lead."),
    "over_capacity": (
        "--allow-over-capacity",
        "Let brokers carry more than the capacity that the configuration gives them.",
    ),
    "full_disk": (
        "--allow-full-disk",
        "Restart brokers of which a disk is full before they are back.",
    ),
}


class _Moment(click.ParamType[float]):
    """Seconds since the epoch, or now: when the command begins."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value == "now":
            return time.time()
        return float(click.FloatRange(0).convert(value, param, ctx))


def since_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --since; the command gets it as ``since_ms``."""

    @click.option(
        "--since",
        type=_Moment(),
        metavar="now|SECONDS",
        help="Take no observation from before this time; seconds are as date +%s prints them.",
    )
    @functools.wraps(command)
    def with_since(*args: Any, since: float | None, **options: Any) -> None:
        command(*args, since_ms=UNKNOWN if since is None else int(since * 1_000), **options)

    return with_since


def terms_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --margin and the options that allow reasons; the command gets them as ``terms``."""

    @functools.wraps(command)
    def with_terms(*args: Any, margin: int, **options: Any) -> None:
        allowed = frozenset(
            reason for name, reason in ALLOWABLE.items() if options.pop(f"allow_{name}")
        )
        command(*args, terms=Terms(margin, allowed), **options)

    for name, (flag, text) in reversed(_ALLOW.items()):
        with_terms = click.option(flag, f"allow_{name}", is_flag=True, help=text)(with_terms)
    return click.option(
        "--margin",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Replicas in sync above min.insync.replicas that must remain, where there are enough.",
    )(with_terms)


def terms_parameters(terms: Terms, since_ms: int) -> dict[str, int | bool]:
    """The same as parameters of a question to an exporter."""
    # Whole seconds, rounded up: a later limit is on the safe side.
    since = {} if since_ms == UNKNOWN else {"since": -(-since_ms // 1_000)}
    allowed = {f"allow_{name}": True for name, each in ALLOWABLE.items() if each in terms.allowed}
    return {"margin": terms.margin, **allowed, **since}


def ask_until(ask: Callable[[], T], is_enough: Callable[[T], bool], wait_ms: int) -> T:
    """The first answer that settles the question, or the last one in time.

    Raises:
        BusError: the bus cannot be read at the end of the time; before, it may be restarting.
        ExporterUnavailableError: likewise, an exporter.
    """
    deadline = Deadline.after_ms(wait_ms)
    while True:
        is_last = deadline.left_s <= _AGAIN_S
        try:
            answer = ask()
            if is_last or is_enough(answer):
                return answer
        except (BusError, ExporterUnavailableError):
            if is_last:
                raise
        time.sleep(_AGAIN_S)


def now_ms() -> int:
    """The time that ages of observations are computed from."""
    return time.time_ns() // 1_000_000
