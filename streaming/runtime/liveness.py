"""Liveness files: the age of a file says when a program last made progress.

An orchestrator restarts a program whose file is too old. A program touches its file in each turn of
its loop, also while Kafka is unavailable, since a restart would not help then.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def touch_liveness_file(folder: str, program: str) -> None:
    """Touch ``PROGRAM.alive`` in the folder; do nothing if ``folder`` is empty.

    Errors are ignored: a full disk must not end the program, and the file becomes old then.
    """
    if folder:
        with suppress(OSError):
            (Path(folder) / f"{program}.alive").touch()
