"""Parameters of a URL: how their text is read, and their meaning.

A parameter is declared once. Requests are read with the declaration, and the description of the API
and its page in ``docs/`` are made of it. A request that is wrong gets one line with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from streaming.questions.quantities import UNITS_BYTES, UNITS_MS, parse, pattern

Schema = Mapping[str, Any]
"""A JSON Schema."""

MAX_ROWS: Final = 1_000
"""The largest answer of a list."""

DEFAULT_ROWS: Final = 100
"""How long a list is where no limit is given."""

_MAX_NUMBER: Final = 9_999_999_999
_MAX_DIGITS: Final = len(str(_MAX_NUMBER))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: ``read`` turns its text into a value, or raises a ValueError with the reason."""

    meaning: str
    schema: Schema
    read: Callable[[str], Any]
    repeated: bool = False
    required: bool = False
    place: Literal["query", "header", "path"] = "query"


def number(meaning: str, *, least: int = 0, most: int = _MAX_NUMBER, **more: Any) -> Parameter:
    """A whole number of at most ten digits."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
            raise ValueError(f"{text!r} is not a number")
        if int(text) > most:
            raise ValueError(f"at most {most}")
        if int(text) < least:
            raise ValueError(f"at least {least}")
        return int(text)

    return Parameter(meaning, {"type": "integer", "minimum": least, "maximum": most}, read, **more)


def limit(what: str, default: int) -> Parameter:
    """The largest number of rows in an answer."""
    meaning = f"the largest number of {what} in the answer: {default} by default, at most"
    return number(f"{meaning} {MAX_ROWS}", most=MAX_ROWS)


def offset(what: str) -> Parameter:
    """The number of rows to skip."""
    return number(f"the number of {what} to skip")


def text(meaning: str, **more: Any) -> Parameter:
    """A parameter that is any text."""
    return Parameter(meaning, {"type": "string"}, str, **more)


def yes_or_no(meaning: str) -> Parameter:
    """true or false."""

    def read(given: str) -> bool:
        if given not in ("true", "false"):
            raise ValueError(f"{given!r} is neither true nor false")
        return given == "true"

    return Parameter(meaning, {"type": "boolean"}, read)


def one_of(meaning: str, values: Mapping[str, Any], **more: Any) -> Parameter:
    """A name, read as the value that it stands for."""

    def read(name: str) -> Any:
        if name not in values:
            raise ValueError(f"{name!r} is none of {', '.join(values)}")
        return values[name]

    return Parameter(meaning, {"type": "string", "enum": list(values)}, read, **more)


def matching(
    meaning: str,
    form: str,
    value_of: Callable[[str], Any],
    otherwise: str,
    example: str,
    **more: Any,
) -> Parameter:
    """Text of that form, a regular expression."""

    def read(given: str) -> Any:
        if not re.fullmatch(form, given):
            raise ValueError(f"{given!r} is {otherwise}")
        return value_of(given)

    schema = {"type": "string", "pattern": f"^(?:{form})$", "examples": [example]}
    return Parameter(meaning, schema, read, **more)


def duration_ms(meaning: str, **more: Any) -> Parameter:
    """A duration with a unit, in milliseconds."""
    return _quantity(meaning, UNITS_MS, "duration; write 10m, 90s, 2h or milliseconds", **more)


def size_bytes(meaning: str, **more: Any) -> Parameter:
    """A size with a unit, in bytes."""
    return _quantity(meaning, UNITS_BYTES, "size; write 100MiB, 2GiB or bytes", **more)


def _quantity(
    meaning: str, units: Mapping[str, int], what: str, *, positive: bool = False, **more: Any
) -> Parameter:
    form = pattern(units, positive=positive)

    def read(given: str) -> int:
        amount = parse(given, units)
        if amount is None:
            raise ValueError(f"{given!r} is no {what}")
        if not re.fullmatch(form, given):
            raise ValueError("it must be positive")
        return amount

    return Parameter(meaning, {"type": "string", "pattern": f"^(?:{form})$"}, read, **more)


def read_all(
    given: Iterable[tuple[str, str]], parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """The values of the parameters that are given, by name; of a repeated one, a list.

    Raises:
        ValueError: one line with the parameter and the reason.
    """
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in parameters:
            raise ValueError(f"{name}: there is no such parameter")
        parameter = parameters[name]
        if name in values and not parameter.repeated:
            raise ValueError(f"{name}: it is given twice")
        try:
            value = parameter.read(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if parameter.repeated:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    for name, parameter in parameters.items():
        if parameter.required and name not in values:
            raise ValueError(f"{name}: it is missing: {parameter.meaning}")
    return values
