"""Times until something happens: known, not in sight, or unknown."""

from __future__ import annotations

import math
from typing import Literal

from streaming.runtime.quantities import duration_text

Forecast = Literal["full", "not_in_sight", "unknown"]


def forecast_of(after_s: float) -> Forecast:
    """Whether it is foretold: inf is not in sight, NaN is unknown."""
    if math.isnan(after_s):
        return "unknown"
    return "not_in_sight" if math.isinf(after_s) else "full"


def seconds_of(after_s: float) -> float | None:
    """The time, if it is foretold."""
    return max(after_s, 0.0) if math.isfinite(after_s) else None


def after_text(forecast: Forecast, after_s: float | None) -> str:
    """The time, or the word where there is none."""
    known = forecast == "full" and after_s is not None
    return duration_text(after_s) if known and after_s is not None else forecast.replace("_", " ")
