"""Reads a Kafka node's log files: finds why it ended, and whether it logged a certain line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_LARGEST_BYTES: Final = 4 << 20  # a start writes 0.5 MB
_EXCEPTION: Final = re.compile(
    r"^(?:Caused by: |Exception in thread \S+ )?[\w.$]+\.(\w+(?:Exception|Error): .+)"
)
_ERROR: Final = re.compile(r"\b(?:ERROR|FATAL) (.+)")

Marks = Mapping[Path, int]  # log file → bytes in it at some moment


def marks(folder: Path) -> Marks:
    """The present ends of a node's logs, so that ``since`` reads only later lines."""
    logs = (folder / name for name in ("stdout.log", "server.log"))
    return {log: log.stat().st_size if log.exists() else 0 for log in logs}


def since(marks: Marks) -> str:
    """The lines written after the marks; the whole file if it was rolled in between."""
    return "".join(_read(log, start) for log, start in marks.items())


def _read(log: Path, start: int) -> str:
    with suppress(OSError), log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start if start <= size else 0, size - _LARGEST_BYTES))
        return file.read().decode("utf8", "replace")
    return ""


def reason(text: str) -> str:
    """The line that says why Kafka ended: the last exception, else last error, else last line.

    "Exiting Kafka due to fatal exception" is an error line too; the next one says which.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (_EXCEPTION, _ERROR):
        for line in reversed(lines):
            if match := pattern.search(line):
                return match[1]
    return lines[-1] if lines else "it logged nothing"
