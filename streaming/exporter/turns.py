"""Who may work when: few questions are answered at once, of each cluster and of all together.

A cluster of which many questions wait, or whose archive does not answer, takes no other's turn: it
has half of what there is at most, and of those that wait each cluster comes in its turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

QUESTIONS_AT_ONCE: Final = 2
"""The maximum of questions about a cluster that are answered at the same time; others wait."""

PAST_AT_ONCE: Final = 1
"""Of questions about its past, whose state may have to be computed first."""

_OF_ALL: Final = 2
"""So many times that of all clusters together."""


class Limit:
    """At most ``at_once`` of each cluster, and twice that of all. For one event loop."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, cluster: str) -> AsyncIterator[None]:
        """Wait for a turn of the cluster, and have it while the block runs."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(cluster, deque()).append(mine)
        self._admit()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._leave(cluster, mine)
            else:  # it was admitted in the same moment
                self._end(cluster)
            raise
        try:
            yield
        finally:
            self._end(cluster)

    def _end(self, cluster: str) -> None:
        self._running[cluster] -= 1
        self._running += Counter()  # forgets clusters of which nothing runs
        self._admit()

    def _leave(self, cluster: str, mine: asyncio.Future[None]) -> None:
        waiting = self._waiting[cluster]
        waiting.remove(mine)
        if not waiting:
            del self._waiting[cluster]

    def _admit(self) -> None:
        """Let begin whatever may; a cluster of which one begins is behind the others then."""
        while self._running.total() < _OF_ALL * self._at_once:
            may = (name for name in self._waiting if self._running[name] < self._at_once)
            if (cluster := next(may, None)) is None:
                return
            waiting = self._waiting.pop(cluster)
            first = waiting.popleft()
            if waiting:
                self._waiting[cluster] = waiting
            self._running[cluster] += 1
            first.set_result(None)


@dataclass(frozen=True, slots=True)
class Turns:
    """The limits of one process."""

    of_questions: Limit = field(default_factory=lambda: Limit(QUESTIONS_AT_ONCE))
    of_past: Limit = field(default_factory=lambda: Limit(PAST_AT_ONCE))
