"""Modules of rules that a test makes up, as a package from elsewhere would bring them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from twin.declarations.table import Table

Declared = type[Table] | Callable[..., Any]


def module_of(name: str, *declared: Declared) -> ModuleType:
    """A module with those tables and decorated functions, as if they were written in it."""
    module = ModuleType(name)
    for each in declared:
        each.__module__ = name
        setattr(module, each.__name__, each)
    return module
