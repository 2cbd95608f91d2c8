"""Parameters of URLs and of commands: their meaning, and how texts become values and back.

A parameter is declared once. Requests and command lines are read with the declaration; help, the
description of the API and its page in ``docs/`` are made of it. An error is one line with the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from streaming.runtime.quantities import UNITS_BYTES, UNITS_MS, exact_text, parse, pattern
from twin.declarations.table import Array
from twin.engine.catalog import Catalog

Schema = Mapping[str, Any]
"""A JSON Schema."""

MAX_ROWS: Final = 1_000
"""The largest answer of a list."""

DEFAULT_ROWS: Final = 100
"""The length of a list without a given limit."""

_MAX_NUMBER: Final = 9_999_999_999
_MAX_DIGITS: Final = len(str(_MAX_NUMBER))


@dataclass(frozen=True, slots=True)
class InputParameter:
    """A parameter: ``read`` turns its text into a value, or raises a ValueError with the reason.

    ``write`` is the inverse of ``read``. ``default`` is the value of a URL that lacks the
    parameter; None if the parameter is then not there.
    """

    meaning: str
    schema: Schema
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    kind: str = "text"
    example: str = ""
    repeated: bool = False
    required: bool = False
    default: Any = None
    place: Literal["query", "header", "path"] = "query"
    header: str = ""  # its name, where that is the place
    in_command: bool = True
    of_catalog: Callable[[Catalog], InputParameter] | None = None  # where its values depend on it

    def of(self, catalog: Catalog) -> InputParameter:
        """The parameter for that catalog."""
        return self if self.of_catalog is None else self.of_catalog(catalog)

    @property
    def in_url(self) -> str:
        """Its meaning in a URL."""
        return (
            ("`true`: " if self.kind == "flag" else "")
            + self.meaning
            + (f", e.g. `{self.example}`" if self.example else "")
            + ("; may be repeated" if self.repeated else "")
            + (f"; `{self.write(self.default)}` by default" if self.default is not None else "")
        )

    @property
    def in_help(self) -> str:
        """Its meaning in the help of a command."""
        first = self.meaning[0].upper() + self.meaning[1:]  # a remaining backtick marks a name
        example = f", e.g. {self.example}" if self.example else ""
        return (first + example + ("; repeatable" if self.repeated else "") + ".").replace("`", "")


def number(meaning: str, *, least: int = 0, most: int = _MAX_NUMBER, **more: Any) -> InputParameter:
    """A whole number of at most ten digits."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
            raise ValueError(f"{text!r} is not a number")
        if int(text) > most:
            raise ValueError(f"at most {most}")
        if int(text) < least:
            raise ValueError(f"at least {least}")
        return int(text)

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return InputParameter(meaning, schema, read, kind="integer", **more)


def limit(what: str, default: int | None = None) -> InputParameter:
    """The largest number of rows in an answer. A command prints as many as fit a screen."""
    meaning = f"the largest number of {what} in the answer, at most {MAX_ROWS}"
    return number(meaning, most=MAX_ROWS, default=default, in_command=False)


def offset(what: str) -> InputParameter:
    """The number of rows to skip."""
    return number(f"the number of {what} to skip")


def text(meaning: str, **more: Any) -> InputParameter:
    """A parameter that is any text."""
    return InputParameter(meaning, {"type": "string"}, str, **more)


def pattern_of_names(meaning: str, **more: Any) -> InputParameter:
    """A regular expression that the whole of a name must match, in the syntax of RE2.

    RE2 matches in linear time: the exporter takes patterns from anybody, and Python's engine takes
    hours for some.
    """

    def read(given: str) -> str:
        try:
            pc.match_substring_regex([""], given)  # alone: brackets must not close ours
            matches(given, [""])
        except pa.ArrowInvalid:
            raise ValueError(f"{given!r} is not a regular expression") from None
        return given

    return InputParameter(meaning, {"type": "string", "format": "regex"}, read, **more)


def matches(form: str, names: Iterable[str]) -> Array:
    """[N] whether each name matches a pattern as a whole."""
    column = pa.array(names, pa.string())
    is_match: Array = pc.match_substring_regex(column, rf"\A(?:{form})\z").to_numpy(False)
    return is_match.astype(bool)


def yes_or_no(meaning: str) -> InputParameter:
    """true or false; a flag of a command."""

    def read(given: str) -> bool:
        if given not in ("true", "false"):
            raise ValueError(f"{given!r} is neither true nor false")
        return given == "true"

    return InputParameter(
        meaning, {"type": "boolean"}, read, lambda value: str(value).lower(), kind="flag"
    )


def one_of(
    meaning: str, values: Mapping[str, Any] | Callable[[Catalog], Mapping[str, Any]], **more: Any
) -> InputParameter:
    """A name, read as the value that it stands for; ``values`` may depend on the catalog."""
    if not isinstance(values, Mapping):
        of_catalog = values
        return InputParameter(
            meaning, {}, str, of_catalog=lambda c: one_of(meaning, of_catalog(c), **more)
        )

    def read(name: str) -> Any:
        if name not in values:
            raise ValueError(f"{name!r} is none of {', '.join(values)}")
        return values[name]

    def write(value: Any) -> str:
        return next(name for name, each in values.items() if each == value)

    return InputParameter(meaning, {"type": "string", "enum": list(values)}, read, write, **more)


def matching(
    meaning: str,
    form: str,
    value_of: Callable[[str], Any],
    otherwise: str,
    example: str,
    **more: Any,
) -> InputParameter:
    """Text that matches the regular expression ``form``."""

    def read(given: str) -> Any:
        if not re.fullmatch(form, given):
            raise ValueError(f"{given!r} is {otherwise}")
        return value_of(given)

    schema = {"type": "string", "pattern": f"^(?:{form})$", "examples": [example]}
    return InputParameter(meaning, schema, read, **more)


def duration_ms(meaning: str, **more: Any) -> InputParameter:
    """A duration with a unit, in milliseconds."""
    return _quantity(meaning, "duration", UNITS_MS, "10m, 90s, 2h or milliseconds", **more)


def size_bytes(meaning: str, **more: Any) -> InputParameter:
    """A size with a unit, in bytes."""
    return _quantity(meaning, "size", UNITS_BYTES, "100MiB, 2GiB or bytes", **more)


def _quantity(
    meaning: str, kind: str, units: Mapping[str, int], examples: str, *, positive: bool = False,
    **more: Any,
) -> InputParameter:  # fmt: skip
    form = pattern(units, positive=positive)

    def read(given: str) -> int:
        amount = parse(given, units)
        if amount is None:
            raise ValueError(f"{given!r} is no {kind}; write {examples}")
        if not re.fullmatch(form, given):
            raise ValueError("it must be positive")
        return amount

    schema = {"type": "string", "pattern": f"^(?:{form})$"}
    return InputParameter(meaning, schema, read, lambda v: exact_text(v, units), kind=kind, **more)


def read_all(
    given: Iterable[tuple[str, str]], parameters: Mapping[str, InputParameter]
) -> dict[str, Any]:
    """The values of the parameters that are given or have a default; of a repeated one, a list.

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
        if parameter.default is not None:
            values.setdefault(name, parameter.default)
    return values
