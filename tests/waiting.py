"""Waiting for something that another process or thread does, on a quiet machine or a busy one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from streaming.runtime.deadline import Deadline

T = TypeVar("T")

AMPLE_MS: Final = 60_000
"""A deadline for tests in which every broker answers."""

PATIENCE: Final = 10
"""How many times as long as on a quiet machine a wait may take before its test fails."""

LONGEST_PAUSE_S: Final = 0.3
"""A third of a cycle of the twins of tests, so that no cycle is missed."""


def patience(*, lately: bool = False) -> float:
    """Processes that want a core at present, for each core that there is; at least 1.

    A request takes that many times as long as on a quiet machine. With ``lately`` the number is
    also at least that of the last 5 and 15 minutes, for what was measured in them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    means = os.getloadavg()  # of a minute, of 5 and of 15
    runnable = max(means) if lately else means[0]
    with suppress(OSError, ValueError, IndexError):  # no Linux
        runnable = max(runnable, int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]))
    return max(1.0, runnable / (cores or 1))


def patient_ms(quiet_ms: int) -> int:
    """A deadline that brokers of tests meet now, which on a quiet machine is ``quiet_ms``."""
    return round(quiet_ms * patience())


def until(
    condition: Callable[[], T],
    within_s: float = 30,
    otherwise: str | Callable[[], str] = "",
    *,
    pause_s: float = 0.1,
) -> T:
    """The first true value of the condition.

    Args:
        condition: called again and again, and at least once.
        within_s: what it takes at most on a quiet machine; it fails after PATIENCE times that.
        otherwise: what is wrong then, or a function that finds it out; by default the name of the
            condition.
        pause_s: between the first calls. Pauses grow with the time that has passed, up to
            LONGEST_PAUSE_S: most waits are for brokers, which want the cores that a call takes.
    """
    began_s = time.monotonic()
    deadline = Deadline.after_s(PATIENCE * within_s)
    while not (value := condition()):
        if deadline.is_over:
            wrong = otherwise() if callable(otherwise) else otherwise
            wrong = wrong or f"not {condition.__name__.replace('_', ' ')}"
            raise AssertionError(f"{wrong} after {PATIENCE * within_s:.0f} s")
        time.sleep(max(pause_s, min(LONGEST_PAUSE_S, (time.monotonic() - began_s) / 10)))
    return value
