"""``kafka-twin gate``: a verdict with an exit code, for scripts that restart brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

import click

from streaming.bus import BusError, snapshots
from streaming.cli.restart_options import restart_options
from streaming.cli.whatif import DURATION
from streaming.questions.restart import EXIT_CODES, Answer, judge
from streaming.runtime.config import load
from streaming.runtime.errors import UserError
from twin.gate import Terms

_AGAIN_S: Final = 2.0
"""Between two looks at the snapshots while waiting: a cycle takes longer."""


@click.group()
def gate() -> None:
    """Ask whether something is safe now."""


@gate.command()
@click.option(
    "--broker", "brokers", type=int, required=True, multiple=True,
    help="The broker to restart; repeatable for brokers that are restarted together.",
)  # fmt: skip
@click.option("--wait", type=DURATION, default=0, help="Ask again until it is safe, e.g. 15m.")
@restart_options
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def restart(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, terms: Terms, since_ms: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Say whether brokers may be restarted now.

    Exits with 0 if it is safe, with 1 if it is not, and with 2 if that is not known: the twin is
    stale, or a broker does not answer. An error exits with 2 as well.
    """

    def ask() -> Answer:
        return judge(
            snapshots.newest(config), brokers, terms, time.time_ns() // 1_000_000, since_ms
        )

    try:
        config = load(ctx.obj)
        answer = _await_safe(ask, wait / 1_000)
    except UserError as error:  # a script must not take it for "unsafe", nor for "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    click.echo(json.dumps(answer.data()) if as_json else "\n".join(answer.lines()))
    ctx.exit(EXIT_CODES[answer.verdict])


def _await_safe(ask: Callable[[], Answer], wait_s: float) -> Answer:
    """The first answer that is safe, or the last one within the time.

    Raises:
        BusError: the bus cannot be read at the end of the time; before, it may be restarting.
    """
    until_s = time.monotonic() + wait_s
    while True:
        is_last = time.monotonic() + _AGAIN_S >= until_s
        try:
            answer = ask()
            if answer.verdict == "safe" or is_last:
                return answer
        except BusError:
            if is_last:
                raise
        time.sleep(_AGAIN_S)
