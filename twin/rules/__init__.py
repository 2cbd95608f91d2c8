"""The rules: one idea a file, with its tables, metrics, risks, events and API fields.

``MODULES`` lists every module of these folders, so a new rule is a new file. The order in which
rules run follows from what they read.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

ROOMS: Final = (
    "partitions", "brokers", "tiering", "isr", "replication", "election", "reading", "groups",
    "load", "disks",
)  # fmt: skip
"""Folders, from what is observed to what follows from it. Events of one step come in this order."""

MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(f"{__name__}.{room}.{module.name}")
    for room in ROOMS
    for module in iter_modules([f"{folder}/{room}" for folder in __path__])
)
