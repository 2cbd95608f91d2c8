"""Records verdicts of the gate that programs asked for, each as an event on the bus."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import structlog

from streaming.bus.connection import BusError
from streaming.plans.events import send_judged
from streaming.runtime.config import Config

AGAIN_AFTER_S: Final = 600.0
"""A script that waits asks every few seconds: the same verdict is kept again after that time."""

_WAITING_MOST: Final = 100
_BROKERS_KEPT: Final = 1_000

log = structlog.get_logger("exporter")


class AskedGate:
    """Takes verdicts from the threads that answer, and sends them in one of its own."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._waiting: queue.Queue[tuple[Any, int] | None] = queue.Queue(_WAITING_MOST)
        self._known: dict[tuple[int, ...], tuple[str, float]] = {}
        self._lock = threading.Lock()

    def __call__(self, verdict: Mapping[str, Any]) -> None:
        """Keep a verdict, unless the same was given a short time ago. It does not wait."""
        brokers, now_s = tuple(verdict["brokers"]), time.monotonic()
        with self._lock:
            before, at_s = self._known.get(brokers, ("", -AGAIN_AFTER_S))
            if before == verdict["verdict"] and now_s - at_s < AGAIN_AFTER_S:
                return
            if len(self._known) >= _BROKERS_KEPT:
                self._known.clear()
            self._known[brokers] = verdict["verdict"], now_s
        try:
            self._waiting.put_nowait((verdict, time.time_ns() // 1_000_000))
        except queue.Full:
            log.warning("a verdict of the gate is not recorded", why="too many wait")

    def send(self) -> None:
        """Send what is given, until ``end``."""
        said = ""
        while (given := self._waiting.get()) is not None:
            try:
                send_judged(self._config, *given)
            except BusError as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("a verdict of the gate is not recorded", why=said)

    def end(self) -> None:
        """Let ``send`` return after what waits; what has no place any more is dropped."""
        while True:
            try:
                self._waiting.put_nowait(None)
                return
            except queue.Full:
                with suppress(queue.Empty):
                    self._waiting.get_nowait()


@contextmanager
def sending(asked: AskedGate | None) -> Iterator[None]:
    """Send in a thread while the block runs."""
    if asked is None:
        yield
        return
    thread = threading.Thread(target=asked.send, name="gate", daemon=True)
    thread.start()
    try:
        yield
    finally:
        asked.end()
        thread.join(timeout=10)
