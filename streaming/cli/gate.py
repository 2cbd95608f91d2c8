"""``kafka-twin gate``: a verdict with an exit code, for scripts that restart brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

import click

from streaming.bus import snapshots
from streaming.bus.view import ClusterView
from streaming.cli.whatif import DURATION
from streaming.questions.restart import ALLOWABLE, EXIT_CODES, Answer, judge
from streaming.runtime.config import load
from streaming.runtime.errors import UserError
from twin.gate import Terms

_AGAIN_S: Final = 2.0
"""Between two looks at the snapshots while waiting: a cycle takes longer."""


@click.group()
def gate() -> None:
    """Ask whether something is safe now."""


@gate.command()
@click.option("--broker", type=int, required=True, help="The broker to restart.")
@click.option(
    "--margin", type=click.IntRange(0), default=0, show_default=True,
    help="Replicas in sync above min.insync.replicas that must remain, where there are enough.",
)  # fmt: skip
@click.option("--wait", type=DURATION, default=0, help="Ask again until it is safe, e.g. 15m.")
@click.option("--allow-rf1", is_flag=True, help="Take partitions with one replica offline.")
@click.option(
    "--allow-rf-min-isr", is_flag=True,
    help="Refuse acks=all where there are no more replicas than min.insync.replicas.",
)  # fmt: skip
@click.option("--allow-small-quorum", is_flag=True, help="Stop a quorum of one or two controllers.")
@click.option("--cold-ok", is_flag=True, help="Let cold replicas lead.")
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_context
def restart(
    ctx: click.Context, broker: int, margin: int, wait: int, allow_rf1: bool,
    allow_rf_min_isr: bool, allow_small_quorum: bool, cold_ok: bool, as_json: bool,
) -> None:  # fmt: skip
    """Say whether a broker may be restarted now.

    Exits with 0 if it is safe, with 1 if it is not, and with 2 if that is not known: the twin is
    stale, or a broker does not answer. An error exits with 2 as well.
    """
    chosen = {"rf1": allow_rf1, "rf_min_isr": allow_rf_min_isr, "small_quorum": allow_small_quorum,
              "cold": cold_ok}  # fmt: skip
    terms = Terms(margin, frozenset(ALLOWABLE[name] for name, is_set in chosen.items() if is_set))
    try:
        config = load(ctx.obj)
        answer = _await_safe(lambda: snapshots.newest(config), broker, terms, wait / 1_000)
    except UserError as error:  # a script must not take it for "unsafe", nor for "safe"
        click.echo(f"Error: {error}", err=True)
        ctx.exit(EXIT_CODES["unknown"])
    click.echo(json.dumps(answer.data()) if as_json else "\n".join(answer.lines()))
    ctx.exit(EXIT_CODES[answer.verdict])


def _await_safe(
    read: Callable[[], ClusterView], broker: int, terms: Terms, wait_s: float
) -> Answer:
    """The first answer that is safe, or the last one within the time."""
    until_s = time.monotonic() + wait_s
    while True:
        answer = judge(read(), broker, terms, time.time_ns() // 1_000_000)
        if answer.verdict == "safe" or time.monotonic() + _AGAIN_S >= until_s:
            return answer
        time.sleep(_AGAIN_S)
