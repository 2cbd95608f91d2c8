"""Log ends that brokers wrote in their logs when they loaded the partitions at their start."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.state import ShardState
from twin.ingest.logs.logged import logged_rows
from twin.tables.observations import LoadedLogsFrame
from twin.tables.state import LoadedLogs

STAYS_MS: Final = 120_000
"""The election that the log end is about may become known after the start of the broker."""


@ingest(LoadedLogsFrame)
def take_loaded_logs(state: ShardState, frame: Frame) -> ShardState:
    """Keep the newest line about each replica, whichever frame came first."""
    row, columns = logged_rows(state, frame)
    if not len(row):
        return state
    order = np.argsort(row, kind="stable")
    news = LoadedLogs(row=row[order], **{n: columns[n][order] for n in _COLUMNS})
    both = state[LoadedLogs].with_rows(news)
    key = keys.pack(both.row, both.broker)
    by_time = np.lexsort((both.log_end_offset, both.at_ms, key))
    is_last = np.append(np.diff(key[by_time]) != 0, True)
    return state.with_tables(both.pick(np.sort(by_time[is_last])))


_COLUMNS: Final = ("broker", "at_ms", "log_end_offset")


@expiry
def recent_loaded_logs(loaded: LoadedLogs, cycle: Cycle) -> LoadedLogs:
    """Drop lines that no election waits for."""
    return loaded.pick(cycle.observed_at_ms - loaded.at_ms <= STAYS_MS)
