"""When was each replica caught up with its leader, and does that make it in sync.

Kafka's leader keeps books on each follower (``books``). No API tells them, so here the samples of a
cycle stand for the fetches, and an estimate is late by at most one interval. Where the followers'
fetches are known, the leader's own numbers are used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.sparse import Fetches
from twin.tables import UNKNOWN, Slot


def caught_up_at_ms(fleet: Fleet) -> NDArray[np.int64]:
    """[P, R] the newest time at which the replica is known to have had all the leader had.

    The leader's books where its follower's fetches are known, else ``sampled_caught_up_at_ms``.
    """
    at = sampled_caught_up_at_ms(fleet)
    row, slot, books = _current(fleet)
    proven = books.caught_up_at_ms
    at[row, slot] = np.where(_exact(books), proven, np.maximum(at[row, slot], proven))
    return at


def sampled_caught_up_at_ms(fleet: Fleet) -> NDArray[np.int64]:
    """[P, R] the same by samples alone.

    Derived from what the last cycle left and from this cycle's samples, so the order in which these
    came does not matter. The leader is caught up whenever it answers.
    """
    end = fleet.log_end_offset
    leader_end = fleet.of_leader(end)[:, None]
    leader_at = fleet.of_leader(fleet.sampled_at_ms)[:, None]
    before, before_at = (
        fleet.leader_end_before_offset[:, None],
        fleet.leader_end_before_at_ms[:, None],
    )
    then = (end != UNKNOWN) & (before != UNKNOWN) & (end >= before)
    now = (end != UNKNOWN) & (leader_end != UNKNOWN) & (end >= leader_end)
    at = np.maximum(fleet.caught_up_before_ms, np.where(then, before_at, UNKNOWN))
    at = np.maximum(at, np.where(now, leader_at, UNKNOWN))
    return np.where(fleet.leads, fleet.sampled_at_ms, at)


def caught_up_uncertainty_ms(fleet: Fleet) -> NDArray[np.int64]:
    """[P, R] by how much ``caught_up_at_ms`` may be too early; 0 where it is the leader's own.

    Otherwise the time since the leader's sample before this cycle, or since the replica's own
    sample if that is older still; UNKNOWN while either has none.
    """
    leader_at = fleet.leader_end_before_at_ms[:, None]
    known = (leader_at != UNKNOWN) & (fleet.sampled_at_ms != UNKNOWN)
    gap_ms = fleet.observed_at_ms - np.minimum(leader_at, fleet.sampled_at_ms)
    uncertainty = np.where(known, gap_ms, UNKNOWN)
    row, slot, books = _current(fleet)
    exact = _exact(books)
    uncertainty[row[exact], slot[exact]] = 0
    return uncertainty


def _exact(books: Fetches) -> NDArray[np.bool_]:
    """[N] the leader's end was told at the last fetch; else the books are a lower bound."""
    exact: NDArray[np.bool_] = books.leader_end_offset != UNKNOWN
    return exact


def books_of_leaders(fleet: Fleet) -> tuple[Array, Array, Fetches]:
    """[N] row and slot of the followers whose fetches at the leader are known, and its books."""
    of = fleet.fetches
    if not len(of):
        return of.row, of.row, of
    seat = (fleet.broker[of.row] == of.broker[:, None]) & fleet.present[of.row]
    seat &= ~fleet.leads[of.row]
    leads = (of.leader == fleet.leader[of.row]) & (of.leader_epoch == fleet.leader_epoch[of.row])
    leads &= seat.any(axis=1)
    return of.row[leads], seat.argmax(axis=1)[leads], of.picked(leads)


def _current(fleet: Fleet) -> tuple[Array, Array, Fetches]:
    """Those with a fetch since the last cycle began, by which a follower was seen caught up.

    Where nobody tells of fetches any more, samples take over. So they do until a follower was seen
    caught up: the twin has not heard what the leader noted before its first fetch, or at its
    election.
    """
    row, slot, books = books_of_leaders(fleet)
    current = (books.fetched_at_ms >= fleet.before_at_ms) & (books.caught_up_at_ms > 0)
    return row[current], slot[current], books.picked(current)


def in_sync(fleet: Fleet, now_ms: int) -> Array:
    """[P, R] tri-state: the leader, equal to the leader's log end, or caught up recently enough.

    Unknown where the replica was never seen caught up, unless the controller itself has it outside
    the ISR. Source: ReplicaState.isCaughtUp, Kafka 4.3.
    """
    end = fleet.log_end_offset
    leader_end = fleet.of_leader(end)[:, None]
    lag_max_ms = fleet.setting("replica_lag_time_max_ms")
    at = fleet.caught_up_at_ms
    recent = (at != UNKNOWN) & (lag_max_ms != UNKNOWN) & (now_ms - at <= lag_max_ms)
    equal = (end != UNKNOWN) & (end == leader_end)
    yes = fleet.leads | equal | recent
    seen_behind = (at != UNKNOWN) & (lag_max_ms != UNKNOWN) & (leader_end != UNKNOWN)
    no = ~yes & (seen_behind | ~fleet.marked(Slot.IN_ISR))
    return np.where(yes, 1, np.where(no, 0, UNKNOWN)).astype(np.int8)


def lag_records(fleet: Fleet) -> NDArray[np.int64]:
    """[P, R] records the replica is behind its leader, UNKNOWN where either end is."""
    end = fleet.log_end_offset
    leader_end = fleet.of_leader(end)[:, None]
    known = (end != UNKNOWN) & (leader_end != UNKNOWN)
    return np.where(known, np.maximum(leader_end - end, 0), UNKNOWN)
