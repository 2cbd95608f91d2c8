"""``kafka-twin whatif``: the twin's rules over the newest snapshots, with something changed.

It reads the snapshots from the bus and calls ``twin.whatif``; it does not connect to the cluster.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

import click

from streaming.bus import snapshots
from streaming.questions.answer import Answer, WhatIfError
from streaming.questions.bootstrap import bootstrapped
from streaming.questions.loss import lost
from streaming.questions.quantities import UNITS_BYTES, UNITS_MS, parse
from streaming.questions.retention import retained
from streaming.questions.threshold import GRID, thresholds
from streaming.runtime.config import Config, load
from streaming.runtime.terminal import table, width_of
from twin.state import ShardState
from twin.table import UNKNOWN
from twin.tables.enums import CLUSTER_WIDE

MOST_ROWS: Final = 50


class _Quantity(click.ParamType[int]):
    """A number with a unit."""

    def __init__(self, name: str, units: dict[str, int], examples: str) -> None:
        self.name, self._units, self._examples = name, units, examples

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        amount = parse(value, self._units)
        if amount is None:
            self.fail(f"{value!r} is no {self.name}; write {self._examples}", param, ctx)
        return amount


DURATION: Final = _Quantity("duration", UNITS_MS, "10m, 90s, 2h or milliseconds")
SIZE: Final = _Quantity("size", UNITS_BYTES, "100MiB, 2GiB or bytes")


@click.group()
def whatif() -> None:
    """Ask what would happen; change nothing.

    The rules are applied to the newest snapshots as if something were different.
    """


def _json_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option("--json", "as_json", is_flag=True, help="Plain data, all rows.")(command)


@whatif.command()
@click.option("--broker", "brokers", type=int, multiple=True, help="A broker to lose; repeatable.")
@click.option("--rack", "racks", multiple=True, help="All brokers of a rack; repeatable.")
@_json_option
@click.pass_obj
def lose(config: Any, brokers: tuple[int, ...], racks: tuple[str, ...], as_json: bool) -> None:
    """Lose brokers or racks at once.

    Shows who leads each affected partition then, and how safe that leader is.
    """
    if not brokers and not racks:
        raise WhatIfError("say what is lost: --broker 3, or --rack az-a; both may be repeated")
    _answer(config, lambda states: lost(states, brokers, racks), as_json)


@whatif.command()
@click.option("--ms", type=DURATION, default=UNKNOWN, help="Span of local log, e.g. 10m.")
@click.option("--bytes", "size", type=SIZE, default=UNKNOWN, help="Its size, e.g. 100MiB.")
@click.option("--grid", is_flag=True, help="A curve: a tenth to four times of what is given.")
@click.option("--topic", default=CLUSTER_WIDE, help="For this topic alone.")
@_json_option
@click.pass_obj
def threshold(config: Any, ms: int, size: int, grid: bool, topic: str, as_json: bool) -> None:
    """Set thresholds of KIP-1303.

    Cluster-wide, or for a topic. Shows which replicas are cold then, how leaders are spread over
    racks, and how long they stay out of balance. Topics with thresholds of their own keep them.
    """
    if ms <= 0 and size <= 0:
        raise WhatIfError("say a threshold: --ms 10m, --bytes 100MiB, or both")
    shares = GRID if grid else (1.0,)
    _answer(config, lambda states: thresholds(states, ms, size, shares, topic), as_json)


@whatif.command()
@click.option("--broker", type=int, required=True, help="The broker whose disk is empty.")
@click.option("--new", "is_new", is_flag=True, help="It is not there yet.")
@click.option(
    "--rate", type=SIZE, default="50MiB", show_default=True, help="Bytes it copies a second."
)
@_json_option
@click.pass_obj
def bootstrap(config: Any, broker: int, is_new: bool, rate: int, as_json: bool) -> None:
    """Let an empty broker join.

    Shows what it copies with KIP-1023 and without: the replicas assigned to it, or a fair share of
    all replicas if it has none.
    """
    if rate <= 0:
        raise WhatIfError("--rate must be positive")
    _answer(config, lambda states: bootstrapped(states, broker, rate, is_new), as_json)


@whatif.command()
@click.option("--local-ms", type=DURATION, default=UNKNOWN, help="local.retention.ms, e.g. 1h.")
@click.option("--local-bytes", type=SIZE, default=UNKNOWN, help="local.retention.bytes.")
@_json_option
@click.pass_obj
def retention(config: Any, local_ms: int, local_bytes: int, as_json: bool) -> None:
    """Change local retention of tiered topics.

    Shows which replicas are cold then, and how far local logs reach back. Logs above the new limit
    are treated as truncated at once; raising the limit shows no effect until logs grow.
    """
    if local_ms == UNKNOWN and local_bytes == UNKNOWN:
        raise WhatIfError("say a retention: --local-ms 1h, --local-bytes 10GiB, or both")
    _answer(config, lambda states: retained(states, local_ms, local_bytes), as_json)


def _answer(config: Any, question: Callable[[list[ShardState]], Answer], as_json: bool) -> None:
    print_answer(question(read(load(config))), as_json, sys.stdout)


def read(config: Config) -> list[ShardState]:
    """The newest snapshot of every shard; prints a note if it is old.

    Raises:
        BusError: the bus cannot be read.
        WhatIfError: it does not hold a snapshot of every shard.
    """
    view = snapshots.newest(config)
    if len(view.shards) < view.shards_expected:
        refused = "; ".join(f"{n} refused: {why}" for why, n in view.snapshots_refused.items())
        raise WhatIfError(
            f"the bus holds snapshots of {len(view.shards)} of {view.shards_expected} shards of "
            f"cluster {config.cluster.name}: do collector and query run? {refused}".rstrip()
        )
    if old := view.why_not_up(time.time_ns() // 1_000_000):
        click.echo(f"note: {old}", err=True)
    return [shard.state for shard in view.shards]


def print_answer(answer: Answer, as_json: bool, out: TextIO) -> None:
    """Print the answer for a person, or as one line of JSON."""
    if as_json:
        out.write(json.dumps(answer.data) + "\n")
        return
    for line in answer.lines:
        out.write(line + "\n")
    if not answer.rows:
        return
    out.write(table(answer.header, answer.rows[:MOST_ROWS], borders=True, width=width_of(out)))
    if len(answer.rows) > MOST_ROWS:
        out.write(f"{len(answer.rows) - MOST_ROWS} more; --json has all of them\n")
