"""``kafka-twin diff``: what differs between two moments of the past that an exporter knows."""

from __future__ import annotations

import sys

import click

from streaming.cli.exporter_client import Url, ask
from streaming.cli.options import ParameterType
from streaming.cli.whatif import print_answer
from streaming.history.differences.compared import Differences
from streaming.history.differences.text import text
from streaming.history.moment import Moment, moment
from streaming.questions.parameters import MAX_ROWS

_MOMENT = ParameterType(moment("a moment"))


@click.command()
@click.option(
    "--from", "begin", type=_MOMENT, required=True,
    help="The earlier moment: 2026-11-24T03:00:00Z, or -15m for a time ago.",
)  # fmt: skip
@click.option("--to", "end", type=_MOMENT, help="The later moment; the newest one by default.")
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, help="The number of partitions to skip."
)
@click.option(
    "--url",
    type=Url(),
    required=True,
    help="The exporter to ask, e.g. http://127.0.0.1:9410: one that knows the past.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Plain data, at most {MAX_ROWS} partitions.")
def diff(begin: Moment, end: Moment | None, offset: int, url: str, as_json: bool) -> None:
    """Say what differs between two moments.

    Leaders, ISRs, assignments, risks, settings, sizes and groups that differ, and partitions and
    brokers that came or went. Counts come first.
    """
    given: dict[str, str | int] = {"from": begin.text, "limit": MAX_ROWS, "offset": offset}
    if end is not None:
        given["to"] = end.text
    print_answer(text(ask(url, "diff", given, Differences)), as_json, sys.stdout)
