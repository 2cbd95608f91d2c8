"""``kafka-twin gate``: a verdict with an exit code, for scripts that restart brokers."""

from __future__ import annotations

import json
from typing import Any

import click

from streaming.bus import snapshots
from streaming.cli.exporter_client import Parameters, ask, url_option
from streaming.cli.options import DURATION
from streaming.cli.restart_options import ask_until, now_ms, since_option, terms_options
from streaming.questions.restart import (
    ALLOWABLE,
    EXIT_CODES,
    RestartVerdict,
    is_settled,
    judge,
    verdict_lines,
)
from streaming.runtime.config import load
from streaming.runtime.errors import UserError
from twin.declarations.table import UNKNOWN
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
@url_option
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def restart(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, since_ms: int, terms: Terms,
    url: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say whether brokers may be restarted now.

    Exits with 0 if it is safe, with 1 if it is not, and with 2 if that is not known: the twin is
    stale, or a broker does not answer. An error exits with 2 as well.
    """
    _answer(ctx, brokers, wait, since_ms, terms, url, as_json)


@gate.command("in-sync")
@click.option("--wait", type=DURATION, default=0, help="Ask again until all are, e.g. 15m.")
@since_option
@url_option
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def in_sync(ctx: click.Context, wait: int, since_ms: int, url: str | None, as_json: bool) -> None:
    """Say whether every broker is back and in sync.

    To wait with --since after a restart. Exits with 0 if no broker is out and each is in every ISR
    of its replicas, with 1 if not, and with 2 if that is not known.
    """
    _answer(ctx, (), wait, since_ms, Terms(), url, as_json)


def _answer(
    ctx: click.Context, brokers: tuple[int, ...], wait: int, since_ms: int, terms: Terms,
    url: str | None, as_json: bool,
) -> None:  # fmt: skip
    def by_bus() -> Any:
        return judge(snapshots.newest(config), brokers, terms, now_ms(), since_ms).data()

    def by_exporter() -> Any:
        path, parameters = _request(brokers, terms, since_ms)
        return ask(str(url), path, parameters, RestartVerdict)

    try:
        if url is None:
            config = load(ctx.obj)
        verdict = by_bus if url is None else by_exporter
        answer = ask_until(verdict, is_settled, wait)
    except UserError as error:  # a script must not read it as "unsafe" or "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    click.echo(json.dumps(answer) if as_json else "\n".join(verdict_lines(answer)))
    ctx.exit(EXIT_CODES[answer["verdict"]])


def _request(brokers: tuple[int, ...], terms: Terms, since_ms: int) -> tuple[str, Parameters]:
    """The path and parameters of the same question to an exporter."""
    # Whole seconds, rounded up: a later limit is on the safe side.
    since: Parameters = {} if since_ms == UNKNOWN else {"since": -(-since_ms // 1_000)}
    if not brokers:
        return "brokers/in-sync", since
    first, *others = sorted(set(brokers))
    allowed = {f"allow_{name}": True for name, each in ALLOWABLE.items() if each in terms.allowed}
    more = {"with": others, "margin": terms.margin, **allowed, **since}
    return f"brokers/{first}/restart", more
