"""Counts of the calls of agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NO_TOOL: Final = "unknown"
"""Stands for the name of a tool that does not exist: labels are bounded."""


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls by tool and outcome; counted in the event loop, read by any thread."""

    _calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, tool: str, outcome: str) -> None:
        """Count a call."""
        self._calls[tool, outcome] += 1

    def now(self) -> dict[tuple[str, str], int]:
        """A copy, made in one step."""
        return dict(self._calls)


Count = Callable[[str, str, Mapping[str, Any]], None]
"""Counts a call: its tool, its outcome, and its arguments, which may name a cluster."""


def counted_in(counts: CallCounts) -> Count:
    """Counts all calls there."""
    return lambda tool, outcome, _: counts.add(tool, outcome)
