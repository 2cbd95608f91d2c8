"""The state that a leader keeps of each follower, reconstructed from the follower's fetches.

For each follower, Kafka's leader stores the follower's log end, the leader's own log end at the
last fetch, the time of that fetch, and the time when the follower was last caught up. It updates
them at every fetch. No API returns them, but they follow exactly from a log of completed fetches.

Source: Replica.updateFetchStateOrThrow and resetReplicaState, ReplicaState.isCaughtUp, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Bool, Int64

SLOW_FETCH_KEPT_MS: Final = 60_000
"""The slowest fetch of a follower is kept this long: a shrink of the ISR is observed later."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """[N] the leader's state of each follower. Before a fetch: UNKNOWN offsets, times of 0."""

    log_start_offset: Int64
    log_end_offset: Int64
    last_fetch_leader_end_offset: Int64
    last_fetch_at_ms: Int64
    caught_up_at_ms: Int64

    @staticmethod
    def blank(count: int) -> ReplicaState:
        """The states of followers that never fetched."""
        unknown, never = np.full(count, UNKNOWN, np.int64), np.zeros(count, np.int64)
        return ReplicaState(unknown, unknown, unknown, never, never)

    def where(self, mask: Bool, other: ReplicaState) -> ReplicaState:
        """This state where the mask [N] is set, the other state elsewhere."""
        return ReplicaState(
            *(np.where(mask, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )


def update_fetch_state(
    state: ReplicaState, fetch_offset: Int64, log_start: Int64, at_ms: Int64, leader_end: Int64
) -> ReplicaState:
    """The states after one fetch of each follower.

    An UNKNOWN leader end proves nothing, and the earlier leader end is dropped: the leader's log
    may have grown before this fetch, so the next fetch must not be compared with it.
    """
    has_leader_end = leader_end != UNKNOWN
    now = has_leader_end & (fetch_offset >= leader_end)
    then = ~now & asks_for_leader_end(state, fetch_offset)
    caught_up = np.where(now, np.maximum(state.caught_up_at_ms, at_ms), state.caught_up_at_ms)
    caught_up = np.where(then, np.maximum(caught_up, state.last_fetch_at_ms), caught_up)
    newest_end = np.maximum(leader_end, state.last_fetch_leader_end_offset)
    return ReplicaState(
        log_start_offset=log_start,
        log_end_offset=fetch_offset,
        last_fetch_leader_end_offset=np.where(has_leader_end, newest_end, UNKNOWN),
        last_fetch_at_ms=at_ms,
        caught_up_at_ms=caught_up,
    )


def is_caught_up(state: ReplicaState, leader_end: Int64, now_ms: Int64, lag_max_ms: Int64) -> Bool:
    """[N] in sync by Kafka's rule: at the leader's log end, or caught up recently enough."""
    recent = now_ms - state.caught_up_at_ms <= lag_max_ms
    return (leader_end == state.log_end_offset) | recent


def asks_for_leader_end(state: ReplicaState, fetch_offset: Int64) -> Bool:
    """[N] the fetch offset is at or beyond the leader's log end at the previous fetch.

    The follower then has all records that existed at the previous fetch. KIP-501 has the same
    condition for a pending fetch that keeps its follower in sync.
    """
    has_previous_end = state.last_fetch_leader_end_offset != UNKNOWN
    return has_previous_end & (fetch_offset >= state.last_fetch_leader_end_offset)


def is_caught_up_pending(
    state: ReplicaState, pending_offset: Int64, leader_end: Int64, now_ms: Int64, lag_max_ms: Int64
) -> Bool:
    """[N] in sync by KIP-501's solution 1: by Kafka's rule, or by a fetch that is pending.

    Args:
        state: the states before the pending fetch.
        pending_offset: the offset of that fetch, UNKNOWN for none.
        leader_end: the leader's log end now.
        now_ms: time of the check.
        lag_max_ms: replica.lag.time.max.ms.

    Source: KIP-501, follower.fetch.pending.reads.insync.enable; no Kafka version has it.
    """
    waits = (pending_offset != UNKNOWN) & asks_for_leader_end(state, pending_offset)
    return waits | is_caught_up(state, leader_end, now_ms, lag_max_ms)


def update_fetch_state_solution_1(
    state: ReplicaState, fetch_offset: Int64, log_start: Int64, arrived_ms: Int64,
    completed_ms: Int64, leader_end: Int64,
) -> ReplicaState:  # fmt: skip
    """The states after one fetch under KIP-501: caught up at its completion, not at its arrival.

    An UNKNOWN leader end proves nothing, as in ``update_fetch_state``.
    """
    has_leader_end = leader_end != UNKNOWN
    now = has_leader_end & (fetch_offset >= leader_end)
    caught_up = now | asks_for_leader_end(state, fetch_offset)
    stock = update_fetch_state(state, fetch_offset, log_start, arrived_ms, leader_end)
    at_ms = np.where(caught_up, completed_ms, UNKNOWN)
    return replace(stock, caught_up_at_ms=np.maximum(state.caught_up_at_ms, at_ms))
