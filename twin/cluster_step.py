"""The cluster's own shard, which observes the reports of the other shards.

It is a ``ShardState`` without partitions. It has the catalog's cluster rules, and ``twin.step``
advances it. So its findings have memory, events, snapshots and replay like those of other shards.
Reports are computed from the shards' states, so a replay of recorded observations gives the same
reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pyarrow as pa

from twin.arrays.columns_in_arrow import to_arrow
from twin.declarations.table import UNKNOWN
from twin.engine.catalog import Catalog
from twin.engine.changes import Change
from twin.engine.frames import Frame, FrameHeader
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.step import step


def empty_cluster(catalog: Catalog, cluster: str, shards: int) -> ShardState:
    """The cluster's own shard before any other has reported."""
    return ShardState.empty(catalog.cluster, cluster, CLUSTER, shards)


def reports(state: ShardState) -> list[Frame]:
    """The reports of a shard to the cluster's own shard; none before its first complete listing."""
    if state.listing.whole_at_ms == UNKNOWN:
        return []
    frames = []
    for table in state.catalog.reports:
        header = FrameHeader(
            table.kind, state.cluster, state.shard, state.shards, state.observed_at_ms, state.cycle
        )
        columns = zip(table.columns, state[table].values(), strict=True)
        arrays = [to_arrow(declared, values) for declared, values in columns]
        frames.append(Frame(header, pa.table(arrays, schema=table.schema())))
    return frames


def step_cluster(state: ShardState, reported: Iterable[Frame]) -> tuple[ShardState, list[Change]]:
    """The cluster's own shard after reports of any shards and cycles, and what changed.

    Args:
        state: the cluster's own shard as it was.
        reported: in any order; if one shard and cycle has several, the last one counts.

    Raises:
        InvalidFrame: a report belongs elsewhere; the state is unchanged.
    """
    all_changes: list[Change] = []
    in_order = sorted(reported, key=lambda frame: frame.header.observed_at_ms)
    for at_ms, frames in groupby(in_order, key=lambda frame: frame.header.observed_at_ms):
        state, changes = step(state, list(frames), at_ms)
        all_changes += changes
    return state, all_changes
