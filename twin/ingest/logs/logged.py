"""Rows of logged events that are about listed partitions and valid brokers."""

from __future__ import annotations

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.table import Array, Int32
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.rows import rows_of
from twin.engine.shard_state import ShardState


def logged_rows(state: ShardState, frame: Frame) -> tuple[Int32, dict[str, Array]]:
    """[N] the row of each event whose partition is listed, and its columns.

    Raises:
        InvalidFrame: ``rows``, a replica has a negative broker id.
    """
    if (to_numpy(frame.rows.column("broker")) < 0).any():
        raise InvalidFrame("rows", "a replica has a negative broker id")
    _, row = rows_of(state, frame.rows, create=False)
    listed = row >= 0
    columns = {name: to_numpy(frame.rows.column(name))[listed] for name in frame.rows.column_names}
    return row[listed].astype("int32"), columns
