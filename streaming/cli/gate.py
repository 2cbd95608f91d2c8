"""``kafka-twin gate``: a verdict with an exit code, for scripts that restart brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from streaming.bus import snapshots
from streaming.bus.connection import BusError
from streaming.cli.exporter_client import (
    Parameters,
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
from streaming.plans.events import send_judged
from streaming.questions.gate.restart import (
    EXIT_CODES,
    RestartVerdict,
    is_settled,
    judge,
    verdict_lines,
)
from streaming.runtime.config import Config
from streaming.runtime.configuration.chosen import chosen
from twin.questions.gate import Terms


@click.group()
def gate() -> None:
    """Ask whether something is safe now."""


@gate.command()
@click.option(
    "--broker", "brokers", type=int, required=True, multiple=True,
    help="The broker to restart; repeatable for brokers that are restarted together.",
)  # fmt: skip
@click.option(
    "--wait",
    type=DURATION,
    default=0,
    help="Ask again until it is safe, e.g. 15m; not where no waiting helps.",
)
@since_option
@terms_options
@at_option
@url_option
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def restart(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, since_ms: int, terms: Terms,
    url: str | None, at: Moment | None, as_json: bool,
) -> None:  # fmt: skip
    """Say whether brokers may be restarted now.

    Exits with 0 if it is safe, with 1 if it is not, and with 2 if that is not known: the twin is
    stale, or a broker does not answer. An error exits with 2 as well.
    """
    _answer(ctx, brokers, wait, since_ms, terms, url, at, as_json)


@gate.command("in-sync")
@click.option("--wait", type=DURATION, default=0, help="Ask again until all are, e.g. 15m.")
@since_option
@at_option
@url_option
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def in_sync(
    ctx: click.Context, wait: int, since_ms: int, url: str | None, at: Moment | None, as_json: bool
) -> None:
    """Say whether every broker is back and in sync.

    To wait with --since after a restart. Exits with 0 if no broker is out and each is in every ISR
    of its replicas, with 1 if not, and with 2 if that is not known.
    """
    _answer(ctx, (), wait, since_ms, Terms(), url, at, as_json)


def _answer(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, since_ms: int, terms: Terms,
    url: str | None, at: Moment | None, as_json: bool,
) -> None:  # fmt: skip
    def by_bus(config: Config) -> Any:
        return judge(snapshots.newest(config), brokers, terms, now_ms(), since_ms).data()

    path, parameters = _request(brokers, terms, since_ms)
    answer = answered(
        ctx, by_bus, path, parameters, RestartVerdict, is_settled, wait, url, at, past_too=False
    )
    if url is None and brokers and (config := chosen(ctx).config()).gate.record:
        _record(config, answer)
    click.echo(json.dumps(answer) if as_json else "\n".join(verdict_lines(answer)))
    ctx.exit(EXIT_CODES[answer["verdict"]])


def _record(config: Config, verdict: Mapping[str, Any]) -> None:
    """Send the event of a verdict; that it cannot be sent changes no verdict."""
    try:
        send_judged(config, verdict, now_ms())
    except BusError as error:
        click.echo(f"gate.record: the verdict is not recorded: {error}", err=True)


def _request(brokers: tuple[int, ...], terms: Terms, since_ms: int) -> tuple[str, Parameters]:
    """The path and parameters of the same question to an exporter."""
    parameters = terms_parameters(terms, since_ms)
    if not brokers:
        return "brokers/in-sync", {n: each for n, each in parameters.items() if n == "since"}
    first, *others = sorted(set(brokers))
    return f"brokers/{first}/restart", {"with": others, **parameters}
