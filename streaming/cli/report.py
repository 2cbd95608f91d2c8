"""``kafka-twin report``: what happened between two moments of the past, and why."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from streaming.cli.exporter_client import ExporterRefusalError, Url, ask
from streaming.cli.options import ParameterType
from streaming.history.moment import Moment, MomentError, moment, time_text
from streaming.history.report.fleet_model import FleetReport
from streaming.history.report.model import Report
from streaming.history.report.writing.fleet_document import rendered_fleet
from streaming.history.report.writing.render import FORMATS, Format, rendered
from streaming.history.span import Span
from streaming.runtime.configuration.chosen import chosen

_ANSWER_WITHIN_S: Final = 900.0
"""Each cycle of the span is computed again: some minutes for a large cluster."""

_TIME_OF_DAY: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


class _Summary(msgspec.Struct):
    """The field of the summary that is needed; null if the exporter has no past."""

    past: Span | None = None


class _Answer(msgspec.Struct):
    """The fields that both reports have, of one cluster and of a fleet."""

    begin_ms: int
    end_ms: int


class _MomentType(ParameterType):
    """A moment, or a time of day in UTC, which only the span of the past makes a moment."""

    def __init__(self) -> None:
        super().__init__(moment("a moment"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and _TIME_OF_DAY.fullmatch(value):
            return value
        return super().convert(value, param, ctx)


_MOMENT = _MomentType()


@click.command()
@click.option(
    "--from", "begin", type=_MOMENT, required=True,
    help="Where the span begins: 2026-11-24T03:00:00Z, -40m for a time ago, or 03:00 for the "
    "newest such time (UTC) of the past.",
)  # fmt: skip
@click.option("--to", "end", type=_MOMENT, help="Where it ends; the newest moment by default.")
@click.option(
    "--url",
    type=Url(),
    required=True,
    help="The exporter to ask, e.g. http://127.0.0.1:9410: one that knows the past.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="md", show_default=True,
    help="Markdown, a page of HTML that stands alone, or plain data.",
)  # fmt: skip
def report(begin: Moment | str, end: Moment | str | None, url: str, form: Format) -> None:
    """Say what happened in a span, and why.

    An exporter of several clusters says, without --cluster, which of them had which incident, and
    whose forecasts were off. Of one cluster it says what was hurt, what followed from what,
    what was foretold, what alerted nobody, what people changed, and what is not known. It is
    written to the standard output.
    """
    given = {"from": _text(begin, url)}
    if end is not None:
        given["to"] = _text(end, url)
    data = ask(url, "report", given, _Answer, _ANSWER_WITHIN_S)
    if form == "json":
        click.echo(msgspec.json.encode(data).decode())
    elif "clusters" in data:
        click.echo(rendered_fleet(msgspec.convert(data, FleetReport), form, f"{url}/"), nl=False)
    else:
        console = f"{url}{chosen().below}/"
        click.echo(rendered(msgspec.convert(data, Report), form, console), nl=False)


def _text(of: Moment | str, url: str) -> str:
    """The moment as the API reads it.

    Raises:
        MomentError: a time of day, and the exporter has no past that has it.
    """
    if isinstance(of, Moment):
        return of.text
    try:
        past = msgspec.convert(ask(url, "summary", {}, _Summary), _Summary).past
    except ExporterRefusalError:
        if chosen().below:
            raise
        # Of several clusters, whose pasts do not end at the same moment.
        return time_text(newest_time_of_day(of, time.time_ns() // 1_000_000))
    if past is None:
        raise MomentError(f"{of} is a time of day, and {url} has no past")
    return time_text(newest_time_of_day(of, past.end_ms))


def newest_time_of_day(text: str, end_ms: int) -> int:
    """The newest moment at or before the end that is at that time of day, in UTC."""
    match = _TIME_OF_DAY.fullmatch(text)
    assert match is not None
    hour, minute, second = (int(each or 0) for each in match.groups())
    end = datetime.fromtimestamp(end_ms / 1_000, UTC)
    at = end.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return round((at if at <= end else at - timedelta(days=1)).timestamp()) * 1_000
