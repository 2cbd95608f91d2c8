"""Pieces of Markdown that several pages need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from twin.declarations.table import Column, Table
from twin.engine.catalog import Catalog

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"

SITE: Final = "https://kafka-twin.github.io/kafka-twin/"
"""Where the site is: two pages are there alone."""

_END: Final = "<!-- end -->"


def rows(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """A table; bars within a cell are escaped."""
    text = [header, ["---"] * len(header), *lines]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in text]


def names(values: Iterable[str]) -> str:
    """Values as code, with commas."""
    return ", ".join(f"`{value}`" for value in values) or "-"


def between(page: str, begins: str, lines: Iterable[str]) -> str:
    """The page with those lines between the marker and the next end marker.

    Raises:
        ValueError: the page has no such markers.
    """
    before, marker, rest = page.partition(begins)
    _, ends, after = rest.partition(_END)
    if not (marker and ends):
        raise ValueError(f"the page lacks {begins} ... {_END}")
    return "\n".join([f"{before}{begins}", *lines, f"{_END}{after}"])


def enums(tables: Iterable[type[Table]]) -> list[type[Enum]]:
    """The enums and flags of the tables' columns, once each, in order of their names."""
    kinds = {kind for t in tables for c in t.columns for kind in (c.enum, c.flags) if kind}
    return sorted(kinds, key=lambda kind: kind.__name__)


def state_tables(catalog: Catalog) -> tuple[type[Table], ...]:
    """All tables of a state, stored ones first."""
    return (*catalog.stored, *catalog.on_demand)


def values_of(column: Column) -> str:
    """The enum or flags that a column's numbers stand for; empty for a plain number."""
    if column.enum is not None:
        return f"value of {column.enum.__name__}"
    if column.flags is not None:
        return f"bits of {column.flags.__name__}"
    return "1 yes, 0 no, -1 unknown" if column.tri_state else ""
