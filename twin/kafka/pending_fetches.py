"""Was a fetch of a replica pending when its leader removed it from the ISR?

KIP-501 counts a fetch as pending while ReplicaManager works on it: from when a request handler
takes it until it is answered. Before that it waits in the request queue, where the leader does not
know of it: "requests queued up ... may not be able to get served before the ISR Expiration Task
considers them out of sync". A follower has one fetch at a leader at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.table import UNKNOWN, Bool, Int8, Int32, Int64
from twin.tables.state import FollowerStates

RESUMED_MS: Final = 1_000
"""A leader that goes on answers waiting fetches and shrinks ISRs within this time, in any order."""

SLOW_FETCH_SHARE: Final = 0.5
"""Share of the lag limit that a fetch must have waited to have cost its follower the ISR.

A healthy follower sends its next fetch when it has the answer to the last, and being caught up is
counted from the last but one: in two fetches it misses the limit only if one waited for half of it.
"""


@dataclass(frozen=True, slots=True)
class Removals:
    """[N] replicas that left an ISR, and two times between which they left; equal times if logged.

    ``was_tracked``: the last fetch before the removal is known, and the removal was known when all
    later fetches were taken in.
    """

    row: Int32
    leader: Int32
    broker: Int32
    earliest_ms: Int64
    latest_ms: Int64
    was_tracked: Bool


@dataclass(frozen=True, slots=True)
class SlowestFetches:
    """[N] the stage of the slowest fetch of each replica when the replica was removed.

    ``was_pending``: it asked for all records, and the leader worked on it (tri-state).
    ``was_queued``: it asked for all records, and waited, or may have waited, in the request queue.
    """

    was_pending: Int8
    was_queued: Bool


def slowest_fetches(
    followers: FollowerStates, removals: Removals, lag_max_ms: Int64
) -> SlowestFetches:
    """Judge the slowest recent fetch of each removed replica at the leader that removed it.

    A fetch asked for all records if its offset was the leader's log end at the fetch before. If
    only the cycle of the removal is known, the fetch must also have waited long enough to be the
    reason (SLOW_FETCH_SHARE), and the removal must have come after that wait. If a handler took the
    fetch between the first and the last possible moment, it is unknown whether it was pending.

    No fetch was pending if all fetches since just before the removal are known and none of them
    meets these conditions. Then either the slowest fetch came before the removal; or the removal
    was known when later fetches were taken in, and a pending fetch would have been kept in place
    of any slower one.

    Args:
        followers: with the slowest fetch of each.
        removals: [N] replicas that left an ISR.
        lag_max_ms: [N] replica.lag.time.max.ms of their leaders, UNKNOWN if unknown.
    """
    place = keys.find(
        keys.pack(followers.row, followers.broker), keys.pack(removals.row, removals.broker)
    )
    tracked = (place != UNKNOWN) & (followers.leader[place] == removals.leader)
    tracked &= lag_max_ms != UNKNOWN
    arrived_ms, taken_ms, completed_ms = (
        times[place]
        for times in (
            followers.slow_arrived_at_ms,
            followers.slow_taken_at_ms,
            followers.slow_completed_at_ms,
        )
    )
    asked_enough = followers.slow_asked_for_leader_end[place]
    logged, until_ms = removals.earliest_ms == removals.latest_ms, removals.latest_ms
    from_ms = removals.earliest_ms - np.where(logged, RESUMED_MS, 0)
    enough_ms = SLOW_FETCH_SHARE * lag_max_ms
    spans = (arrived_ms <= until_ms) & (completed_ms > from_ms)
    long = completed_ms - arrived_ms >= enough_ms
    waited = spans & (long | (logged & (completed_ms >= until_ms)))

    waited_for_all = tracked & waited & (asked_enough == 1)
    first_ms = np.where(logged, until_ms, np.maximum(from_ms, arrived_ms + enough_ms))
    was_taken = (taken_ms != UNKNOWN) & (taken_ms <= np.minimum(first_ms, until_ms))
    was_queued = (taken_ms != UNKNOWN) & ~was_taken & (taken_ms >= until_ms)
    known_since = (arrived_ms < until_ms) | removals.was_tracked
    known_since &= followers.last_fetch_at_ms[place] >= until_ms
    no_other = tracked & known_since & (~waited | (asked_enough == 0))
    pending = np.where(waited_for_all & was_taken, 1, UNKNOWN)
    pending = np.where((waited_for_all & was_queued) | no_other, 0, pending)
    queued = waited_for_all & ~was_taken & (taken_ms != UNKNOWN)
    return SlowestFetches(pending.astype(np.int8), queued)
