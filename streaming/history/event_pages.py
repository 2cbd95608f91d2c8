"""All events of a span of the past, a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streaming.bus.view import Event
from streaming.history.past import Past


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events of a span, the newest first or the oldest first."""

    begin_ms: int
    end_ms: int
    total: Annotated[int, Meta(description="events of the span that are asked for")]
    events: Annotated[
        list[dict[str, Any]], Meta(description="a page of them, each as the query wrote it")
    ]


def page_of(
    past: Past, span: tuple[int, int], accepts: Callable[[Event], bool], limit: int, offset: int,
    *, newest_first: bool,
) -> EventPage:  # fmt: skip
    """A page of the events between two moments, both included; repeats are left out.

    Args:
        past: where they are.
        span: the two moments.
        accepts: whether an event is asked for.
        limit: the largest number of events in the page.
        offset: the number of events to skip.
        newest_first: the order; events of one time stay as they were written.
    """
    accepted: list[bytes] = []
    known: set[str] = set()
    for message in past.events(*span):
        try:
            event = msgspec.json.decode(message, type=Event)
        except msgspec.MsgspecError:  # of a stranger's capsule
            continue
        if event.id in known or not accepts(event):
            continue
        known.add(event.id)
        accepted.append(message)
    if newest_first:
        accepted.reverse()
    page = accepted[offset : offset + limit]
    return EventPage(*span, len(accepted), [msgspec.json.decode(each) for each in page])
