"""Reading of URL parameters: what is wrong with one is said in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from streaming.questions.restart import ALLOWABLE
from twin.gate import Terms

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


def restart_terms(parameters: Iterable[tuple[str, str]]) -> Terms:
    """The terms of a restart: ``margin``, and ``allow_...`` for each reason that may be allowed.

    Raises:
        ValueError: one line with the parameter and the reason.
    """
    margin, allowed = 0, set()
    for name, text in each_once(parameters):
        what = name.removeprefix("allow_")
        if name == "margin":
            margin = number(name, text)
        elif name != what and what in ALLOWABLE:
            if yes_or_no(name, text):
                allowed.add(ALLOWABLE[what])
        else:
            raise ValueError(f"{name}: there is no such parameter")
    return Terms(margin, frozenset(allowed))


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
