"""Ending a program in good order on SIGTERM and SIGINT, and reading its settings on SIGHUP."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_stop_signal(stop: threading.Event | Callable[[], object]) -> Iterator[None]:
    """Set the event, or call the function, on each SIGTERM and SIGINT inside the ``with`` block.

    The handlers that were installed before are installed again at the end of the block. In a
    thread other than the main one the block has no effect: Python allows no handlers there.
    """
    with _on(SIGNALS, stop.set if isinstance(stop, threading.Event) else stop):
        yield


@contextmanager
def on_hangup_signal(act: Callable[[], object]) -> Iterator[None]:
    """Call the function on each SIGHUP inside the block, as ``on_stop_signal`` does."""
    with _on((signal.SIGHUP,), act):
        yield


@contextmanager
def _on(signals: Sequence[signal.Signals], act: Callable[[], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as stack:
        for number in signals:
            before = signal.signal(number, lambda *_: act())
            # None stands for a handler that was not installed by Python; it cannot be put back.
            stack.callback(signal.signal, number, signal.SIG_DFL if before is None else before)
        yield
