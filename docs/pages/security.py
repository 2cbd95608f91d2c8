"""docs/security.md: written by hand, but for the table of rights."""

from __future__ import annotations

from typing import Final

from docs.pages.markdown import DOCS, between, rows
from streaming.checks.rights import Right, rights
from streaming.runtime.config import Config

_BEGINS: Final = "<!-- made by `make docs` from streaming/checks/rights.py -->"


def page() -> str:
    """The text of the page."""
    cells = [_cells(right) for right in rights(Config())]
    table = rows(("right", "for", "used by", "without it"), cells)
    return between((DOCS / "security.md").read_text(encoding="utf-8"), _BEGINS, table)


def _cells(right: Right) -> tuple[str, str, str, str]:
    what = f"`{right.operation}` {str(right).removeprefix(f'{right.operation} ')}"
    wants = ", ".join(right.wants) + (f" (`{right.option}`)" if right.option else "")
    return what, wants, ", ".join(right.programs), right.without
