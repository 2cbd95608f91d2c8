"""High watermarks that leaders sent to followers, by the log of completed fetches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.declarations.table import UNKNOWN, Array, Rows
from twin.engine.shard_state import ShardState
from twin.tables.state import LoggedHighWatermarks


def with_high_watermarks(state: ShardState, row: Rows, fetch: Mapping[str, Array]) -> ShardState:
    """The state with the newest high watermark of each partition; the same if none is newer.

    Args:
        state: of the shard.
        row: [N] partitions.
        fetch: the columns of these fetches.
    """
    sent = np.flatnonzero(fetch["high_watermark"] != UNKNOWN)
    if not len(sent):
        return state
    table = state[LoggedHighWatermarks]
    news = LoggedHighWatermarks(
        row=row[sent].astype(np.int32),
        leader=fetch["leader"][sent],
        leader_epoch=fetch["leader_epoch"][sent],
        at_ms=fetch["completed_at_ms"][sent],
        offset=fetch["high_watermark"][sent],
    )
    # The sort puts the newest of each row last, whatever the order of the frames.
    both = table.with_rows(news)
    both = both.pick(
        np.lexsort((both.leader, both.offset, both.at_ms, both.leader_epoch, both.row))
    )
    newest = both.pick(np.append(both.row[1:] != both.row[:-1], True))
    same = all(map(np.array_equal, newest.values(), table.values()))
    return state if same else state.with_tables(newest)
