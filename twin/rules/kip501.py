"""In sync as KIP-501 would have it, beside Kafka's own answer (``replication.in_sync``).

Its solution 1 keeps a follower whose fetch the leader still works on. Its solution 2 moves a leader
that takes too long over a fetch to the end of the ISR, so that the next live member leads. No Kafka
has either, and no API tells of a fetch before it is answered: what cannot be seen is unknown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.books import LATELY_MS, Books, is_caught_up, is_caught_up_pending
from twin.rules.election import acceptable
from twin.rules.replication import books_of_leaders
from twin.sparse import Fetches
from twin.tables import NO_BROKER, UNKNOWN, Coverage, Slot


def in_sync_solution_1(fleet: Fleet, now_ms: int) -> NDArray[np.int8]:
    """[P, R] tri-state: in sync by Kafka's rule, or as of when the leader had answered its fetch.

    Who is neither may have a fetch pending that keeps it, if its log reaches as far as the leader's
    did at the fetch before: unknown, since a fetch is told of when it is answered. Who ends below,
    or is offline, is out. A follower of whose fetches nobody tells is unknown too.
    """
    found = np.where(fleet.in_sync == 1, 1, UNKNOWN).astype(np.int8)
    gone = fleet.marked(Slot.OFFLINE) & fleet.present & ~fleet.leads
    found[gone & (found != 1)] = 0
    lag_max_ms = fleet.setting("replica_lag_time_max_ms")
    row, slot, of = books_of_leaders(fleet)
    if lag_max_ms == UNKNOWN or not len(row):
        return found
    books = Books(
        log_start_offset=of.log_start_offset,
        log_end_offset=of.log_end_offset,
        leader_end_offset=_leader_end(fleet, row, of),
        fetched_at_ms=of.fetched_at_ms,
        caught_up_at_ms=of.caught_up_solution_1_at_ms,
    )
    leader_end = fleet.of_leader(fleet.log_end_offset)[row]
    now, limit = np.full(len(row), now_ms), np.full(len(row), lag_max_ms)
    kept = is_caught_up(books, leader_end, now, limit)
    asks_for = fleet.log_end_offset[row, slot]
    waits = is_caught_up_pending(books, asks_for, leader_end, now, limit)
    behind = ~waits & (asks_for != UNKNOWN) & (books.leader_end_offset != UNKNOWN)
    beside = np.where(kept, 1, np.where(behind, 0, UNKNOWN))
    found[row, slot] = np.where(found[row, slot] == UNKNOWN, beside, found[row, slot])
    return found


def _leader_end(fleet: Fleet, row: Array, of: Fetches) -> NDArray[np.int64]:
    """[N] where the leader's log ended at the last fetch: as told, as estimated, or a lower bound.

    The bound is the leader's sample of the cycle before, if that was taken before the fetch.
    """
    before = fleet.leader_end_before_at_ms[row]
    sampled = (before != UNKNOWN) & (before <= of.fetched_at_ms)
    bound = np.where(sampled, fleet.leader_end_before_offset[row], UNKNOWN)
    estimate = of.leader_end_estimate_offset
    end = np.where(estimate != UNKNOWN, estimate, bound)
    return np.where(of.leader_end_offset != UNKNOWN, of.leader_end_offset, end)


def hand_over(fleet: Fleet) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """[P] who would lead by solution 2, NO_BROKER where the leader stays; is that one thin.

    A leader is too slow that worked longer than replica.lag.time.max.ms on a fetch it answered
    within LATELY_MS.
    """
    to = np.full(len(fleet), NO_BROKER, np.int32)
    thin = np.full(len(fleet), UNKNOWN, np.int8)
    lag_max_ms = fleet.setting("replica_lag_time_max_ms")
    rows, _, of = books_of_leaders(fleet)
    took_ms = of.slow_completed_at_ms - of.slow_arrived_at_ms
    lately = fleet.observed_at_ms - of.slow_completed_at_ms <= LATELY_MS
    row = np.unique(rows[lately & (took_ms > lag_max_ms)]) if lag_max_ms != UNKNOWN else rows[:0]
    if len(row):
        to[row], thin[row] = next_member(fleet, row, fleet.marked(Slot.IN_ISR), fleet.leader)
    return to, thin


def next_member(
    fleet: Fleet, row: Array, members: Array, leader: Array
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """[N] of those rows, the first live member of the ISR that does not lead, and is it thin.

    Args:
        row: [N] partitions.
        members: [P, R] the ISR.
        leader: [P] who hands over.
    """
    able = members[row] & (fleet.broker[row] != leader[row][:, None]) & acceptable(fleet)[row]
    seat = able.argmax(axis=1) if fleet.slots else np.zeros(len(row), np.intp)
    at = np.arange(len(row))
    any_able = able.any(axis=1)
    to = np.where(any_able, fleet.broker[row][at, seat], NO_BROKER)
    coverage = fleet.coverage[row][at, seat]
    thin = np.where(any_able & (coverage != Coverage.ASSUMED), coverage == Coverage.THIN, UNKNOWN)
    return to.astype(np.int32), thin.astype(np.int8)
