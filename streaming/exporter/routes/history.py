"""The past as a whole: what differs between two moments, and when there were changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request

from streaming.exporter.agents.texts import answer_lines
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import NO_PAST, Endpoint, Runs, Values
from streaming.exporter.moments import moment_of, refusing
from streaming.exporter.routes.events import filter_of, filters
from streaming.exporter.schemas import ref
from streaming.exporter.source import ViewSource
from streaming.history.changes import DEFAULT_BUCKETS, MOST_BUCKETS
from streaming.history.differences.difference import differences_of
from streaming.history.differences.text import text
from streaming.history.event_pages import page_of
from streaming.history.moments import MomentError, moment, time_text
from streaming.history.past import Past
from streaming.questions.parameters import (
    DEFAULT_ROWS,
    InputParameter,
    limit,
    number,
    offset,
    one_of,
)

FROM: Final = "from"
TO: Final = "to"
AROUND: Final = "around"

DIFF_PARAMETERS: Final[Mapping[str, InputParameter]] = {
    FROM: moment("the earlier [moment](history.md#ask-about-a-moment)", required=True),
    TO: moment("the later moment; the newest of the past by default"),
    "limit": limit("partitions, brokers and topics", DEFAULT_ROWS),
    "offset": offset("partitions"),
}

CHANGES_PARAMETERS: Final[Mapping[str, InputParameter]] = {
    FROM: moment("where the span begins; the beginning of the past by default"),
    TO: moment("where it ends; the newest moment of the past by default"),
    "buckets": number(
        "stretches into which the span is divided",
        least=1,
        most=MOST_BUCKETS,
        default=DEFAULT_BUCKETS,
    ),
    AROUND: moment("a moment whose nearest changes before and after it are named"),
}

EVENTS_PARAMETERS: Final[Mapping[str, InputParameter]] = {
    FROM: CHANGES_PARAMETERS[FROM],
    TO: CHANGES_PARAMETERS[TO],
    "sort": one_of("`newest`: the newest events first", {"newest": "newest"}),
    "limit": limit("events", DEFAULT_ROWS),
    "offset": offset("events"),
}

REFUSALS: Final = {
    404: "the moment is outside the past, or the exporter has no past",
    503: "the past cannot be read",
}


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoints of this file."""

    def diff(_: Request, values: Values) -> Any:
        past = past_of(source)
        from_ms, to_ms = between(source, past, values)
        with refusing(FROM):
            before = past.view(from_ms)
        with refusing(TO):
            after = past.view(to_ms)
        return differences_of(before, after, values["limit"], values.get("offset", 0))

    def changes(_: Request, values: Values) -> Any:
        past = past_of(source)
        from_ms, to_ms = between(source, past, values)
        with refusing(FROM):
            times = past.changes
        counted = times.counted(past.span, from_ms, to_ms, values["buckets"])
        if AROUND not in values:
            return counted
        at_ms = moment_of(source, past, AROUND, values[AROUND])
        return replace(counted, nearest=times.nearest(past.span, at_ms))

    def events(_: Request, values: Values) -> Any:
        past = past_of(source)
        span = between(source, past, values)
        with refusing(FROM):
            return page_of(
                past, span, filter_of(values), values["limit"], values.get("offset", 0),
                newest_first=values.get("sort") == "newest",
            )  # fmt: skip

    return [
        Endpoint(
            path="/api/v1/diff",
            tool="diff",
            summary="[what differs](history.md#what-changed) between two moments of the past",
            answer=diff,
            schema=ref("Differences"),
            parameters=DIFF_PARAMETERS,
            of_state=False,
            text=lambda data: answer_lines(text(data)),
            refusals=REFUSALS,
            runs=Runs.OF_PAST,
        ),
        Endpoint(
            path="/api/v1/history/changes",
            tool="changes",
            summary="[how many changes](history.md#find-the-moment) there were, and when",
            answer=changes,
            schema=ref("Changes"),
            parameters=CHANGES_PARAMETERS,
            of_state=False,
            refusals=REFUSALS,
            runs=Runs.OF_PAST,
        ),
        Endpoint(
            path="/api/v1/history/events",
            summary="[all events](history.md#find-the-moment) of a span of the past, paged",
            answer=events,
            schema=ref("EventPage"),
            parameters={**EVENTS_PARAMETERS, **filters(source.catalog)},
            of_state=False,
            refusals=REFUSALS,
            runs=Runs.OF_PAST,
        ),
    ]


def past_of(source: ViewSource) -> Past:
    """The past of a source.

    Raises:
        RefusedError: it has none.
    """
    if source.past is None:
        raise RefusedError(NO_PAST, 404)
    try:
        _ = source.past.span
    except MomentError as nothing_yet:
        raise RefusedError(str(nothing_yet), 404) from None
    return source.past


def between(source: ViewSource, past: Past, values: Values) -> tuple[int, int]:
    """The span that is asked about, from the beginning and to the end by default."""
    begin_ms = past.span.begin_ms
    from_ms = moment_of(source, past, FROM, values[FROM]) if FROM in values else begin_ms
    to_ms = moment_of(source, past, TO, values.get(TO))
    if from_ms > to_ms:
        raise RefusedError(f"{FROM}: {time_text(from_ms)} is after {time_text(to_ms)}", 400)
    return from_ms, to_ms
