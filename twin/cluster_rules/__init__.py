"""The cluster rules: findings about the whole cluster, one idea a file, as in ``twin.rules``.

A file has what each shard reports, the rule that judges the reports of all shards, and what is
declared of its table. ``MODULES`` lists every module of this folder.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)
)
