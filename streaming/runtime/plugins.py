"""The catalog of a deployment: built-in rules, enabled proposals, and rules of other packages.

A package adds rules and kinds of observations by an entry point of the group ``kafka_twin.rules``
that names a module written like those of ``twin.rules``. Every program of a deployment must have
the same packages installed.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Final

from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from twin.builtin import catalog as built_in
from twin.declarations.signature import DeclarationError
from twin.engine.catalog import Catalog

GROUP: Final = "kafka_twin.rules"


class PluginError(UserError, RuntimeError):
    """A package with rules cannot be used: one line that names it and the cause."""


def catalog_of(config: Config) -> Catalog:
    """The catalog of this configuration, the same object each time.

    Raises:
        PluginError: an installed package declares rules that cannot be loaded or served.
    """
    return catalog(enabled_proposals(config))


def enabled_proposals(config: Config) -> tuple[str, ...]:
    """Names of the proposals that are switched on."""
    switches = {"kip1303": config.proposals.kip1303, "kip501": config.proposals.kip501}
    return tuple(name for name, is_on in switches.items() if is_on)


@cache
def catalog(proposals: tuple[str, ...]) -> Catalog:
    """The catalog with those proposals and all installed packages.

    Raises:
        PluginError: as ``catalog_of``.
    """
    installed = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    modules = [_loaded(point) for point in installed]
    try:
        return built_in(proposals, modules)
    except DeclarationError as error:
        if not installed:
            raise
        names = ", ".join(point.name for point in installed)
        raise PluginError(f"rules of other packages ({names}) cannot be used: {error}") from None


def _loaded(point: EntryPoint) -> ModuleType:
    package = point.dist.name if point.dist else "?"
    try:
        module = point.load()
    except Exception as error:  # a foreign module may raise any exception
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise PluginError(
            f"entry point {GROUP}:{point.name} of package {package} cannot be loaded: {cause}"
        ) from None
    if not isinstance(module, ModuleType):
        raise PluginError(
            f"entry point {GROUP}:{point.name} of package {package} must name a module"
        )
    return module
