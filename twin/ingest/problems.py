"""Problems of the collector: the newest list replaces the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import ingest
from twin.declarations.table import UNKNOWN, Array
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.shard_state import ShardState
from twin.tables.observations import ProblemsFrame
from twin.tables.state import ProblemListing, Problems

Cause = tuple[str, int, str]


@ingest(ProblemsFrame)
def take_problems(state: ShardState, frame: Frame) -> ShardState:
    """Replace the list of problems by a newer one.

    A problem lasts while its source, broker and error are listed; its text may change meanwhile.
    """
    at_ms = frame.header.observed_at_ms
    if frame.header.parts != 1:
        raise InvalidFrame("rows", f"problems in {frame.header.parts} parts")
    if state[ProblemListing].at_ms.max(initial=UNKNOWN) >= at_ms:
        return state
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    table = state[Problems]
    began = dict(zip(_causes(vars(table)), table.since_ms.tolist(), strict=True))
    since_ms = [began.get(cause, at_ms) for cause in _causes(columns)]
    return state.with_tables(
        Problems(**columns, since_ms=np.array(since_ms, np.int64)),
        ProblemListing(np.array([at_ms]), np.array([frame.header.complete])),
    )


def _causes(columns: Mapping[str, Array]) -> Iterable[Cause]:
    """The identity of each problem."""
    names = ("source", "broker", "error")
    return zip(*(columns[name].tolist() for name in names), strict=True)
