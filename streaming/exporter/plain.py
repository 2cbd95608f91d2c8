"""Numbers and words of the twin's columns as JSON has them: unknown is null."""

from __future__ import annotations

import math
from typing import Any

from twin.tables import UNKNOWN


def observed(at_ms: Any, now_ms: int) -> dict[str, Any]:
    """When it was observed, and how old that is."""
    at = int(at_ms)
    if at == UNKNOWN:
        return {"observed_at_ms": None, "age_seconds": None}
    return {"observed_at_ms": at, "age_seconds": max(now_ms - at, 0) / 1000}


def known(value: Any, kind: type = int) -> Any:
    """The value, or null."""
    return None if int(value) == UNKNOWN else kind(value)


def seconds(value_ms: Any) -> float | None:
    """Milliseconds as seconds, or null."""
    return None if int(value_ms) == UNKNOWN else int(value_ms) / 1000


def word(kind: Any, value: Any) -> str | None:
    """The name of an enum's value, or null."""
    return None if int(value) == UNKNOWN else str(kind(int(value)).name).lower()


def number(value: Any) -> float | None:
    """A finite number, or null: JSON has neither infinity nor not-a-number, and -1 is unknown."""
    return float(value) if math.isfinite(value) and value != UNKNOWN else None
