"""A source that runs in its own thread, at its own interval, in parallel with the cycles.

The collector takes the newest round when a cycle ends, and never waits for one. So a slow source
delays its own numbers only.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Generic, Self, TypeVar

from streaming.collector.source import Source
from streaming.collector.wire.connections import Address

Round = TypeVar("Round")


class BackgroundSource(Source, Generic[Round]):
    """Repeats ``read_round``, from the first time that brokers are known until ``close``."""

    def __init__(self, name: str, interval_ms: int, *, background: bool = True) -> None:
        """Start the thread if ``background`` is true; otherwise only ``read_now`` reads."""
        self._name = name
        self._interval_s = interval_ms / 1_000
        self._background = background
        self._brokers: tuple[Address, ...] = ()
        self._fresh: deque[Round] = deque(maxlen=1)
        self._returned: Round | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._bug: Exception | None = None
        self._rounds = 0

    @abstractmethod
    def is_on(self) -> bool:
        """Whether there is something to read from the known brokers."""

    @abstractmethod
    def read_round(self) -> Round | None:
        """Read once; None if the round has no result."""

    @property
    def rounds(self) -> int:
        """The number of completed rounds, with or without a result."""
        return self._rounds

    def update_metadata(self, brokers: Iterable[Address]) -> None:
        """Read from these brokers from now on."""
        self._brokers = tuple(brokers)
        if self._background and self._thread is None and self.is_on():
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def read_now(self) -> None:
        """Read one round now, in the thread of the caller."""
        result = self.read_round()
        self._rounds += 1
        if result is not None:
            self._fresh.append(result)

    def take(self) -> Round | None:
        """The newest round since the previous call, None if there was none."""
        if self._bug is not None:
            raise self._bug
        returned, self._returned = self._returned, None
        return self._fresh.pop() if self._fresh else returned

    def give_back(self, taken: Round) -> None:
        """Keep a round that was not sent: ``take`` returns it again, unless a newer one exists."""
        self._returned = taken

    def close(self) -> None:
        """End the thread, after the round that is being read."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._stop.wait(max(0.0, due_s - time.monotonic())):
                self.read_now()
                due_s = max(due_s + self._interval_s, time.monotonic())
        except Exception as error:  # ``take`` raises it in the collector's main thread
            self._bug = error
