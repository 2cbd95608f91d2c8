"""The catalog of everything that comes with kafka-twin."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Final

from twin import cluster_rules, ingest, rules
from twin.engine.catalog import Catalog
from twin.proposals import PROPOSALS


def catalog(
    proposals: Iterable[str] = tuple(PROPOSALS), more: Iterable[ModuleType] = ()
) -> Catalog:
    """The catalog with those proposals, and with modules of other packages.

    Raises:
        DeclarationError: a module declares something that the catalog cannot serve.
        KeyError: no proposal has that name.
    """
    proposal_modules = [module for name in proposals for module in PROPOSALS[name]]
    return Catalog.from_modules(
        (*ingest.MODULES, *rules.MODULES, *cluster_rules.MODULES, *proposal_modules, *more)
    )


CATALOG: Final = catalog()
"""All rules and both proposals, nothing from elsewhere."""
