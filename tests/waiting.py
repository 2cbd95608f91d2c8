"""Waiting for something that another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from streaming.runtime.deadline import Deadline

T = TypeVar("T")


def until(
    condition: Callable[[], T], within_s: float = 30, otherwise: str = "", *, pause_s: float = 0.1
) -> T:
    """The first true value of the condition.

    Args:
        condition: called again and again, and at least once.
        within_s: fails after this time, which is far more than it should take.
        otherwise: what is wrong then; by default the name of the condition.
        pause_s: between two calls.
    """
    deadline = Deadline.after_s(within_s)
    while not (value := condition()):
        wrong = otherwise or f"not {condition.__name__.replace('_', ' ')}"
        assert not deadline.is_over, f"{wrong} after {within_s:.0f} s"
        time.sleep(pause_s)
    return value
