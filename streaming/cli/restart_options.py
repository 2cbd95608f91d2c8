"""Options of the commands that ask whether brokers may be restarted: the gate and ``plan roll``."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from streaming.bus.connection import BusError
from streaming.cli.exporter_client import (
    ExporterUnavailableError,
    Parameters,
    ask,
    at_parameters,
    note_moment,
)
from streaming.history.moment import Moment, MomentError
from streaming.questions.gate.restart import ALLOWABLE, EXIT_CODES
from streaming.runtime.config import Config
from streaming.runtime.configuration.chosen import chosen
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from twin.declarations.table import UNKNOWN
from twin.questions.gate import Terms

T = TypeVar("T")

_AGAIN_S: Final = 2.0
"""Seconds between two reads of the snapshots while waiting: a cycle takes longer."""


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
            each.reason for name, each in ALLOWABLE.items() if options.pop(f"allow_{name}")
        )
        command(*args, terms=Terms(margin, allowed), **options)

    for name, each in reversed(list(ALLOWABLE.items())):
        flag = click.option(each.option, f"allow_{name}", is_flag=True, help=each.help)
        with_terms = flag(with_terms)
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
    allowed = {
        f"allow_{name}": True for name, each in ALLOWABLE.items() if each.reason in terms.allowed
    }
    return {"margin": terms.margin, **allowed, **since}


def answered(
    ctx: click.Context, by_bus: Callable[[Config], Any], path: str, parameters: Parameters,
    form: Any, is_enough: Callable[[Any], bool], wait_ms: int, url: str | None, at: Moment | None,
    *, past_too: bool,
) -> Any:  # fmt: skip
    """The answer of the bus or of an exporter. Without one, the command exits as if unknown.

    Unless ``past_too``, what shows the past alone is refused where --at does not ask about it.
    """
    try:
        moment = at_parameters(url, at)
        if moment and wait_ms:
            raise MomentError("--wait cannot be combined with --at")
        config = chosen(ctx).config() if url is None else None

        def once() -> Any:
            if config is not None:
                return by_bus(config)
            return ask(str(url), path, {**parameters, **moment}, form)

        answer = ask_until(once, is_enough, wait_ms)
        if "at" in answer and not moment and not past_too:
            raise MomentError(f"{url} shows the past: --at asks about it")
    except UserError as error:  # a script must not read it as "unsafe" or "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    note_moment(answer)
    return answer


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
