"""The source of all answers: the newest exposition, and the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streaming.bus.view import ClusterView
from streaming.exporter.agents.counts import CallCounts
from streaming.exporter.events.log import EventLog
from streaming.exporter.events.stream import StreamCounts
from streaming.exporter.metrics.exposition import Exposition
from streaming.history.moment import MomentError
from streaming.history.past import Past
from streaming.history.span import Span
from twin.engine.catalog import Catalog


def wall_clock_ms() -> int:
    """Now, as a Unix time."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class ViewSource:
    """The newest state of one cluster; nothing here sends requests to Kafka.

    ``current`` renders the exposition if that of the newest view is not there; ``newest`` is that
    view, for answers that need no exposition. A source that is ``not_live`` says in a sentence what
    it shows instead of the present. ``stuck`` says in a sentence that it has to be started again;
    empty: it gets on. Moments of the ``past`` can be asked about, if there is one.
    """

    catalog: Catalog
    cluster: str
    current: Callable[[], Exposition]
    now_ms: Callable[[], int] = wall_clock_ms
    events: EventLog = field(default_factory=EventLog)
    streams: StreamCounts = field(default_factory=StreamCounts)
    calls: CallCounts = field(default_factory=CallCounts)
    own_topics: Collection[str] = ()  # topics of the bus, if it is on the watched cluster
    newest: Callable[[], ClusterView] | None = None
    past: Past | None = None
    not_live: str = ""
    asked: Callable[[Mapping[str, Any]], None] | None = None  # keeps what programs asked the gate
    stuck: Callable[[], str] = str
    within: Span | None = None  # of a source of one past moment: all moments that there are
    labels: Mapping[str, str] = field(default_factory=dict)  # of the cluster, e.g. its env
    broken: Callable[[], str] = str  # why what is shown is not read on, in a sentence; empty: it is

    @property
    def span(self) -> Span | None:
        """The past moments that can be asked about; None if there is no past, or none yet."""
        with suppress(MomentError):
            return self.within if self.past is None else self.past.span
        return None

    @property
    def view(self) -> ClusterView:
        """The newest view."""
        return self.current().view if self.newest is None else self.newest()

    @property
    def why_not_up(self) -> str:
        """Why this is not the cluster as it is now, in a sentence; empty if it is."""
        return self._not_up(self.broken())

    @property
    def why_not_fresh(self) -> str:
        """The same for whoever asks without a token: errors may name topics and hosts."""
        return self._not_up("its snapshots cannot be read: the log says why" * bool(self.broken()))

    def _not_up(self, broken: str) -> str:
        now = self.view.why_not_up(self.now_ms())
        return "; ".join(filter(None, (self.not_live, broken, now)))
