"""A point in time by which something has to be done, on the monotonic clock."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline; ``Deadline.after_s(30)`` is over in 30 seconds.

    Changes of the wall clock do not move it.
    """

    at_s: float  # as time.monotonic() counts

    @classmethod
    def after_s(cls, seconds: float) -> Deadline:
        """The deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    @classmethod
    def after_ms(cls, milliseconds: float) -> Deadline:
        """The deadline that many milliseconds from now."""
        return cls.after_s(milliseconds / 1_000)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0 once it is over."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def left_ms(self) -> int:
        """Whole milliseconds until the deadline, rounded down; 0 once it is over."""
        return int(self.left_s * 1_000)

    @property
    def is_over(self) -> bool:
        """The deadline has passed."""
        return self.left_s <= 0
