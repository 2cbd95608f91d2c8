"""Runs a task for each cluster, some at a time, and waits for none that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from streaming.runtime.deadline import Deadline

AT_ONCE: Final = 4
"""Python makes rows on one core; what several wait for is a store that is far."""


class LateError(TimeoutError):
    """A task that has not ended in time, and goes on."""


class Workers:
    """Threads that end with the program, whatever they wait for."""

    def __init__(self, patience_s: float, at_once: int = AT_ONCE) -> None:
        """A task may take ``patience_s`` before the others go on without it."""
        self._patience_s, self._at_once = patience_s, at_once
        self._late: dict[str, threading.Thread] = {}

    def run(self, tasks: Mapping[str, Callable[[], None]]) -> dict[str, Exception]:
        """Run tasks by name; return why some did not end well.

        One whose task before is late, and still runs, is not begun.
        """
        failed: dict[str, Exception] = {}
        begun: dict[str, threading.Thread] = {}
        self._late = {name: each for name, each in self._late.items() if each.is_alive()}
        free = threading.Semaphore(self._at_once)
        for name, task in tasks.items():
            if name in self._late:
                continue
            if not free.acquire(timeout=self._patience_s):  # those that have it are late
                free = threading.Semaphore(self._at_once)
                free.acquire()
            thread = threading.Thread(
                target=_run, args=(name, task, free, failed), name=f"of {name}", daemon=True
            )
            begun[name] = thread
            thread.start()
        deadline = Deadline.after_s(self._patience_s)
        for name, thread in begun.items():
            thread.join(max(deadline.left_s, 0))
            if thread.is_alive():
                self._late[name] = thread
        late = LateError(f"it takes longer than {self._patience_s:g} s")
        return {**failed, **{name: late for name in tasks if name in self._late}}


def _run(
    name: str,
    task: Callable[[], None],
    free: threading.Semaphore,
    failed: dict[str, Exception],
) -> None:
    try:
        task()
    except Exception as error:  # whatever it is, the others go on
        failed[name] = error
    finally:
        free.release()
