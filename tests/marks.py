"""Which files can hold tests that ``-m`` selects: only these are imported.

To import all tests takes each process of pytest many seconds, and a run of all starts a dozen. So
the marks of a test must be written in its file, or in the ``conftest.py`` of its folder.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import Final

_MARK: Final = re.compile(r"pytest\.mark\.(\w+)")
_NAME: Final = re.compile(r"(?!(?:and|or|not)\b)\b[a-z]\w*")


def marks_written(path: Path) -> frozenset[str]:
    """The marks that are written in a file of tests and in the ``conftest.py`` beside it."""
    files = path, path.with_name("conftest.py")
    return frozenset(chain.from_iterable(_MARK.findall(_text(file)) for file in files))


def names_in(expression: str) -> frozenset[str]:
    """The marks that an expression of ``-m`` names."""
    return frozenset(_NAME.findall(expression))


def can_match(expression: str, marks: frozenset[str]) -> bool:
    """Whether a test that has some of these marks, all, or none can match an expression of ``-m``.

    An expression that is more than names with and, or, not and parentheses matches everything.
    """
    names = names_in(expression)
    if re.search(r"[^\w\s()]", expression):
        return True
    code = compile(expression or "True", "-m", "eval")
    some = sorted(names & marks)
    return any(
        eval(code, {"__builtins__": {}}, dict.fromkeys(names, False) | dict.fromkeys(has, True))
        for count in range(len(some) + 1)
        for has in combinations(some, count)
    )


@cache
def _text(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""
