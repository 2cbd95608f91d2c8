"""``kafka-twin capsule``: a span of a cluster's past in one file."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from streaming.cli.options import ParameterType
from streaming.history.moment import Moment, MomentError, moment, time_text
from streaming.runtime.configuration.chosen import Chosen
from twin.arrays.plain import counted

_FILE = click.Path(path_type=Path, dir_okay=False)
_MOMENT = ParameterType(moment("a moment"))


@click.group()
def capsule() -> None:
    """Save and open a span of the past.

    A capsule is one file with the state before, the observations and the events of a span. It can
    be opened anywhere, without Kafka.
    """


@capsule.command()
@click.option(
    "--from", "begin", type=_MOMENT, required=True,
    help="Where the span begins: 2026-11-24T03:00:00Z, or -15m for a time ago.",
)  # fmt: skip
@click.option("--to", "end", type=_MOMENT, help="Where it ends; now by default.")
@click.option(
    "--anonymize",
    is_flag=True,
    help="Write other names for topics, groups, clients, hosts, racks and the cluster.",
)
@click.argument("file", type=_FILE)
@click.pass_obj
def save(chosen: Chosen, begin: Moment, end: Moment | None, anonymize: bool, file: Path) -> None:
    """Save a span of the past to FILE.

    The observations and events that the bus keeps are read; nothing is written to it.
    """
    from streaming.history.capsules.anonymize import anonymized
    from streaming.history.capsules.recording import recorded
    from streaming.history.capsules.saving import save as written
    from streaming.runtime.plugins import catalog_of

    config, now_ms = chosen.config(), time.time_ns() // 1_000_000
    from_ms, to_ms = begin.at_ms(now_ms), now_ms if end is None else end.at_ms(now_ms)
    check_span(from_ms, to_ms, now_ms)
    catalog = catalog_of(config)
    span = recorded(config, to_ms)
    if anonymize:
        span = anonymized(span, catalog)
    manifest = written(span, catalog, from_ms, to_ms, file)
    click.echo(
        f"{file}: {manifest.cluster} from {time_text(manifest.begin_ms)} to "
        f"{time_text(manifest.end_ms)}, {counted(manifest.cycles, 'cycle')}, "
        f"{counted(manifest.events, 'event')}; the state before is made of observations since "
        f"{time_text(manifest.observed_since_ms)}"
    )
    if manifest.left_out:
        what = counted(manifest.left_out, "message or frame", "messages or frames")
        click.echo(f"{what} of unknown kinds cannot be anonymized, and are left out", err=True)


@capsule.command("open")
@click.option("--port", type=click.IntRange(0, 65_535), help="exporter.port by default; 0: any.")
@click.argument("file", type=_FILE)
@click.pass_obj
def open_(chosen: Chosen, file: Path, port: int | None) -> None:
    """Show the past that FILE holds.

    Serves console and API of the capsule, without Kafka and Spark. It shows the end of the span;
    at= asks about any other moment of it.
    """
    from streaming.exporter.capsule_server import serve

    config = chosen.common()
    exporter = config.exporter
    if port is not None:
        exporter = msgspec.structs.replace(exporter, port=port)
    serve(file, exporter, config.access, click.echo)


def check_span(from_ms: int, to_ms: int, now_ms: int) -> None:
    """Refuse a span that has no time in it, or is not over.

    Raises:
        MomentError: one line says which of them.
    """
    for name, at_ms in (("--from", from_ms), ("--to", to_ms)):
        if at_ms > now_ms:
            raise MomentError(f"{name} {time_text(at_ms)} is in the future")
    if from_ms > to_ms:
        raise MomentError(f"--from {time_text(from_ms)} is after --to {time_text(to_ms)}")
