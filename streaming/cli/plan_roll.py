"""``kafka-twin plan roll``: an order of restarts, for people and for scripts."""

from __future__ import annotations

import json

import click

from streaming.bus import snapshots
from streaming.cli.options import DURATION
from streaming.cli.restart_options import ask_until, now_ms, since_option, terms_options
from streaming.questions.restart import EXIT_CODES
from streaming.questions.roll import RollAnswer, plan_roll
from streaming.runtime.config import load
from streaming.runtime.errors import UserError
from twin.questions.gate import Terms


@click.command()
@click.option(
    "--broker", "brokers", type=int, multiple=True,
    help="A broker to restart; repeatable. All brokers by default.",
)  # fmt: skip
@click.option("--racks", is_flag=True, help="A batch may be several brokers of one rack.")
@click.option("--most", type=click.IntRange(1), help="Brokers of a batch at most, with --racks.")
@click.option("--next", "next_only", is_flag=True, help="Print the first batch: its broker ids.")
@click.option("--wait", type=DURATION, default=0, help="Ask again until a batch may go, e.g. 15m.")
@since_option
@terms_options
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def roll(
    ctx: click.Context, brokers: tuple[int, ...], racks: bool, most: int | None, next_only: bool,
    wait: int, since_ms: int, terms: Terms, as_json: bool,
) -> None:  # fmt: skip
    """Say in which order brokers may be restarted.

    Prints batches of brokers that may be restarted together, and what each costs. Every batch
    passes the gate as the cluster is now: plan anew after each of them.

    Exits with 0 if every broker is in a batch, with 1 if one may not be restarted now, and with 2
    if that is not known. With --next, exits with 0 if there is a batch.
    """

    def ask() -> RollAnswer:
        view = snapshots.newest(config)
        return plan_roll(
            view, brokers, terms, now_ms(), since_ms=since_ms, by_rack=racks, most=most
        )

    try:
        config = load(ctx.obj)
        answer = ask_until(ask, lambda answer: bool(answer.roll.batches), wait)
    except UserError as error:  # a script must not read it as "unsafe" or "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    if next_only and answer.roll.batches:
        click.echo(" ".join(map(str, answer.roll.batches[0].brokers)))
        ctx.exit(0)
    lines = "\n".join(answer.lines())
    click.echo(json.dumps(answer.data()) if as_json else lines, err=next_only)
    ctx.exit(EXIT_CODES[answer.verdict])
