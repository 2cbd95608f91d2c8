"""Durations and sizes with units, as people write and read them."""

from __future__ import annotations

import math
import re
from typing import Final

from twin.table import UNKNOWN

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}
UNITS_BYTES: Final = {
    "": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


def parse(text: str, units: dict[str, int]) -> int | None:
    """A number with one of the units, in the smallest of them; None if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if match is None or match[2] not in units:
        return None
    return int(float(match[1]) * units[match[2]])


def size_text(value: int) -> str:
    """A size for a table, - if it is unknown."""
    if value == UNKNOWN:
        return "-"
    unit = max((u for u in ("B", "KiB", "MiB", "GiB", "TiB") if value >= UNITS_BYTES[u]),
               key=lambda u: UNITS_BYTES[u], default="B")  # fmt: skip
    return f"{value / UNITS_BYTES[unit]:.4g} {unit}"


def reach_text(span_ms: float) -> str:
    """A span that may have no limit or be unknown."""
    if math.isfinite(span_ms):
        return span_text(int(span_ms))
    return "unknown" if math.isnan(span_ms) else "no limit"


def span_text(value_ms: int) -> str:
    """A duration for a table, - if it is unknown."""
    if value_ms == UNKNOWN:
        return "-"
    unit = max((u for u in ("ms", "s", "m", "h", "d") if value_ms >= UNITS_MS[u]),
               key=lambda u: UNITS_MS[u], default="ms")  # fmt: skip
    return f"{value_ms / UNITS_MS[unit]:.4g} {unit}"
