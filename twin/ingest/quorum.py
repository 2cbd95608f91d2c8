"""The controller quorum: the newest view replaces the one before."""

from __future__ import annotations

import numpy as np

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import ingest
from twin.engine.frames import Frame
from twin.engine.rows import refuse_duplicates
from twin.engine.shard_state import ShardState
from twin.tables.observations import QuorumFrame
from twin.tables.state import ControllerQuorum


@ingest(QuorumFrame)
def take_quorum(state: ShardState, frame: Frame) -> ShardState:
    """Replace the view of the controller quorum by a newer one."""
    at_ms = frame.header.observed_at_ms
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(columns["node"], "node")
    table = state[ControllerQuorum]
    if table.observed_at_ms.max(initial=-1) >= at_ms:
        return state
    order = np.argsort(columns["node"])
    return state.with_tables(
        ControllerQuorum(
            **{name: values[order] for name, values in columns.items()},
            observed_at_ms=np.full(len(order), at_ms),
        )
    )
