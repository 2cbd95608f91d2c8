"""``kafka-twin plan roll``: an order of restarts, for people and for scripts."""

from __future__ import annotations

import json
from typing import Any

import click

from streaming.bus import snapshots
from streaming.cli.exporter_client import (
    at_option,
    url_option,
)
from streaming.cli.options import DURATION
from streaming.cli.restart_options import (
    answered,
    now_ms,
    since_option,
    terms_options,
    terms_parameters,
)
from streaming.history.moment import Moment
from streaming.questions.gate.restart import EXIT_CODES
from streaming.questions.gate.roll import RollPlan, plan_roll, roll_lines
from streaming.runtime.config import Config
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
@at_option
@url_option
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def roll(
    ctx: click.Context, brokers: tuple[int, ...], racks: bool, most: int | None, next_only: bool,
    wait: int, since_ms: int, terms: Terms, url: str | None, at: Moment | None, as_json: bool,
) -> None:  # fmt: skip
    """Say in which order brokers may be restarted.

    Prints batches of brokers that may be restarted together, and what each costs. Every batch
    passes the gate as the cluster is now: plan anew after each of them.

    Exits with 0 if every broker is in a batch, with 1 if one may not be restarted now, and with 2
    if that is not known. With --next, exits with 0 if there is a batch.
    """

    def by_bus(config: Config) -> Any:
        view = snapshots.newest(config)
        return plan_roll(
            view, brokers, terms, now_ms(), since_ms=since_ms, by_rack=racks, most=most
        ).data()

    given: dict[str, Any] = {"broker": list(brokers), "racks": racks, "most": most}
    parameters = {name: each for name, each in given.items() if each}
    answer = answered(
        ctx, by_bus, "plans/roll", {**parameters, **terms_parameters(terms, since_ms)}, RollPlan,
        lambda answer: bool(answer["batches"]), wait, url, at, past_too=True,
    )  # fmt: skip
    if next_only and answer["batches"]:
        click.echo(" ".join(map(str, answer["batches"][0]["brokers"])))
        ctx.exit(0)
    lines = "\n".join(roll_lines(answer))
    click.echo(json.dumps(answer) if as_json else lines, err=next_only)
    ctx.exit(EXIT_CODES[answer["verdict"]])
