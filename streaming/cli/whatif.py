"""``kafka-twin whatif``: the twin's rules over the newest snapshots, with something changed.

It reads the snapshots from the bus and calls ``twin.whatif``, or asks an exporter that does the
same; it does not connect to the cluster.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, TextIO

import click

from streaming.bus import snapshots
from streaming.bus.view import ClusterView
from streaming.cli.exporter_client import Parameters, ask, url_option
from streaming.questions.answer import Answer, WhatIfError
from streaming.questions.bootstrap import Bootstrapped, bootstrapped, bootstrapped_text
from streaming.questions.loss import Lost, lost, lost_text
from streaming.questions.quantities import UNITS_BYTES, UNITS_MS, parse
from streaming.questions.retention import Retained, retained, retained_text
from streaming.questions.threshold import GRID, Thresholds, thresholds, thresholds_text
from streaming.runtime.config import Config, load
from streaming.runtime.plugins import catalog_of
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


def _options(command: Callable[..., None]) -> Any:
    """Options of every question, gathered in ``asked``."""

    def gathered(config: Path | None, url: str | None, as_json: bool, **own: Any) -> None:
        command(_Asked(config, url, as_json), **own)

    wrapped: Any = wraps(command)(gathered)
    as_data = click.option("--json", "as_json", is_flag=True, help="Plain data, all rows.")
    return as_data(url_option(click.pass_obj(wrapped)))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The source of an answer, an exporter if there is a URL and else the bus, and its form."""

    config: Path | None
    url: str | None
    as_json: bool

    def answer(
        self,
        question: Callable[[list[ShardState]], Answer],
        path: str,
        parameters: Parameters,
        text: Callable[[Mapping[str, Any]], Answer],
        form: Any,
    ) -> None:
        """Print the answer, whose ``text`` is made of its data in that form."""
        if self.url is None:
            view = read(load(self.config))
            data = {
                **question([shard.state for shard in view.shards]).data,
                "observed_at_ms": view.observed_at_ms,
                "stale": view.why_not_up(time.time_ns() // 1_000_000) or None,
            }
        else:
            data = ask(self.url, f"whatif/{path}", parameters, form)
        if data["stale"]:
            click.echo(f"note: {data['stale']}", err=True)
        print_answer(text(data), self.as_json, sys.stdout)


@whatif.command()
@click.option("--broker", "brokers", type=int, multiple=True, help="A broker to lose; repeatable.")
@click.option("--rack", "racks", multiple=True, help="All brokers of a rack; repeatable.")
@_options
def lose(asked: _Asked, brokers: tuple[int, ...], racks: tuple[str, ...]) -> None:
    """Lose brokers or racks at once.

    Shows who leads each affected partition then, and how safe that leader is.
    """
    if not brokers and not racks:
        raise WhatIfError("name what is lost: --broker 3, or --rack az-a; both may be repeated")
    asked.answer(
        lambda states: lost(states, brokers, racks),
        "lose",
        {"broker": brokers, "rack": racks},
        lambda data: lost_text(data, catalog_of(Config()).loss_fields),
        Lost,
    )


@whatif.command()
@click.option("--ms", type=DURATION, default=UNKNOWN, help="Span of local log, e.g. 10m.")
@click.option("--bytes", "size", type=SIZE, default=UNKNOWN, help="Size of local log, e.g. 100MiB.")
@click.option("--grid", is_flag=True, help="Also a tenth to four times of the given threshold.")
@click.option("--topic", default=CLUSTER_WIDE, help="For this topic alone.")
@_options
def threshold(asked: _Asked, ms: int, size: int, grid: bool, topic: str) -> None:
    """Set thresholds of KIP-1303.

    Cluster-wide, or for a topic. Shows which replicas are cold then, how leaders are spread over
    racks, and how long they stay out of balance. Topics with thresholds of their own keep them.
    """
    if ms <= 0 and size <= 0:
        raise WhatIfError("give a threshold: --ms 10m, --bytes 100MiB, or both")
    shares = GRID if grid else (1.0,)
    asked.answer(
        lambda states: thresholds(states, ms, size, shares, topic),
        "threshold",
        _given(ms=ms, bytes=size) | {"grid": grid} | ({"topic": topic} if topic else {}),
        thresholds_text,
        Thresholds,
    )


@whatif.command()
@click.option("--broker", type=int, required=True, help="The broker whose disk is empty.")
@click.option("--new", "is_new", is_flag=True, help="The broker does not exist yet.")
@click.option(
    "--rate", type=SIZE, default="50MiB", show_default=True, help="Bytes it copies a second."
)
@_options
def bootstrap(asked: _Asked, broker: int, is_new: bool, rate: int) -> None:
    """Let an empty broker join.

    Shows what it copies with KIP-1023 and without: the replicas assigned to it, or a fair share of
    all replicas if it has none.
    """
    if rate <= 0:
        raise WhatIfError("--rate must be positive")
    asked.answer(
        lambda states: bootstrapped(states, broker, rate, is_new),
        "bootstrap",
        {"broker": broker, "new": is_new, "rate": rate},
        bootstrapped_text,
        Bootstrapped,
    )


@whatif.command()
@click.option("--local-ms", type=DURATION, default=UNKNOWN, help="local.retention.ms, e.g. 1h.")
@click.option("--local-bytes", type=SIZE, default=UNKNOWN, help="local.retention.bytes.")
@_options
def retention(asked: _Asked, local_ms: int, local_bytes: int) -> None:
    """Change local retention of tiered topics.

    Shows which replicas are cold then, and how far local logs reach back. Logs above the new limit
    are treated as truncated at once; raising the limit shows no effect until logs grow.
    """
    if local_ms == UNKNOWN and local_bytes == UNKNOWN:
        raise WhatIfError("give a retention: --local-ms 1h, --local-bytes 10GiB, or both")
    asked.answer(
        lambda states: retained(states, local_ms, local_bytes),
        "retention",
        _given(local_ms=local_ms, local_bytes=local_bytes),
        retained_text,
        Retained,
    )


def _given(**amounts: int) -> dict[str, int]:
    """The options that are given."""
    return {name: amount for name, amount in amounts.items() if amount != UNKNOWN}


def read(config: Config) -> ClusterView:
    """The newest snapshot of every shard.

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
    return view


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
    held = len(answer.rows)
    total = held if answer.total is None else answer.total
    if total > MOST_ROWS:
        which = "all of them" if held == total else f"the worst {held}"
        out.write(f"{total - MOST_ROWS} more; --json has {which}\n")
