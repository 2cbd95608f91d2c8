"""What answers are made of: the newest exposition, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streaming.bus.view import ClusterView
from streaming.exporter.exposition import Exposition
from twin.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Source:
    """The newest state of one cluster; nothing here asks Kafka."""

    catalog: Catalog
    cluster: str
    current: Callable[[], Exposition]
    now_ms: Callable[[], int]

    @property
    def view(self) -> ClusterView:
        """The newest view."""
        return self.current().view
