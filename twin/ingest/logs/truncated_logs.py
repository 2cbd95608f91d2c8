"""Truncations that brokers wrote in their logs after they had loaded the partitions."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.ingest.logs.logged import logged_rows
from twin.tables.observations import TruncatedLogsFrame
from twin.tables.state import TruncatedLogs

STAYS_MS: Final = 120_000
"""The election may become known after the start of the broker that led before."""


@ingest(TruncatedLogsFrame)
def take_truncated_logs(state: ShardState, frame: Frame) -> ShardState:
    """Keep the newest line about each replica, whichever frame came first."""
    row, columns = logged_rows(state, frame)
    if not len(row):
        return state
    order = np.argsort(row, kind="stable")
    news = TruncatedLogs(row=row[order], **{n: columns[n][order] for n in _COLUMNS})
    both = state[TruncatedLogs].with_rows(news)
    key = keys.pack(both.row, both.broker)
    by_time = np.lexsort((both.to_offset, both.end_offset, both.at_ms, key))
    is_last = np.append(np.diff(key[by_time]) != 0, True)
    return state.with_tables(both.pick(np.sort(by_time[is_last])))


_COLUMNS: Final = ("broker", "at_ms", "end_offset", "to_offset")


@expiry
def recent_truncated_logs(truncated: TruncatedLogs, cycle: Cycle) -> TruncatedLogs:
    """Drop lines that no election waits for."""
    return truncated.pick(cycle.observed_at_ms - truncated.at_ms <= STAYS_MS)
