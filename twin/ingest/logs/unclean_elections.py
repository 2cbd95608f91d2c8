"""Elections that controllers logged as unclean."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.ingest.logs.logged import logged_rows
from twin.tables.observations import LoggedUncleanElectionsFrame
from twin.tables.state import LoggedUncleanElections

STAYS_MS: Final = 120_000
"""The election may be listed after it is logged, or be logged after it is listed."""


@ingest(LoggedUncleanElectionsFrame)
def take_unclean_elections(state: ShardState, frame: Frame) -> ShardState:
    """Keep the first line about each election: every controller logs it."""
    row, columns = logged_rows(state, frame)
    if not len(row):
        return state
    news = LoggedUncleanElections(row=row, **{name: columns[name] for name in _COLUMNS})
    both = state[LoggedUncleanElections].with_rows(news)
    both = both.pick(np.lexsort((both.at_ms, both.broker, both.leader_epoch, both.row)))
    again = (np.diff(both.row) == 0) & (np.diff(both.leader_epoch) == 0)
    return state.with_tables(both.pick(np.append(True, ~again)))


_COLUMNS: Final = ("broker", "leader_epoch", "at_ms")


@expiry
def recent_unclean_elections(
    elections: LoggedUncleanElections, cycle: Cycle
) -> LoggedUncleanElections:
    """Drop lines that no change of leaders waits for."""
    return elections.pick(cycle.observed_at_ms - elections.at_ms <= STAYS_MS)
