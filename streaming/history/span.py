"""From one moment of the past to another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The time from one cycle to another, both included."""

    begin_ms: int
    end_ms: int
