"""A sign of life for whoever restarts programs: a file whose age says when one last got on.

A program that waits for ever answers no probe otherwise; Kafka being away is no reason to restart
it. So the sign says that its loop goes round, not that it found what it looked for.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def touch_liveness_file(folder: str, program: str) -> None:
    """Touch ``PROGRAM.alive`` in the folder; nothing where no folder is set.

    A full disk must not end the program, and shows as a file that ages.
    """
    if folder:
        with suppress(OSError):
            (Path(folder) / f"{program}.alive").touch()
