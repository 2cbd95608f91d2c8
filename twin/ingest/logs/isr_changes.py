"""ISR changes that brokers logged.

The same event may come from two logs (the leader's, and the controller's) or twice from one, so
each is recognised by partition, replica and time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Array, Int8, Int32, Int64
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.ingest.logs.logged import logged_rows
from twin.rules.replication.isr_shrinks import SHRINK_WINDOW_MS
from twin.tables.observations import IsrChangesFrame
from twin.tables.state import FollowerStates, IsrRemovals

DEDUP_WINDOW_MS: Final = 1_000
"""Two log lines of one removal are this close: a leader checks each half of the lag limit only."""


@ingest(IsrChangesFrame)
def take_isr_changes(state: ShardState, frame: Frame) -> ShardState:
    """Note removals from ISRs, and the times at which removed replicas rejoined."""
    row, columns = logged_rows(state, frame)
    if not len(row):
        return state
    left = columns["left"]
    unknown = np.full(int(left.sum()), UNKNOWN, np.int64)
    news = IsrRemovals(
        row=row[left],
        leader=columns["leader"][left],
        broker=columns["broker"][left],
        at_ms=columns["at_ms"][left],
        rejoined_at_ms=unknown,
        was_behind=_was_behind(columns)[left],
        logged_caught_up_at_ms=columns["caught_up_at_ms"][left],
        tracked_caught_up_at_ms=unknown,
    )
    table = state[IsrRemovals]
    removals = _deduplicated(table.with_rows(news))
    if len(removals):
        removals = _with_rejoin_times(
            removals, row[~left], columns["broker"][~left], columns["at_ms"][~left]
        )
    if not _differ(removals, table):
        return state
    # Fetches from before the removal may have come first.
    return state.with_tables(with_tracked_caught_up(removals, state[FollowerStates]))


@expiry
def recent_removals(removals: IsrRemovals, cycle: Cycle) -> IsrRemovals:
    """Drop removals that are too old for any recent ISR shrink."""
    return removals.pick(cycle.observed_at_ms - removals.at_ms <= SHRINK_WINDOW_MS)


def with_tracked_caught_up(removals: IsrRemovals, followers: FollowerStates) -> IsrRemovals:
    """The removals with the caught-up times that the follower states had when they happened.

    A follower state is overwritten by each fetch, so this is applied after every fetch, and keeps
    what an earlier one proved. The fetch that was pending at a removal is kept longer.
    """
    if not len(removals) or not len(followers):
        return removals
    place = keys.find(
        keys.pack(followers.row, followers.broker), keys.pack(removals.row, removals.broker)
    )
    tracked = (place != UNKNOWN) & (followers.leader[place] == removals.leader)
    before = tracked & (followers.last_fetch_at_ms[place] <= removals.at_ms)
    spanned = tracked & (followers.slow_arrived_at_ms[place] <= removals.at_ms)
    spanned &= followers.slow_completed_at_ms[place] > removals.at_ms - DEDUP_WINDOW_MS
    caught_up = removals.tracked_caught_up_at_ms
    for holds, at_ms in (
        (before, followers.caught_up_at_ms[place]),
        (spanned, followers.slow_caught_up_at_ms[place]),
    ):
        caught_up = np.where(holds & (at_ms > 0), np.maximum(caught_up, at_ms), caught_up)
    return replace(removals, tracked_caught_up_at_ms=caught_up)


def _was_behind(columns: dict[str, Array]) -> Int8:
    """[N] the leader had more records than the replica (tri-state)."""
    end, leader_end = columns["log_end_offset"], columns["leader_end_offset"]
    has_both_ends = (end != UNKNOWN) & (leader_end != UNKNOWN)
    return np.where(has_both_ends, end < leader_end, UNKNOWN).astype(np.int8)


def _deduplicated(removals: IsrRemovals) -> IsrRemovals:
    """Keep each removal once: of two log lines the leader's own, which has more columns."""
    if not len(removals):
        return removals
    has_more = removals.logged_caught_up_at_ms != UNKNOWN
    key = keys.pack(removals.row, removals.broker)
    order = np.lexsort((removals.at_ms, key))
    key, at_ms = key[order], removals.at_ms[order]
    starts = np.ones(len(order), bool)
    starts[1:] = (key[1:] != key[:-1]) | (at_ms[1:] - at_ms[:-1] > DEDUP_WINDOW_MS)
    group = np.cumsum(starts) - 1
    best = np.lexsort((at_ms, ~has_more[order], group))
    first = np.searchsorted(group[best], np.arange(group[-1] + 1))
    best_removals = removals.pick(order[best[first]])
    begins = np.flatnonzero(starts)
    whole: dict[str, Any] = {
        name: np.maximum.reduceat(getattr(removals, name)[order], begins)
        for name in ("rejoined_at_ms", "was_behind", "tracked_caught_up_at_ms")
    }
    return replace(best_removals, **whole)


def _with_rejoin_times(
    removals: IsrRemovals, row: Int32, broker: Int32, at_ms: Int64
) -> IsrRemovals:
    """The removals with the time of the first return after each."""
    same = keys.pack(row, broker)[:, None] == keys.pack(removals.row, removals.broker)
    came = same & (at_ms[:, None] >= removals.at_ms)
    # The last removal before it: removals of a replica ascend in time.
    last = came.shape[1] - 1 - came[:, ::-1].argmax(axis=1)
    which, when = last[came.any(axis=1)], at_ms[came.any(axis=1)]
    far = np.iinfo(np.int64).max
    back = np.where(removals.rejoined_at_ms == UNKNOWN, far, removals.rejoined_at_ms)
    np.minimum.at(back, which, when)
    return replace(removals, rejoined_at_ms=np.where(back == far, UNKNOWN, back))


def _differ(one: IsrRemovals, other: IsrRemovals) -> bool:
    return len(one) != len(other) or any(
        not np.array_equal(mine, theirs)
        for mine, theirs in zip(one.values(), other.values(), strict=True)
    )
