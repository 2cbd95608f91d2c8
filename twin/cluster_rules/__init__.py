"""The cluster rules: findings about the whole cluster, one idea a file, as in ``twin.rules``.

A file has what each shard reports, the rule that judges the reports of all shards, and what is
declared of its table. ``MODULES`` lists every module of this folder and of those in it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Final

MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(module.name)
    for module in walk_packages(__path__, f"{__name__}.")
    if not module.ispkg
)
