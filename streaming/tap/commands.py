"""``kafka-twin tap``: follow brokers' logs, and switch their request logs."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from streaming.runtime.config import Config, load

_INPUT: Final = re.compile(r"(\d+)=(.+)")


class _Follow(click.Group):
    """``tap 1=FILE`` is short for ``tap follow 1=FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["follow", *args]
        return super().parse_args(ctx, args)


class _Input(click.ParamType[tuple[int, str]]):
    """BROKER=FILE."""

    name = "broker=file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, str]:
        found = _INPUT.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not BROKER=FILE, such as 1=/var/log/kafka/request.log", param,
                      ctx)  # fmt: skip
        return int(found[1]), found[2]


class _Zone(click.ParamType[ZoneInfo]):
    """A time zone by its name."""

    name = "zone"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ZoneInfo:
        try:
            return ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError):
            self.fail(f"there is no time zone {value!r}", param, ctx)


@click.group(cls=_Follow)
def tap() -> None:
    """Follow brokers' logs.

    Observes fetches of followers, and why ISRs shrink.

    \b
    kafka-twin tap 1=/var/log/kafka/kafka-request.log 1=/var/log/kafka/server.log
    """


@tap.command()
@click.argument("inputs", nargs=-1, required=True, type=_Input(), metavar="BROKER=FILE...")
@click.option(
    "--enable",
    is_flag=True,
    help="Switch the request logs on meanwhile, and then back to what they were.",
)
@click.option("--from-beginning", is_flag=True, help="Read what the files have already.")
@click.option("--zone", type=_Zone(), help="Time zone of the logs, e.g. UTC; default: this one's.")
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    help="Serve the tap's counters on this port of 127.0.0.1.",
)
@click.pass_context
def follow(
    ctx: click.Context, inputs: tuple[tuple[int, str], ...], enable: bool, from_beginning: bool,
    zone: ZoneInfo | None, metrics_port: int | None,
) -> None:  # fmt: skip
    """Follow logs of one or more brokers.

    "-" as FILE is standard input. Request logs and server logs are told apart line by line.
    Rotation is followed.
    """
    from streaming.tap.switch import switched_on
    from streaming.tap.tap import run

    config = _config(ctx)
    brokers = sorted({broker for broker, _ in inputs})
    with switched_on(config, brokers) if enable else contextlib.nullcontext():
        run(config, inputs, zone=zone, from_beginning=from_beginning, metrics_port=metrics_port)


@tap.command()
@click.option("--broker", "brokers", type=int, multiple=True, required=True, help="Broker id.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Switch back after so long.")
@click.pass_context
def enable(ctx: click.Context, brokers: tuple[int, ...], seconds: float | None) -> None:
    """Switch request logs on until Ctrl-C.

    Then their levels are what they were before.
    """
    from streaming.tap.switch import switched_on

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with switched_on(_config(ctx), brokers):
        stop.wait(seconds)


@tap.command()
@click.option("--broker", "brokers", type=int, multiple=True, required=True, help="Broker id.")
@click.pass_context
def disable(ctx: click.Context, brokers: tuple[int, ...]) -> None:
    """Switch off request logs left on."""
    from streaming.tap.switch import disable as switch_off

    for broker, found in switch_off(_config(ctx), brokers).items():
        click.echo(f"broker {broker}: was {found}")


def _config(ctx: click.Context) -> Config:
    root = ctx.find_root()
    path: Path | None = root.obj
    return load(path)
