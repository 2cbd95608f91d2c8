"""Changes as they happen, from the events topic of the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from starlette.requests import Request
from starlette.responses import Response

from streaming.bus.view import QUERY_KINDS, Event
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Runs, endpoint
from streaming.exporter.events.log import Cursor, Position, position_of
from streaming.exporter.events.stream import MAX_STREAMS, MEDIA_TYPE, EventStream
from streaming.exporter.view_source import ViewSource
from streaming.questions.parameters import matching, number, one_of, text
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
    header=LAST_EVENT_ID,
)


def _kinds(catalog: Catalog) -> Mapping[str, str]:
    """All kinds of events, by name."""
    declared = (
        kind for source in (*catalog.events, *catalog.cluster.events) for kind in source.kinds
    )
    return {kind: kind for kind in sorted({*declared, *BUILT_IN_KINDS, *QUERY_KINDS})}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A selection of events."""

    kind: Annotated[Sequence[str] | None, one_of("events of this kind", _kinds, repeated=True)] = (
        None
    )
    topic: Annotated[str | None, text("events of this topic's partitions")] = None
    broker: Annotated[int | None, number("events that name this broker")] = None

    def accepts(self, event: Event) -> bool:
        """Whether an event is asked for."""
        return (
            (self.kind is None or event.kind in self.kind)
            and (self.topic is None or event.topic == self.topic)
            and (self.broker is None or event.broker == self.broker)
        )


@endpoint(
    "/api/v1/events",
    "[changes](#events) as they happen, as server-sent events",
    schema={"type": "string"},
    of_state=False,
    media_type=MEDIA_TYPE,
    refusals={503: f"{MAX_STREAMS} others read events already"},
    runs=Runs.IN_LOOP,
)
def events(
    source: ViewSource,
    request: Request,
    *,
    which: EventFilter,
    last_event_id: Annotated[Position | None, _ID] = None,
) -> Response:
    """A stream of events."""
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    if source.streams.open >= MAX_STREAMS:
        raise RefusedError(f"{MAX_STREAMS} others read events already", 503)
    return EventStream(source.events, Cursor(last_event_id), which.accepts, source.streams)
