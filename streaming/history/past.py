"""The interface of a past; capsules and the archive implement it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streaming.bus.view import ClusterView
from streaming.history.change_times import ChangeTimes
from streaming.history.span import Span


@dataclass(frozen=True, slots=True)
class PastView:
    """The cluster as it was observed at a moment.

    ``at_ms`` is the cycle that it really is: the newest one at or before the moment. It is not
    ``complete`` if the next cycle should have come before the moment and is missing, or if a shard
    has no part, or not all parts, of the cycle. It is ``filled`` if the archive had a gap there and
    the state was computed from observations.
    """

    view: ClusterView
    at_ms: int
    resolution_ms: int  # the usual time between two cycles
    complete: bool
    filled: bool = False


class Past(Protocol):
    """A source of past moments. Threads may ask it at the same time."""

    @property
    def span(self) -> Span:
        """The moments that can be asked about."""
        ...

    @property
    def changes(self) -> ChangeTimes:
        """When the changes of the span were; it may have changes before and after it as well."""
        ...

    def cycles(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """The times of the cycles between two moments, both included, in order."""
        ...

    def events(self, from_ms: int, to_ms: int) -> Sequence[bytes]:
        """Messages of the events topic between two moments, both included, in order of their times.

        A message may be there twice, with the same id.

        Raises:
            UserError: what is kept of them cannot be read.
        """
        ...

    def view(self, at_ms: int, topic: str | None = None) -> PastView:
        """The cluster at a moment of the span.

        With a topic, partitions of other topics may be missing, since less has to be read then.

        Raises:
            MomentError: the moment is outside the span.
            UserError: what is kept of it cannot be read.
        """
        ...
