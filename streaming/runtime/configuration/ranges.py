"""What a setting may be, stated where it is declared, and how a refusal words it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, get_args, get_type_hints

from msgspec import Meta, ValidationError

_OUTSIDE: Final = re.compile(r"Expected `\w+` (?:>=|<=|matching) ")


def at_least(low: int, why: str = "") -> Meta:
    """A number from ``low`` on; ``why`` ends the sentence."""
    return Meta(ge=low, description=f"must be at least {low}{why}")


def between(low: int, high: int, why: str = "") -> Meta:
    """A number of that range, both included; ``why`` ends the sentence."""
    return Meta(ge=low, le=high, description=f"must be {low} to {high}{why}")


def like(pattern: str, must: str) -> Meta:
    """A text that matches as a whole; ``must`` is the sentence about it."""
    return Meta(pattern=rf"\A(?:{pattern})\Z", description=f"must {must}")


NotNegative = Annotated[int, at_least(0)]
NotEmpty = Annotated[str, like(r"(?s:.+)", "not be empty")]
Port = Annotated[int, between(0, 65_535)]
Memory = Annotated[str, like(r"[1-9]\d*[mg]", "look like 512m or 2g")]
Limit = Annotated[int, Meta(ge=-1, le=(1 << 62) - 1, description="must be positive, or -1: off")]
Threshold = Annotated[int, Meta(ge=-1, description="must be positive, or -1: off")]
InheritedThreshold = Annotated[
    int, Meta(ge=-2, description="must be positive, -1: off, or -2: inherited")
]


def reason(error: ValidationError, kind: Any) -> str:
    """Why msgspec refuses a value: it names one bound, and this the whole range."""
    said, _, place = str(error).partition(" - at ")
    if not _OUTSIDE.match(said):
        return said
    for name in filter(None, place.replace("[...]", "[]").strip("`$").split(".")):
        kind = get_type_hints(kind, include_extras=True)[name.partition("[")[0]]
        kind = get_args(kind)[-1] if "[" in name else kind
    return range_of(kind)


def range_of(kind: Any) -> str:
    """What a setting of this type must be; empty: anything of its type."""
    metas = (each for each in get_args(kind)[1:] if isinstance(each, Meta))
    return next((meta.description or "" for meta in metas), "")
