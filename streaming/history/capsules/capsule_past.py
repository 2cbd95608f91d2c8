"""The past of an open capsule: views by replay, changes from its events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property

import msgspec

from streaming.bus.view import Event
from streaming.history.capsules.opening import Capsule
from streaming.history.change_times import ChangeTimes
from streaming.history.past import PastView
from streaming.history.span import Span


class CapsulePast:
    """The past of a capsule, as ``Past`` asks for it."""

    def __init__(self, opened: Capsule) -> None:
        self._opened = opened

    @property
    def span(self) -> Span:
        """All of the capsule."""
        return self._opened.replay.span

    @cached_property
    def changes(self) -> ChangeTimes:
        """When the changes were. They are read when somebody asks first."""
        return ChangeTimes.of(self._opened.events, self._opened.catalog)

    @cached_property
    def _dated(self) -> tuple[list[int], list[bytes]]:
        """The times of the events, in order, and the events."""
        dated = [(event.at_ms, data) for data in self._opened.events if (event := event_of(data))]
        dated.sort(key=lambda each: each[0])
        return [at_ms for at_ms, _ in dated], [data for _, data in dated]

    def cycles(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """The times of the cycles between two moments, both included."""
        return self._opened.replay.cycles(from_ms, to_ms)

    def events(self, from_ms: int, to_ms: int) -> Sequence[bytes]:
        """The events between two moments, both included. They are read when somebody asks first."""
        times, events = self._dated
        return events[bisect_left(times, from_ms) : bisect_right(times, to_ms)]

    def view(self, at_ms: int, topic: str | None = None) -> PastView:
        """The whole cluster at a moment of the span, whatever the topic."""
        return self._opened.replay.view(at_ms, topic)


def event_of(data: bytes) -> Event | None:
    """The event of a message; None if it is none, as a stranger's capsule may have."""
    try:
        return msgspec.json.decode(data, type=Event)
    except msgspec.MsgspecError:
        return None
