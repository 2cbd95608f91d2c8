"""When each volume is full, as plain data for the JSON API.

JSON has no infinity, and null is unknown in this API: so each time stands beside a word that says
whether it is ``full`` then, not in sight, or unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from twin.arrays import plain
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.declarations.table import Column

FULL, NOT_IN_SIGHT, UNKNOWN_WHEN = "full", "not_in_sight", "unknown"

FORECASTS: Final = (FULL, NOT_IN_SIGHT, UNKNOWN_WHEN)

_AS_THEY_ARE: Final = (
    "logs_least_bytes_per_s", "logs_most_bytes_per_s", "used_bytes_per_s", "other_bytes_per_s",
    "seen_s", "unjudged_replicas",
)  # fmt: skip

PAGE, WARN = "page", "warn"

Foretold = Mapping[str, Any]


def columns() -> list[Column]:
    """The columns that are fields of a forecast as they are."""
    return [c for c in DiskForecasts.columns if c.name in _AS_THEY_ARE]


def unknown() -> Foretold:
    """The forecast of a volume of unknown size, or of a broker that has not listed it lately."""
    nobody_knows = _time(math.nan)
    return {
        "earliest": nobody_knows,
        "latest": nobody_knows,
        "line": nobody_knows,
        "away": None,
        "near": None,
        **dict.fromkeys(_AS_THEY_ARE),
        "differs": None,
    }


def foretold(forecasts: DiskForecasts, now_ms: int) -> Sequence[Foretold]:
    """The forecast of each volume, in the order of the table; ``now_ms`` is its cycle."""
    rates = {c.name: plain.column_values(c, getattr(forecasts, c.name)) for c in columns()}
    differs = forecasts.differs()
    is_compared = np.isfinite(forecasts.used_bytes_per_s) & ~np.isnan(forecasts.full_at_latest_ms)
    page = forecasts.is_near(forecasts.page_before_ms, now_ms)
    warn = forecasts.is_near(forecasts.warn_before_ms, now_ms)
    answer: list[Foretold] = []
    for row in range(len(forecasts.broker)):
        if not forecasts.is_current[row]:
            answer.append(unknown())
            continue
        away_ms = float(forecasts.full_if_away_ms[row])
        answer.append(
            {
                "earliest": _time(float(forecasts.full_at_earliest_ms[row])),
                "latest": _time(float(forecasts.full_at_latest_ms[row])),
                "line": _time(float(forecasts.full_by_line_ms[row])),
                "away": None if math.isnan(away_ms) else _time(away_ms),
                "near": PAGE if page[row] else WARN if warn[row] else None,
                **{name: values[row] for name, values in rates.items()},
                "differs": bool(differs[row]) if is_compared[row] else None,
            }
        )
    return answer


def is_in_sight(full: Foretold) -> bool:
    """By the model; the straight line alone is no forecast."""
    return FULL in (full["earliest"]["forecast"], full["latest"]["forecast"])


def _time(at_ms: float) -> Mapping[str, Any]:
    if math.isnan(at_ms):
        return {"forecast": UNKNOWN_WHEN, "at_ms": None}
    if math.isinf(at_ms):
        return {"forecast": NOT_IN_SIGHT, "at_ms": None}
    return {"forecast": FULL, "at_ms": round(at_ms)}
