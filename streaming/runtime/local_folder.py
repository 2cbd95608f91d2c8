"""Which folder of this machine a setting means that may also name another file system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a URL of a file system begins that Hadoop knows."""

_URL_OF_FOLDER: Final = re.compile(r"file:(?://[^/]*)?(/.*)")
"""Hadoop takes each character of a path literally, also ``%``, ``?`` and ``#``."""


def local_folder(place: str) -> Path | None:
    """The folder on this machine, or None if the place is elsewhere.

    Args:
        place: a path, or a URL such as s3a://bucket/twin.
    """
    if not URL.match(place):
        return Path(place).resolve()
    here = _URL_OF_FOLDER.match(place)
    return Path(here[1]) if here else None
