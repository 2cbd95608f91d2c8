"""The past by replay: whole states of some cycles, and the observations of all cycles after them.

The state of any other cycle is computed from the nearest whole state before it, by the same steps
as the query's. A few states are kept, so that moments near each other cost few steps.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from streaming.bus.view import view_of
from streaming.history.moment import checked_in
from streaming.history.past import PastView
from streaming.history.span import Span
from streaming.history.stepping import States, nothing_yet, stepped
from streaming.history.timeline import Timeline
from streaming.runtime.lru_cache import LruCache
from twin.engine.catalog import Catalog

KEPT_STATES: Final = 24
KEPT_BYTES: Final = 512 << 20
"""Of states that are kept: those of a million replicas take 134 MB each."""

KEEP_EVERY: Final = 8
"""Of the cycles stepped through every eighth is kept, so that a step back replays few cycles."""

KEPT_VIEWS: Final = 8


class Replay:
    """A past of which all observations are there. Threads wait for each other's steps."""

    def __init__(
        self,
        catalog: Catalog,
        cluster: str,
        shards: int,
        timeline: Timeline[Callable[[], bytes]],
        whole: Mapping[int, Callable[[], States]],
    ) -> None:
        """A replay of a timeline with at least one cycle.

        Args:
            catalog: the rules.
            cluster: its name.
            shards: how many there are.
            timeline: the cycles; a message is a function that reads it.
            whole: functions that read the states after some cycles, by index of the cycle; without
                that of the first cycle, nothing is known before it.
        """
        self._catalog, self._cluster, self._shards = catalog, cluster, shards
        self._timeline, self._whole = timeline, whole
        self._times = [cycle.at_ms for cycle in timeline.cycles]
        self._lock = threading.Lock()
        self._states: OrderedDict[int, States] = OrderedDict()
        self._views: LruCache[tuple[int, bool], PastView] = LruCache(KEPT_VIEWS)

    @property
    def span(self) -> Span:
        """From the first cycle to the last."""
        return Span(self._times[0], self._times[-1])

    def cycles(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """The times of the cycles between two moments, both included, in order."""
        return self._times[bisect_left(self._times, from_ms) : bisect_right(self._times, to_ms)]

    def view(self, at_ms: int, topic: str | None = None) -> PastView:  # noqa: ARG002
        """The whole cluster at a moment of the span, whatever the topic.

        Raises:
            MomentError: it is outside the span.
        """
        checked_in(at_ms, self._times[0], self._times[-1], self._times[-1])
        index = bisect_right(self._times, at_ms) - 1
        key = index, self._is_complete(index, at_ms)
        return self._views.get(key, lambda: self._view(*key))

    def states(self, index: int) -> States:
        """The states after the cycle of that index."""
        with self._lock:
            return self._stepped_to(index)

    def _view(self, index: int, complete: bool) -> PastView:
        states, resolution_ms = self.states(index), self._timeline.resolution_ms
        observed = [shard.state for shard in states.shards.values() if shard.state is not None]
        view = view_of(self._catalog, observed, states.cluster, self._shards, resolution_ms)
        return PastView(view, self._times[index], resolution_ms, complete)

    def _is_complete(self, index: int, at_ms: int) -> bool:
        """Whether every shard has all of the cycle, and no cycle is missing since."""
        cycle = self._timeline.cycles[index]
        if len(cycle.whole_shards) < self._shards:
            return False
        if at_ms - cycle.at_ms < max(self._timeline.resolution_ms, 1):
            return True
        following = self._timeline.cycles[index + 1 : index + 2]
        return any(each.number == cycle.number + 1 for each in following)

    def _stepped_to(self, index: int) -> States:
        begin, states = self._nearest(index)
        for each in range(begin + 1, index + 1):
            sent = self._messages(each)
            states = stepped(self._catalog, self._cluster, states, sent)
            if each == index or each % KEEP_EVERY == 0:
                self._keep(each, states)
        return states

    def _messages(self, index: int) -> Iterable[tuple[int, bytes]]:
        return ((shard, read()) for shard, read in self._timeline.messages[index])

    def _nearest(self, index: int) -> tuple[int, States]:
        """The newest states up to that cycle that are kept or can be read; -1 for the beginning."""
        kept = max((each for each in self._states if each <= index), default=-1)
        whole = max((each for each in self._whole if each <= index), default=-1)
        if kept >= whole and kept >= 0:
            self._states.move_to_end(kept)
            return kept, self._states[kept]
        if whole < 0:
            return -1, nothing_yet(self._catalog, self._cluster, self._shards)
        states = self._whole[whole]()
        self._keep(whole, states)
        return whole, states

    def _keep(self, index: int, states: States) -> None:
        self._states[index] = states
        self._states.move_to_end(index)
        while len(self._states) > 1 and (
            len(self._states) > KEPT_STATES
            or sum(each.nbytes() for each in self._states.values()) > KEPT_BYTES
        ):
            self._states.popitem(last=False)
