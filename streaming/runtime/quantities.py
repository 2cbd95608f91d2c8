"""Durations and sizes with units, and points in time, as people write and read them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from twin.declarations.table import UNKNOWN

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}
UNITS_BYTES: Final = {
    "": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


MAX_AMOUNT: Final = 10**18
"""The largest duration or size. Four times as much still fits into 64 bits."""


def parse(text: str, units: Mapping[str, int]) -> int | None:
    """A number with one of the units, in the smallest unit; None if the text is another one.

    A fraction of the smallest unit is rounded up.
    """
    if not re.fullmatch(pattern(units), text):
        return None
    amount, unit = re.split(r"(?<=[0-9]) ?(?=[A-Za-z]*$)", text, maxsplit=1)
    return math.ceil(Fraction(amount) * units[unit])


def pattern(units: Mapping[str, int], *, positive: bool = False) -> str:
    """A regular expression, of Python and JSON Schema alike, for a number with one of the units.

    Not for numbers above MAX_AMOUNT in the smallest unit, nor for 0 if it must be ``positive``.
    """
    forms = []
    for unit, factor in units.items():
        more = len(str(MAX_AMOUNT // factor)) - 2  # digits after the first one
        whole = rf"[1-9][0-9]{{0,{more}}}(?:\.[0-9]{{1,9}})?"
        fraction = r"0\.[0-9]{0,8}[1-9]0{0,8}" if positive else r"0(?:\.[0-9]{1,17})?"
        forms.append(f"(?:{whole}|{fraction}){' ?' if unit else ''}{unit}")
    return "|".join(forms)


def exact_text(amount: int, units: Mapping[str, int]) -> str:
    """The text that ``parse`` reads as that amount, in the largest unit that divides it."""
    texts = {factor: f"{amount // factor}{u}" for u, factor in units.items() if not amount % factor}
    return max((f, text) for f, text in texts.items() if parse(text, units) == amount)[1]


def size_text(value: int) -> str:
    """A size for a table, - if it is unknown."""
    if value == UNKNOWN:
        return "-"
    unit = max((u for u in ("B", "KiB", "MiB", "GiB", "TiB") if value >= UNITS_BYTES[u]),
               key=lambda u: UNITS_BYTES[u], default="B")  # fmt: skip
    return f"{value / UNITS_BYTES[unit]:.4g} {unit}"


def duration_text(seconds: float) -> str:
    """A duration for a sentence: ``40 s``, ``12 min``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(seconds / 3_600)
    if hours < 48:
        return _two_units(minutes, 60, "h", "min")
    return _two_units(hours, 24, "d", "h")


def _two_units(value: int, size: int, large: str, small: str) -> str:
    many, rest = divmod(value, size)
    return f"{many} {large}" + (f" {rest} {small}" if rest else "")


def span_text(value_ms: int) -> str:
    """A duration for a table, - if it is unknown."""
    if value_ms == UNKNOWN:
        return "-"
    unit = max((u for u in ("ms", "s", "m", "h", "d") if value_ms >= UNITS_MS[u]),
               key=lambda u: UNITS_MS[u], default="ms")  # fmt: skip
    return f"{value_ms / UNITS_MS[unit]:.4g} {unit}"


def utc_text(at_ms: int) -> str:
    """Date and time of a Unix time, e.g. ``2026-01-15 03:33:52 UTC``."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
