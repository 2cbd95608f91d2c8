"""``kafka-twin tap``: follow brokers' logs, and enable or disable their request logs."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from streaming.runtime.config import Config
from streaming.runtime.configuration.chosen import chosen
from streaming.runtime.stop import on_stop_signal

_INPUT: Final = re.compile(r"(\d+)=(.+)")


class _FollowByDefault(click.Group):
    """A group in which ``tap 1=FILE`` is short for ``tap follow 1=FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["follow", *args]
        return super().parse_args(ctx, args)


class _Input(click.ParamType[tuple[int, str]]):
    """A broker id and the path of one of its logs."""

    name = "broker=file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, str]:
        match = _INPUT.fullmatch(str(value))
        if match is None:
            self.fail(
                f"{value!r} is not BROKER=FILE, such as 1=/var/log/kafka/request.log", param, ctx
            )
        return int(match[1]), match[2]


class _Zone(click.ParamType[ZoneInfo]):
    """The name of a time zone."""

    name = "zone"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ZoneInfo:
        try:
            return ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError):
            self.fail(f"there is no time zone {value!r}", param, ctx)


@click.group(cls=_FollowByDefault)
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
    help="Enable the brokers' request logs; restore their levels at the end.",
)
@click.option("--from-beginning", is_flag=True, help="Start with what the files contain already.")
@click.option(
    "--zone", type=_Zone(), help="Time zone of the logs, e.g. UTC. Default: that of this machine."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    help="Serve the tap's counters on this port; wins over metrics.tap_port.",
)
@click.pass_context
def follow(
    ctx: click.Context,
    inputs: tuple[tuple[int, str], ...],
    enable: bool,
    from_beginning: bool,
    zone: ZoneInfo | None,
    metrics_port: int | None,
) -> None:
    """Follow logs of one or more brokers.

    FILE is a request log or a server log; each line is recognised by itself. "-" is standard
    input. A file that is rotated is followed.
    """
    from streaming.runtime.logs import say_what_wins
    from streaming.tap import request_log_level
    from streaming.tap.tap import run

    config = _config(ctx)
    say_what_wins(chosen(ctx).path)
    brokers = sorted({broker for broker, _ in inputs})
    stop = threading.Event()
    with on_stop_signal(stop), contextlib.ExitStack() as stack:
        if enable:
            stack.enter_context(request_log_level.enabled(config, brokers))
        run(
            config,
            inputs,
            stop,
            zone=zone,
            from_beginning=from_beginning,
            metrics_port=metrics_port,
        )


@tap.command()
@click.option("--broker", "brokers", type=int, multiple=True, required=True, help="Broker id.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), help="Restore the levels after this many seconds."
)
@click.pass_context
def enable(ctx: click.Context, brokers: tuple[int, ...], seconds: float | None) -> None:
    """Enable request logs until Ctrl-C.

    The levels that the loggers had before are restored at the end.
    """
    from streaming.tap.request_log_level import enabled

    stop = threading.Event()
    with on_stop_signal(stop), enabled(_config(ctx), brokers):
        stop.wait(seconds)


@tap.command()
@click.option("--broker", "brokers", type=int, multiple=True, required=True, help="Broker id.")
@click.pass_context
def disable(ctx: click.Context, brokers: tuple[int, ...]) -> None:
    """Disable request logs that were left enabled."""
    from streaming.tap import request_log_level

    for broker, prev_level in request_log_level.disable(_config(ctx), brokers).items():
        click.echo(f"broker {broker}: was {prev_level}")


def _config(ctx: click.Context) -> Config:
    return chosen(ctx).config()
