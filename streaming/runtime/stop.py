"""Ending a program in good order on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_stop_signal(stop: threading.Event | Callable[[], object]) -> Iterator[None]:
    """Set the event, or call the function, on each SIGTERM and SIGINT inside the ``with`` block.

    The handlers that were installed before are installed again at the end of the block. In a
    thread other than the main one the block has no effect: Python allows no handlers there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    act = stop.set if isinstance(stop, threading.Event) else stop
    with ExitStack() as stack:
        for number in SIGNALS:
            before = signal.signal(number, lambda *_: act())
            # None stands for a handler that was not installed by Python; it cannot be put back.
            stack.callback(signal.signal, number, signal.SIG_DFL if before is None else before)
        yield
