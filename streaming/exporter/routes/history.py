"""The past as a whole: what differs between two moments, and when there were changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from streaming.exporter.agents.texts import answer_lines
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Runs, endpoint
from streaming.exporter.moments import NO_PAST, moment_of, refusing
from streaming.exporter.routes.events import EventFilter
from streaming.exporter.view_source import ViewSource
from streaming.history.change_times import DEFAULT_BUCKETS, MOST_BUCKETS, Changes
from streaming.history.differences.compared import Differences, differences_of
from streaming.history.differences.text import text
from streaming.history.event_pages import EventPage, page_of
from streaming.history.moment import Moment, MomentError, moment, time_text
from streaming.history.past import Past
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, offset, one_of

FROM: Final = "from"
TO: Final = "to"
AROUND: Final = "around"

_Begin = Annotated[
    Moment | None, moment("where the span begins; the beginning of the past by default")
]
_End = Annotated[Moment | None, moment("where it ends; the newest moment of the past by default")]

OF_PAST: Final[dict[str, Any]] = {
    "of_state": False,
    "refusals": {
        404: "the moment is outside the past, or the exporter has no past",
        503: "the past cannot be read",
    },
    "runs": Runs.OF_PAST,
}
"""Fields of every endpoint that reads the past as a whole."""


@endpoint(
    "/api/v1/diff",
    "[what differs](history.md#what-changed) between two moments of the past",
    tool="diff",
    text=lambda data: answer_lines(text(data)),
    **OF_PAST,
)
def diff(
    source: ViewSource,
    *,
    from_: Annotated[Moment, moment("the earlier [moment](history.md#ask-about-a-moment)")],
    to: Annotated[
        Moment | None, moment("the later moment; the newest of the past by default")
    ] = None,
    limit: Annotated[int, limit("partitions, brokers and topics")] = DEFAULT_ROWS,
    offset: Annotated[int, offset("partitions")] = 0,
) -> Differences:
    """The difference between two moments."""
    past = past_of(source)
    from_ms, to_ms = between(source, past, from_, to)
    with refusing(FROM):
        before = past.view(from_ms)
    with refusing(TO):
        after = past.view(to_ms)
    return differences_of(before, after, limit, offset)


@endpoint(
    "/api/v1/history/changes",
    "[how many changes](history.md#find-the-moment) there were, and when",
    tool="changes",
    **OF_PAST,
)
def changes(
    source: ViewSource,
    *,
    from_: _Begin = None,
    to: _End = None,
    buckets: Annotated[
        int,
        number("stretches into which the span is divided", least=1, most=MOST_BUCKETS),
    ] = DEFAULT_BUCKETS,
    around: Annotated[
        Moment | None,
        moment("a moment whose nearest changes before and after it are named"),
    ] = None,
) -> Changes:
    """How many changes there were."""
    past = past_of(source)
    from_ms, to_ms = between(source, past, from_, to)
    with refusing(FROM):
        times = past.changes
    counted = times.counted(past.span, from_ms, to_ms, buckets)
    if around is None:
        return counted
    at_ms = moment_of(source, past, AROUND, around)
    return replace(counted, nearest=times.nearest(past.span, at_ms))


@endpoint(
    "/api/v1/history/events",
    "[all events](history.md#find-the-moment) of a span of the past, paged",
    **OF_PAST,
)
def events(
    source: ViewSource,
    *,
    from_: _Begin = None,
    to: _End = None,
    sort: Annotated[str, one_of("`newest`: the newest events first", {"newest": "newest"})] = "",
    limit: Annotated[int, limit("events")] = DEFAULT_ROWS,
    offset: Annotated[int, offset("events")] = 0,
    which: EventFilter,
) -> EventPage:
    """A page of events."""
    past = past_of(source)
    span = between(source, past, from_, to)
    with refusing(FROM):
        return page_of(past, span, which.accepts, limit, offset, newest_first=sort == "newest")


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


def between(
    source: ViewSource, past: Past, begin: Moment | None, end: Moment | None
) -> tuple[int, int]:
    """The span that is asked about, from the beginning and to the end by default."""
    begin_ms = past.span.begin_ms
    from_ms = begin_ms if begin is None else moment_of(source, past, FROM, begin)
    to_ms = moment_of(source, past, TO, end)
    if from_ms > to_ms:
        raise RefusedError(f"{FROM}: {time_text(from_ms)} is after {time_text(to_ms)}", 400)
    return from_ms, to_ms
