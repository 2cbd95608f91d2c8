"""The rules: one idea a file, with its tables, metrics, risks, events and API fields.

``MODULES`` lists every module of this folder, so a new rule is a new file. The order in which rules
run follows from what they read.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)
)
