"""Reading of URL parameters: what is wrong with one is said in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from streaming.questions.restart import ALLOWABLE
from twin.gate import Terms
from twin.table import UNKNOWN

Reader = Callable[[str, str], Any]
"""Turns the text of a parameter into its value; its name is for the message of a ValueError."""

MAX_ROWS: Final = 1_000
"""The largest answer of a list."""

_MAX_DIGITS: Final = 10


def each_once(parameters: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The parameters, in order.

    Raises:
        ValueError: one is given twice.
    """
    names: set[str] = set()
    for name, text in parameters:
        if name in names:
            raise ValueError(f"{name}: it is given twice")
        names.add(name)
        yield name, text


def yes_or_no(name: str, text: str) -> bool:
    """true or false.

    Raises:
        ValueError: it is neither.
    """
    if text not in ("true", "false"):
        raise ValueError(f"{name}: {text!r} is neither true nor false")
    return text == "true"


def plain_text(_: str, text: str) -> str:
    """As it is given."""
    return text


def one_of(values: Mapping[str, int]) -> Reader:
    """A reader of the number that one of these names stands for."""

    def read(name: str, text: str) -> int:
        if text not in values:
            raise ValueError(f"{name}: {text!r} is none of {', '.join(values)}")
        return values[text]

    return read


def read_all(
    parameters: Iterable[tuple[str, str]], readers: Mapping[str, Reader]
) -> dict[str, Any]:
    """The values of the parameters that are given, by name.

    Raises:
        ValueError: one line with the parameter and the reason.
    """
    values: dict[str, Any] = {}
    for name, text in each_once(parameters):
        if name not in readers:
            raise ValueError(f"{name}: there is no such parameter")
        values[name] = readers[name](name, text)
    return values


def restart_terms(parameters: Iterable[tuple[str, str]]) -> tuple[Terms, int]:
    """The terms of a restart, and since when observations count, in milliseconds.

    The parameters: ``margin``, ``allow_...`` for each reason that may be allowed, and ``since``, in
    seconds.

    Raises:
        ValueError: one line with the parameter and the reason.
    """
    options = {f"allow_{name}": reason for name, reason in ALLOWABLE.items()}
    readers = {"margin": number, "since": number, **dict.fromkeys(options, yes_or_no)}
    values = read_all(parameters, readers)
    allowed = frozenset(reason for name, reason in options.items() if values.get(name))
    since_ms = values["since"] * 1_000 if "since" in values else UNKNOWN
    return Terms(values.get("margin", 0), allowed), since_ms


def number(name: str, text: str) -> int:
    """A whole number of at most ten digits; a limit of at most MAX_ROWS.

    Raises:
        ValueError: it is none.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        raise ValueError(f"{name}: {text!r} is not a number")
    if name == "limit" and int(text) > MAX_ROWS:
        raise ValueError(f"limit: at most {MAX_ROWS}")
    return int(text)
