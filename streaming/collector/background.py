"""A source that is read in a thread of its own, at its own interval, beside the cycles.

The collector takes the newest round when a cycle ends and never waits for one, so a source that is
slow makes its own numbers late and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Round = TypeVar("Round")


class Background(Generic[Round]):
    """Repeats ``read`` from ``start`` until ``close``, and keeps the newest result."""

    def __init__(self, name: str, interval_s: float, read: Callable[[], Round | None]) -> None:
        """``read`` returns None if a round had no result."""
        self._name = name
        self._interval_s = interval_s
        self._read = read
        self._fresh: deque[Round] = deque(maxlen=1)
        self._returned: Round | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._bug: Exception | None = None
        self.rounds = 0  # that are over, with or without a result

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def read(self) -> None:
        """Read one round now, in the thread of the caller."""
        result = self._read()
        self.rounds += 1
        if result is not None:
            self._fresh.append(result)

    def take(self) -> Round | None:
        """The last round since this was called last, None if there was none."""
        if self._bug is not None:
            raise self._bug
        returned, self._returned = self._returned, None
        return self._fresh.pop() if self._fresh else returned

    def give_back(self, taken: Round) -> None:
        """``take`` returns this again unless there is a newer round: it was not sent."""
        self._returned = taken

    def close(self) -> None:
        """End the thread; waits for the round that is being read."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._stop.wait(max(0.0, due_s - time.monotonic())):
                self.read()
                due_s = max(due_s + self._interval_s, time.monotonic())
        except Exception as error:  # ``take`` raises it in the collector's own thread
            self._bug = error
