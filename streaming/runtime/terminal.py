"""Tables as text, for a terminal or a pipe."""

from __future__ import annotations

import io
import shutil
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TextIO

from rich.box import ASCII2
from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNLIMITED: Final = 10_000
"""Characters of a line that is not folded. rich assumes 80 where there is no terminal."""


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *,
    right: Collection[int] = (), borders: bool = False, width: int | None = None,
) -> str:  # fmt: skip
    """A table as plain text; each line ends with a newline.

    Args:
        header: the titles of the columns.
        rows: the cells, as many as there are titles; they are shown by ``str``.
        right: the indices of the columns that are aligned to the right.
        borders: draw lines around the cells; else two spaces separate the columns.
        width: fold cells so that lines are no longer than this; None never folds.
    """
    grid = Table(
        box=ASCII2 if borders else None,
        pad_edge=borders,
        padding=(0, 1) if borders else (0, 2, 0, 0),
    )
    for index, title in enumerate(header):
        # Cells longer than their column are folded: rich would end them with an ellipsis.
        grid.add_column(Text(title), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))  # Text: "[" is not markup
    out = io.StringIO()
    Console(
        file=out, width=width or _UNLIMITED, color_system=None, force_terminal=False,
        legacy_windows=False,
    ).print(grid)  # fmt: skip
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def width_of(out: TextIO) -> int | None:
    """The columns of the terminal that ``out`` writes to; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if out.isatty() else None
