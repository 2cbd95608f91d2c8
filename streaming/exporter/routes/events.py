"""Changes as they happen, from the events topic of the bus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from streaming.bus.view import QUERY_KINDS, Event
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.events.log import Cursor, position_of
from streaming.exporter.events.stream import MAX_STREAMS, MEDIA_TYPE, EventStream
from streaming.exporter.source import ViewSource
from streaming.questions.parameters import InputParameter, matching, number, one_of, text
from twin.engine.catalog import Catalog
from twin.engine.changes import BUILT_IN_KINDS

LAST_EVENT_ID: Final = "Last-Event-ID"


_ID: Final = matching(
    "the id of the last event that was received: the stream goes on behind it",
    r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*",
    position_of,
    "no id of an event",
    "0:17,1:4",
    place="header",
)


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoint of this file."""

    def events(request: Request, values: Values) -> Response:
        if request.method == "HEAD":
            return Response(media_type=MEDIA_TYPE)
        if source.streams.open >= MAX_STREAMS:
            raise RefusedError(f"{MAX_STREAMS} others read events already", 503)
        cursor = Cursor(values.get(LAST_EVENT_ID))
        return EventStream(source.events, cursor, filter_of(values), source.streams)

    return [
        Endpoint(
            path="/api/v1/events",
            summary="[changes](#events) as they happen, as server-sent events",
            answer=events,
            schema={"type": "string"},
            of_state=False,
            media_type=MEDIA_TYPE,
            parameters={**filters(source.catalog), LAST_EVENT_ID: _ID},
            refusals={503: f"{MAX_STREAMS} others read events already"},
            runs=Runs.IN_LOOP,
        )
    ]


def filters(catalog: Catalog) -> Mapping[str, InputParameter]:
    """The parameters that say which events."""
    declared = (
        kind for source in (*catalog.events, *catalog.cluster.events) for kind in source.kinds
    )
    kinds = sorted({*declared, *BUILT_IN_KINDS, *QUERY_KINDS})
    return {
        "kind": one_of("events of this kind", {k: k for k in kinds}, repeated=True),
        "topic": text("events of this topic's partitions"),
        "broker": number("events that name this broker"),
    }


def filter_of(values: Values) -> Callable[[Event], bool]:
    """Whether an event is asked for."""
    kinds, topic, broker = values.get("kind"), values.get("topic"), values.get("broker")

    def accepts(event: Event) -> bool:
        return (
            (kinds is None or event.kind in kinds)
            and (topic is None or event.topic == topic)
            and (broker is None or event.broker == broker)
        )

    return accepts
