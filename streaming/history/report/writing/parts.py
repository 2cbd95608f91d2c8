"""What a report is made of as a document, for whatever it is shown as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_ROWS: Final = 30
MOST_TEXT: Final = 400
"""Characters of a sentence: a name of Kafka's has at most 249."""

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list.

    ``number`` counts causes; ``note`` says how sure it is; ``path`` is where the text leads, below
    the console.
    """

    text: str
    at_ms: int | None = None
    depth: int = 0
    note: str = ""
    names: tuple[str, ...] = ()
    number: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of texts. The moments lead from the first cell of a row, or from a cell of the head."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    row_at_ms: Sequence[int | None] = ()
    header_at_ms: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and what is below it. Its moments lead to the console at ``path`` below that of
    the document."""

    title: str
    sentences: Sequence[str] = ()
    items: Sequence[Item] = ()
    table: TextTable | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """The whole report."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    causes: Sequence[tuple[int, int]] = field(default=())  # number and time, for the picture


def plain(text: str) -> str:
    """One line of printable characters, cut where it is longer than any sentence here."""
    line = "".join(each if each.isprintable() else " " for each in text)
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"
