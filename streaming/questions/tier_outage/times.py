"""Times until something happens: known, not in sight, or unknown."""

from __future__ import annotations

import math
from typing import Literal

from streaming.runtime.quantities import span_text

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


def duration_text(seconds: float) -> str:
    """Days and hours, hours and minutes, or minutes and seconds: what a person plans with."""
    whole = round(seconds)
    for large, small, unit, part in ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "min")):
        if whole >= large:
            many, rest = divmod(whole, large)
            return f"{many} {unit}" + (f" {rest // small} {part}" if rest // small else "")
    return f"{whole // 60} min" if whole >= 600 else span_text(whole * 1_000)
