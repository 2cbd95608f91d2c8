"""Moments of the past, as people write them: a time with its offset, or a time ago.

``2026-11-24T03:12:00Z``, ``2026-11-24T04:12:00.250+01:00``, ``-15m``, ``-1h30m``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from streaming.questions.parameters import InputParameter, matching
from streaming.runtime.errors import UserError
from streaming.runtime.quantities import UNITS_MS

_YEAR: Final = r"(?:19|2[0-9])[0-9]{2}"
_LEAP_YEAR: Final = r"(?:(?:19|2[0-9])(?:0[48]|[2468][048]|[13579][26])|2[048]00)"
_DAY: Final = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_DATE: Final = rf"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,3})?"
# In a URL that nobody encoded, "+" is a blank.
_OFFSET: Final = r"(?:Z|[-+ ](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_AGO: Final = r"-(?:[0-9]{1,5}[dhms]){1,4}"
_FORM: Final = f"{_DATE}T{_TIME}{_OFFSET}|{_AGO}"
_HOW: Final = "not a moment; write 2026-11-24T03:12:00Z, or -15m for a time ago"


class MomentError(UserError):
    """The past has no state for that moment; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment, or a time ago, which ``at_ms`` counts from the time that is now."""

    text: str

    def at_ms(self, now_ms: int) -> int:
        """The Unix time."""
        if not self.text.startswith("-"):
            return _unix_ms(self.text)
        parts = re.findall(r"([0-9]+)([dhms])", self.text)
        return now_ms - sum(int(number) * UNITS_MS[unit] for number, unit in parts)


def moment(meaning: str, **more: Any) -> InputParameter:
    """A parameter that is a moment."""
    example = "2026-11-24T03:12:00Z"
    return matching(meaning, _FORM, Moment, _HOW, example, kind="moment", write=_text_of, **more)


def _text_of(value: Moment) -> str:
    return value.text


AT_NAME: Final = "at"
"""The parameter of URLs."""

AT: Final = moment(
    "[the past moment](history.md#ask-about-a-moment) that is asked about: a time with its offset, "
    "or a time ago"
)


def time_text(at_ms: int) -> str:
    """A moment as RFC 3339, in UTC with milliseconds."""
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03d}Z"


def checked_in(at_ms: int, begin_ms: int, end_ms: int, now_ms: int) -> int:
    """The moment itself, if it is within a span.

    Raises:
        MomentError: it is in the future, or before or after what is recorded.
    """
    said = time_text(at_ms)
    if at_ms > max(now_ms, end_ms):
        raise MomentError(f"{said} is in the future")
    if at_ms < begin_ms:
        raise MomentError(f"{said} is before the beginning: {time_text(begin_ms)}")
    if at_ms > end_ms:
        raise MomentError(f"{said} is after the end: {time_text(end_ms)}")
    return at_ms


def _unix_ms(text: str) -> int:
    at = datetime.fromisoformat(text.replace(" ", "+"))
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def how_known(complete: bool, filled: bool) -> str:
    """The suffix of the time of a past state that was computed or is incomplete."""
    how = ", computed from observations, since it was not archived" if filled else ""
    return how if complete else f"{how}, of which not all was recorded"
