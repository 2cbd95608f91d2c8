"""Completed fetches of followers, from which the leaders' states of followers are reconstructed.

Fetches are events, not samples: they belong to no cycle, and the time at which a frame was sent
does not matter. A fetch that did not arrive after the last one of its follower is a repeat. The
only news that a repeat can bring is the leader's log end at that time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final

import numpy as np

from twin.arrays import keys
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import expiry, ingest
from twin.declarations.table import UNKNOWN, Array, Bool, Int8, Int64, Rows, blank
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.rows import rows_of
from twin.engine.shard_state import ShardState
from twin.ingest.logs.high_watermarks import with_high_watermarks
from twin.ingest.logs.isr_changes import with_tracked_caught_up
from twin.kafka.follower_state import (
    SLOW_FETCH_KEPT_MS,
    ReplicaState,
    update_fetch_state,
    update_fetch_state_solution_1,
)
from twin.kafka.pending_fetches import RESUMED_MS
from twin.tables.observations import FetchesFrame
from twin.tables.state import Assignment, FollowerStates, IsrRemovals

_TIME_BITS: Final = 42
"""Bits of a time in ms until the year 2109; two million followers of a shard fit above them."""

_STATE: Final = tuple(field.name for field in fields(ReplicaState))


@ingest(FetchesFrame)
def take_fetches(state: ShardState, frame: Frame) -> ShardState:
    """Apply each follower's fetches in turn, without failed ones and unlisted partitions."""
    if (to_numpy(frame.rows.column("broker")) < 0).any():
        raise InvalidFrame("rows", "a follower has a negative broker id")
    _, row = rows_of(state, frame.rows, create=False)
    fetch = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    good = (row >= 0) & (fetch["error_code"] == 0)
    if not good.any():
        return state
    fetch = {name: values[good] for name, values in fetch.items()}
    state = with_high_watermarks(state, row[good], fetch)
    key, removals = keys.pack(row[good], fetch["broker"]), state[IsrRemovals]
    fetch |= _at_removal(
        removals, key, fetch["arrived_at_ms"], _taken_at_ms(fetch), fetch["completed_at_ms"]
    )
    order = np.lexsort((fetch["fetch_offset"], fetch["arrived_at_ms"], key))
    key, fetch = key[order], {name: values[order] for name, values in fetch.items()}

    follower, at = np.unique(key, return_inverse=True)
    existing = state[FollowerStates]
    table = _of_followers(existing, follower)
    slow_rank = _rank(
        _at_removal(removals, follower, table.slow_arrived_at_ms, table.slow_taken_at_ms,
                    table.slow_completed_at_ms),
        table.slow_asked_for_leader_end != 0,
    )  # fmt: skip
    turns = np.arange(len(key)) - np.searchsorted(key, key)
    any_new = False
    for turn in range(int(turns.max()) + 1):  # the n-th fetch of every follower at once
        in_turn = turns == turn
        this = {name: values[in_turn] for name, values in fetch.items()}
        step = _after_fetch(table, at[in_turn], this, slow_rank)
        table, slow_rank = step.table, step.slow_rank
        any_new |= step.is_new
        removals = with_tracked_caught_up(removals, table)
    if not any_new:
        return state
    others = ~np.isin(keys.pack(existing.row, existing.broker), follower)
    joined = existing.pick(others).with_rows(table)
    # The same followers give the same table, in whatever order their fetches came.
    order = np.argsort(keys.pack(joined.row, joined.broker))
    return state.with_tables(joined.pick(order), removals)


@expiry
def followers_with_slots(followers: FollowerStates, assignment: Assignment) -> FollowerStates:
    """Drop followers that have no replica slot any more."""
    has_slot = (assignment.broker[followers.row] == followers.broker[:, None]).any(axis=1)
    return followers if has_slot.all() else followers.pick(has_slot)


@dataclass(frozen=True, slots=True)
class _Step:
    """The table after one fetch of each of some followers.

    ``slow_rank``: the ``_rank`` of the slowest fetch that is kept for each follower.
    """

    table: FollowerStates
    slow_rank: Int8
    is_new: bool


def _of_followers(existing: FollowerStates, follower: Int64) -> FollowerStates:
    """The rows of those followers, blank where they have none."""
    place = keys.find(keys.pack(existing.row, existing.broker), follower)
    has_row = place != UNKNOWN
    columns: dict[str, Any] = {}
    for c in FollowerStates.columns:
        columns[c.name] = values = blank(c, len(follower))
        values[has_row] = getattr(existing, c.name)[place[has_row]]
    columns["row"], columns["broker"] = keys.unpack(follower)
    return FollowerStates(**columns)


def _at_removal(
    removals: IsrRemovals, key: Int64, arrived_ms: Int64, taken_ms: Int64, completed_ms: Int64
) -> dict[str, Bool]:
    """[N] masks for the stage of a fetch at the logged moment when its follower left the ISR.

    ``removal_at_work``: the leader worked on it. ``removal_after``: it had been answered just
    before, after a long time. ``removal_in_queue``: it waited in the request queue, or the leader
    worked on it.
    """
    spans = partial(_spans_removal, removals, key)
    is_long = completed_ms - arrived_ms >= RESUMED_MS
    return {
        "removal_at_work": spans(taken_ms, completed_ms),
        "removal_after": is_long & spans(completed_ms, completed_ms + RESUMED_MS),
        "removal_in_queue": spans(arrived_ms, completed_ms),
    }


def _rank(at_removal: dict[str, Array], may_ask_for_all: Bool) -> Int8:
    """[N] how well a fetch explains why its follower left the ISR; higher is better.

    A fetch that a frozen leader processes after it resumes would have kept its follower in the ISR,
    even if the follower's next fetch is in the queue by then.
    """
    at_work = at_removal["removal_at_work"] & may_ask_for_all
    after = at_removal["removal_after"] & may_ask_for_all
    return np.select([at_work, after, at_removal["removal_in_queue"]], [3, 2, 1], 0).astype(np.int8)


def _spans_removal(removals: IsrRemovals, key: Int64, since_ms: Int64, until_ms: Int64) -> Bool:
    """[N] the follower left the ISR between those times, as logged."""
    if not len(removals):
        return np.zeros(len(key), bool)
    # Follower and time as one number, so that one search finds the first removal since.
    follower, number = np.unique(keys.pack(removals.row, removals.broker), return_inverse=True)
    moments = np.sort(number << _TIME_BITS | removals.at_ms)
    at = keys.find_sorted(follower, key)
    is_comparable = (at != UNKNOWN) & (since_ms >= 0)
    since = at << _TIME_BITS | np.maximum(since_ms, 0)
    until = at << _TIME_BITS | np.maximum(until_ms, 0)
    first = np.searchsorted(moments, since)
    next_removal = moments[np.minimum(first, len(moments) - 1)]
    return is_comparable & (first < len(moments)) & (next_removal <= until)


def _after_fetch(
    table: FollowerStates, at: Rows, fetch: dict[str, Array], slow_rank: Int8
) -> _Step:
    """The table after one fetch of each follower at ``at``.

    Keeps the slowest recent fetch of each follower, preferring those of a higher ``_rank``.
    """
    before = {c.name: getattr(table, c.name)[at] for c in table.columns}
    new_leader, is_new, completes = _news(before, fetch)
    # Only hypotheses about pending fetches use it, so an estimate is enough.
    estimate = np.where(new_leader, UNKNOWN, before["last_fetch_leader_end_estimate_offset"])
    has_estimate = estimate != UNKNOWN
    asks_for_end = has_estimate & (fetch["fetch_offset"] >= estimate)
    values = _states_after(before, new_leader, fetch)
    took_ms = fetch["completed_at_ms"] - fetch["arrived_at_ms"]
    slow_took_ms = before["slow_completed_at_ms"] - before["slow_arrived_at_ms"]
    forgotten = fetch["arrived_at_ms"] - before["slow_completed_at_ms"] > SLOW_FETCH_KEPT_MS
    taken_at_ms = _taken_at_ms(fetch)
    rank, slow = _rank(fetch, asks_for_end | ~has_estimate), slow_rank[at]
    slower = (rank > 0) | forgotten | (took_ms >= slow_took_ms)
    slower = new_leader | (rank > slow) | ((rank == slow) & slower)
    slowest = {
        "slow_arrived_at_ms": fetch["arrived_at_ms"],
        "slow_taken_at_ms": taken_at_ms,
        "slow_completed_at_ms": fetch["completed_at_ms"],
        "slow_caught_up_at_ms": values["caught_up_at_ms"],
        "slow_asked_for_leader_end": np.where(has_estimate, asks_for_end, UNKNOWN),
    }
    values |= {name: fetch[name] for name in ("leader", "leader_epoch")}
    end = fetch["leader_end_estimate_offset"]
    values["last_fetch_leader_end_estimate_offset"] = end
    values |= {name: np.where(slower, new, before[name]) for name, new in slowest.items()}
    values |= _longest_processing(before, fetch, taken_at_ms, new_leader)
    columns = {c.name: getattr(table, c.name).copy() for c in table.columns}
    for name, value in values.items():
        columns[name][at[is_new]] = value[is_new]
    columns["last_fetch_leader_end_estimate_offset"][at[completes]] = end[completes]
    slow_rank = slow_rank.copy()
    slow_rank[at] = np.where(is_new & slower, rank, slow)
    return _Step(FollowerStates(**columns), slow_rank, bool((is_new | completes).any()))


def _taken_at_ms(fetch: dict[str, Array]) -> Int64:
    """[N] when a request handler of the leader took the fetch."""
    queue_ms = fetch["queue_ms"]
    return np.where(queue_ms == UNKNOWN, UNKNOWN, fetch["arrived_at_ms"] + queue_ms)


def _longest_processing(
    before: dict[str, Array], fetch: dict[str, Array], taken_at_ms: Int64, new_leader: Bool
) -> dict[str, Array]:
    """[N] the longest time that the leader processed a recent fetch, and when that ended."""
    completed_at_ms, held_at_ms = fetch["completed_at_ms"], before["longest_processing_at_ms"]
    took_ms = np.where(taken_at_ms == UNKNOWN, UNKNOWN, completed_at_ms - taken_at_ms)
    forgotten = fetch["arrived_at_ms"] - held_at_ms > SLOW_FETCH_KEPT_MS
    longer = new_leader | forgotten | (took_ms >= before["longest_processing_ms"])
    return {
        "longest_processing_ms": np.where(longer, took_ms, before["longest_processing_ms"]),
        "longest_processing_at_ms": np.where(longer, completed_at_ms, held_at_ms),
    }


def _news(before: dict[str, Array], fetch: dict[str, Array]) -> tuple[Bool, Bool, Bool]:
    """[N] three masks: the fetch has a new leader; is new; adds the last fetch's leader end."""
    epoch, arrived = fetch["leader_epoch"], fetch["arrived_at_ms"]
    new_leader = (epoch > before["leader_epoch"]) | (
        (epoch == before["leader_epoch"]) & (fetch["leader"] != before["leader"])
    )
    same_leader = ~new_leader & (epoch == before["leader_epoch"])
    same_time = arrived == before["last_fetch_at_ms"]
    # A busy follower fetches more than once in a millisecond; its offset shows which came later.
    later = (arrived > before["last_fetch_at_ms"]) | (
        same_time & (fetch["fetch_offset"] > before["log_end_offset"])
    )
    same = same_leader & same_time & (fetch["fetch_offset"] == before["log_end_offset"])
    ended = fetch["leader_end_estimate_offset"] != UNKNOWN
    completes = same & ended & (before["last_fetch_leader_end_estimate_offset"] == UNKNOWN)
    return new_leader, new_leader | (same_leader & later), completes


def _states_after(
    before: dict[str, Array], new_leader: Bool, fetch: dict[str, Array]
) -> dict[str, Array]:
    """[N] the states after the fetch, by Kafka's rule and by KIP-501; a new leader has none."""
    earlier = ReplicaState(*(before[name] for name in _STATE))
    state = ReplicaState.blank(len(new_leader)).where(new_leader, earlier)
    offset, log_start, arrived, completed, leader_end = (
        fetch[name]
        for name in (
            "fetch_offset",
            "log_start_offset",
            "arrived_at_ms",
            "completed_at_ms",
            "leader_end_offset",
        )
    )
    after = update_fetch_state(state, offset, log_start, arrived, leader_end)
    caught_up = np.where(new_leader, 0, before["caught_up_solution_1_at_ms"])
    solution_1 = update_fetch_state_solution_1(
        replace(state, caught_up_at_ms=caught_up),
        offset, log_start, arrived, completed, leader_end,
    )  # fmt: skip
    return {
        **{name: getattr(after, name) for name in _STATE},
        "caught_up_solution_1_at_ms": solution_1.caught_up_at_ms,
    }
