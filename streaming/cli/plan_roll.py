"""``kafka-twin plan roll``: an order of restarts, for people and for scripts."""

from __future__ import annotations

import json
import time

import click

from streaming.bus import snapshots
from streaming.cli.restart_options import restart_options
from streaming.questions.restart import EXIT_CODES
from streaming.questions.roll import plan_roll
from streaming.runtime.config import load
from streaming.runtime.errors import UserError
from twin.gate import Terms


@click.command()
@click.option(
    "--broker", "brokers", type=int, multiple=True,
    help="A broker to restart; repeatable. All brokers by default.",
)  # fmt: skip
@click.option("--racks", is_flag=True, help="A batch may be several brokers of one rack.")
@click.option("--most", type=click.IntRange(1), help="Brokers of a batch at most, with --racks.")
@restart_options
@click.option("--next", "next_only", is_flag=True, help="Print the brokers of the first batch.")
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def roll(
    ctx: click.Context, brokers: tuple[int, ...], racks: bool, most: int | None, terms: Terms,
    since_ms: int, next_only: bool, as_json: bool,
) -> None:  # fmt: skip
    """Say in which order brokers may be restarted.

    Prints batches of brokers that may be restarted together, and what each costs. Every batch
    passes the gate as the cluster is now: plan anew after each of them.

    Exits with 0 if every broker is in a batch, with 1 if one may not be restarted now, and with 2
    if that is not known. With --next, exits with 0 if there is a batch.
    """
    try:
        view = snapshots.newest(load(ctx.obj))
        answer = plan_roll(
            view, brokers, terms, time.time_ns() // 1_000_000,
            since_ms=since_ms, by_rack=racks, most=most,
        )  # fmt: skip
    except UserError as error:  # a script must not take it for "unsafe", nor for "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    if next_only and answer.roll.batches:
        click.echo(" ".join(map(str, answer.roll.batches[0].brokers)))
        ctx.exit(0)
    lines = "\n".join(answer.lines())
    click.echo(json.dumps(answer.data()) if as_json else lines, err=next_only)
    ctx.exit(EXIT_CODES[answer.verdict])
