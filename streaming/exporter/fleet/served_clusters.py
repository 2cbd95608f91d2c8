"""The clusters that an exporter serves, which come and go while it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from streaming.exporter.answers import RefusedError
from streaming.exporter.fleet.fleet_rows import Fleet, FleetRows
from streaming.exporter.view_source import ViewSource

_NAMED_MOST: Final = 20
"""Names that a refusal lists."""


class ServedClusters:
    """The source of each cluster. All are replaced in one step, so no reader waits or sees half."""

    def __init__(self, sources: Iterable[ViewSource] = ()) -> None:
        self._rows = FleetRows()
        self.serve(sources)

    def serve(self, sources: Iterable[ViewSource]) -> None:
        """Serve these clusters, in this order, instead of those before."""
        self._sources = {each.cluster: each for each in sources}

    @property
    def sources(self) -> Sequence[ViewSource]:
        """All of them, in the order of the configuration."""
        return [*self._sources.values()]

    def fleet(self) -> Fleet:
        """The row of each, the worst first."""
        return self._rows.fleet(self.sources)

    def source(self, name: str) -> ViewSource:
        """The source of the cluster of that name.

        Raises:
            RefusedError: there is none; names those that there are.
        """
        sources = self._sources
        if name not in sources:
            named = sorted(sources)[:_NAMED_MOST]
            more = len(sources) - len(named)
            there = ", ".join(named) + (f" and {more} more" if more else "")
            raise RefusedError(f"there is no cluster {name}; there is {there or 'none yet'}", 404)
        return sources[name]
