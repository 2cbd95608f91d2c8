"""The books a leader keeps on each follower, kept along from the follower's fetches.

Kafka's leader notes four things of a follower and moves them at every fetch: the follower's log
end, its own log end at that fetch, the time of the fetch, and when the follower was last caught up.
No API tells them; a log of completed fetches lets them be kept along exactly.

Source: Replica.updateFetchStateOrThrow and resetReplicaState, ReplicaState.isCaughtUp, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.tables import UNKNOWN

LATELY_MS: Final = 60_000
"""The slowest fetch of a follower is remembered this long: an ISR that shrank is seen later."""

Offsets = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Books:
    """[N] what the leader has noted of each follower. No fetch yet: UNKNOWN offsets, times of 0."""

    log_start_offset: Offsets
    log_end_offset: Offsets
    leader_end_offset: Offsets  # the leader's, at the follower's last fetch
    fetched_at_ms: Offsets
    caught_up_at_ms: Offsets

    @staticmethod
    def blank(count: int) -> Books:
        """Of followers that never fetched."""
        unknown, never = np.full(count, UNKNOWN, np.int64), np.zeros(count, np.int64)
        return Books(unknown, unknown, unknown, never, never)

    def where(self, chosen: Flags, other: Books) -> Books:
        """These books for the chosen followers, the other ones for the rest."""
        return Books(
            *(np.where(chosen, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )


def fetched(
    books: Books, fetch_offset: Offsets, log_start: Offsets, at_ms: Offsets, leader_end: Offsets
) -> Books:
    """After one fetch of each follower.

    A leader end that nobody could tell (UNKNOWN) proves nothing, and the one noted before is
    forgotten: the leader may have stood further at this fetch, so the next one could not be said to
    have had everything by now.
    """
    told = leader_end != UNKNOWN
    now = told & (fetch_offset >= leader_end)
    then = ~now & asks_for_earlier_end(books, fetch_offset)
    caught_up = np.where(now, np.maximum(books.caught_up_at_ms, at_ms), books.caught_up_at_ms)
    caught_up = np.where(then, np.maximum(caught_up, books.fetched_at_ms), caught_up)
    return Books(
        log_start_offset=log_start,
        log_end_offset=fetch_offset,
        leader_end_offset=np.where(told, np.maximum(leader_end, books.leader_end_offset), UNKNOWN),
        fetched_at_ms=at_ms,
        caught_up_at_ms=caught_up,
    )


def elected(
    books: Books, at_ms: Offsets, leader_end: Offsets, is_new_leader: Flags, in_isr: Flags
) -> Books:
    """After the leader was elected, or elected again: in the ISR counts as caught up now."""
    caught_up = np.where(in_isr, at_ms, 0)
    fresh = replace(Books.blank(len(caught_up)), caught_up_at_ms=caught_up)
    again = Books(books.log_start_offset, books.log_end_offset, leader_end, caught_up, caught_up)
    return fresh.where(is_new_leader, again)


def is_caught_up(books: Books, leader_end: Offsets, now_ms: Offsets, lag_max_ms: Offsets) -> Flags:
    """[N] in sync by Kafka's rule: at the leader's log end, or caught up recently enough."""
    recent = now_ms - books.caught_up_at_ms <= lag_max_ms
    caught_up: Flags = (leader_end == books.log_end_offset) | recent
    return caught_up


def asks_for_earlier_end(books: Books, fetch_offset: Offsets) -> Flags:
    """[N] the fetch asks at or beyond the leader's log end of the fetch before.

    So the follower has had everything that there was then. It is also KIP-501's condition for a
    pending fetch that keeps its follower in sync.
    """
    known = books.leader_end_offset != UNKNOWN
    asks: Flags = known & (fetch_offset >= books.leader_end_offset)
    return asks


def is_caught_up_pending(
    books: Books, pending_offset: Offsets, leader_end: Offsets, now_ms: Offsets, lag_max_ms: Offsets
) -> Flags:
    """[N] in sync by KIP-501's solution 1: as Kafka, or by a fetch that the leader still works on.

    Args:
        books: as noted before the pending fetch.
        pending_offset: what that fetch asks for, UNKNOWN for none.
        leader_end: the leader's log end now.
        now_ms: time of the check.
        lag_max_ms: replica.lag.time.max.ms.

    Source: KIP-501, follower.fetch.pending.reads.insync.enable; no Kafka has it.
    """
    waits = (pending_offset != UNKNOWN) & asks_for_earlier_end(books, pending_offset)
    caught_up: Flags = waits | is_caught_up(books, leader_end, now_ms, lag_max_ms)
    return caught_up


def fetched_by_solution_1(
    books: Books, fetch_offset: Offsets, log_start: Offsets, arrived_ms: Offsets,
    completed_ms: Offsets, leader_end: Offsets,
) -> Books:  # fmt: skip
    """After one fetch under KIP-501: caught up as of the completion, not of the arrival.

    An UNKNOWN leader end proves nothing, as in ``fetched``.
    """
    told = leader_end != UNKNOWN
    caught_up = (told & (fetch_offset >= leader_end)) | asks_for_earlier_end(books, fetch_offset)
    stock = fetched(books, fetch_offset, log_start, arrived_ms, leader_end)
    at_ms = np.where(caught_up, completed_ms, UNKNOWN)
    return replace(stock, caught_up_at_ms=np.maximum(books.caught_up_at_ms, at_ms))
