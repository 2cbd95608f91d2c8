"""Problems of the collector as plain data for the JSON API."""

from __future__ import annotations

from typing import Any

from streaming.bus.view import ClusterView
from streaming.exporter.views.cluster import observed
from twin.arrays import plain
from twin.declarations.table import UNKNOWN
from twin.tables.state import ProblemListing, Problems


def problems(view: ClusterView, now_ms: int) -> dict[str, Any]:
    """The problems of the newest cycle; null if no collector has sent a list, which means
    unknown."""
    state = view.with_problems
    if state is None:
        return {"problems": None, "whole": None, **observed(UNKNOWN, now_ms)}
    listing, table = state[ProblemListing], state[Problems]
    columns = {c.name: plain.column_values(c, getattr(table, c.name)) for c in Problems.columns}
    rows = zip(*columns.values(), strict=True)
    return {
        "problems": [dict(zip(columns, values, strict=True)) for values in rows],
        "whole": bool(listing.is_whole[0]),
        **observed(int(listing.at_ms[0]), now_ms),
    }
