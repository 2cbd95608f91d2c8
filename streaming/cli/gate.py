"""``kafka-twin gate``: a verdict with an exit code, for scripts that restart brokers."""

from __future__ import annotations

import json

import click

from streaming.bus import snapshots
from streaming.cli.restart_options import ask_until, now_ms, since_option, terms_options
from streaming.cli.whatif import DURATION
from streaming.questions.restart import EXIT_CODES, Answer, judge
from streaming.runtime.config import load
from streaming.runtime.errors import UserError
from twin.gate import Terms


@click.group()
def gate() -> None:
    """Ask whether something is safe now."""


@gate.command()
@click.option(
    "--broker", "brokers", type=int, required=True, multiple=True,
    help="The broker to restart; repeatable for brokers that are restarted together.",
)  # fmt: skip
@click.option("--wait", type=DURATION, default=0, help="Ask again until it is safe, e.g. 15m.")
@since_option
@terms_options
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def restart(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, since_ms: int, terms: Terms,
    as_json: bool,
) -> None:  # fmt: skip
    """Say whether brokers may be restarted now.

    Exits with 0 if it is safe, with 1 if it is not, and with 2 if that is not known: the twin is
    stale, or a broker does not answer. An error exits with 2 as well.
    """
    _answer(ctx, brokers, wait, since_ms, terms, as_json)


@gate.command("in-sync")
@click.option("--wait", type=DURATION, default=0, help="Ask again until all are, e.g. 15m.")
@since_option
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def in_sync(ctx: click.Context, wait: int, since_ms: int, as_json: bool) -> None:
    """Say whether every broker is back and in sync.

    To wait with --since after a restart. Exits with 0 if no broker is out and each is in every ISR
    of its replicas, with 1 if not, and with 2 if that is not known.
    """
    _answer(ctx, (), wait, since_ms, Terms(), as_json)


def _answer(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, since_ms: int, terms: Terms,
    as_json: bool,
) -> None:  # fmt: skip
    def ask() -> Answer:
        return judge(snapshots.newest(config), brokers, terms, now_ms(), since_ms)

    try:
        config = load(ctx.obj)
        answer = ask_until(ask, lambda answer: answer.verdict == "safe", wait)
    except UserError as error:  # a script must not take it for "unsafe", nor for "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    click.echo(json.dumps(answer.data()) if as_json else "\n".join(answer.lines()))
    ctx.exit(EXIT_CODES[answer.verdict])
