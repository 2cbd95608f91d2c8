"""Writes the pages of docs/ that are generated from the code; ``make docs`` runs this.

A test compares the committed pages with what this writes, so they cannot fall behind. Two long
references are on the site alone.
"""

from __future__ import annotations

from typing import Final

from docs.pages import (
    agents,
    api,
    archive,
    compatibility,
    day_one,
    metrics,
    security,
    settings,
    tables,
    troubleshooting,
)
from docs.pages.markdown import DOCS

PAGES: Final = {
    "agents.md": agents.page,
    "api.md": api.page,
    "compatibility.md": compatibility.page,
    "day-one.md": day_one.page,
    "metrics.md": metrics.page,
    "security.md": security.page,
    "settings.md": settings.page,
    "troubleshooting.md": troubleshooting.page,
}
"""The function that makes each page, by the name of its file."""

ON_SITE: Final = {"archive.md": archive.page, "tables.md": tables.page}
"""The same of pages that ``make site`` makes, and that are not committed."""


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
