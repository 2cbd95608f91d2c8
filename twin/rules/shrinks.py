"""Why replicas leave the ISR, and what KIP-501 would have done about it.

Kafka's leader throws out who it has not seen caught up for replica.lag.time.max.ms; when the leader
itself stood still, that is everybody (KIP-501). From outside, the blame shows in who left together
with whom, who answers, who is behind, and, where the fetches of followers are known, in a fetch
that asked for all there was and waited for its leader.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.kip501 import next_member
from twin.signals import fresh
from twin.sparse import Departures, Shrinks
from twin.tables import NO_BROKER, UNKNOWN, Evidence, Slot, Verdict

WINDOW_MS: Final = 600_000
"""How long a shrink is remembered: two rounds of leader balancing."""

BLAMED_MS: Final = 300_000
"""How long after a shrink its leader is called slow."""

THRASH_SHRINKS: Final = 3
"""A rolling restart takes a replica out once, and perhaps once more when it is repeated."""

SLOW_ANSWER_MS: Final = 1_000
"""Small requests are answered in a few milliseconds; followers wait half a second at the most."""

CLOCKS_MS: Final = 2_000
"""How far the clocks of brokers and collector may differ, when what both saw is put together."""

RESUMED_MS: Final = 1_000
"""A leader that goes on answers waiting fetches and shrinks ISRs within this time, in any order."""

FENCED_WITHIN_MS: Final = 30_000
"""A dead broker is fenced within its session, 9 s by default; later it is another story."""

SLOW_FETCH_SHARE: Final = 0.5
"""Share of the lag limit that a fetch must have waited to have cost its follower the ISR.

A healthy follower sends its next fetch when it has the answer to the last, and being caught up is
counted from the last but one: in two fetches it misses the limit only if one waited for half of it.
"""

SENTENCE: Final = {
    Verdict.UNEXPLAINED: "nothing the twin sees explains it",
    Verdict.SLOW_LEADER: "its leader was too slow for healthy followers",
    Verdict.FROZEN_LEADER: "its leader stood still and found everybody late",
    Verdict.SLOW_FOLLOWER: "it did not keep up, the others did",
    Verdict.DEAD_FOLLOWER: "its broker is gone",
}


def shrinks(fleet: Fleet) -> Shrinks:
    """The shrinks of the window: those seen before, those of this cycle, and those logs tell of.

    This cycle's are made anew each time, so the order of its frames does not matter; so are those
    that only a log tells of.
    """
    now_ms = fleet.observed_at_ms
    known = fleet.shrinks
    seen = known.picked(known.at_ms != known.told_at_ms)
    earlier = seen.picked((seen.at_ms < now_ms) & (now_ms - seen.at_ms <= WINDOW_MS))
    table = _with_return(fleet, earlier).with_rows(_of_this_cycle(fleet))
    return _with_pending_fetches(fleet, _with_told(fleet, table))


def blamed(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] followers left the ISR lately, and its leader was to blame."""
    of = fleet.shrinks
    leaders_fault = np.isin(of.verdict, (Verdict.SLOW_LEADER, Verdict.FROZEN_LEADER))
    return fleet.among(of.row[leaders_fault & (fleet.observed_at_ms - of.at_ms <= BLAMED_MS)])


def thrashing(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] the ISR shrank THRASH_SHRINKS times or more in the window, and some came back.

    Replicas that left in one cycle are one shrink.
    """
    of = fleet.shrinks
    row, _ = np.unique(np.stack([of.row, of.at_ms]), axis=1)
    left = np.bincount(row, minlength=len(fleet))
    came_back = fleet.among(of.row[of.back_at_ms != UNKNOWN])
    thrashing: NDArray[np.bool_] = (left >= THRASH_SHRINKS) & came_back
    return thrashing


def period_ms(of: Shrinks) -> float:
    """Mean time between the shrinks of one partition, NaN with fewer than two.

    Replicas that left in one cycle are one shrink.
    """
    at_ms = np.unique(of.at_ms)
    if len(at_ms) < 2:
        return float("nan")
    return float(at_ms[-1] - at_ms[0]) / (len(at_ms) - 1)


def culprit(of: Shrinks) -> int:
    """The broker most of those shrinks are put down to: a leader at fault, else who left."""
    if not len(of):
        return NO_BROKER
    at_fault = np.isin(of.verdict, (Verdict.SLOW_LEADER, Verdict.FROZEN_LEADER))
    brokers, count = np.unique(np.where(at_fault, of.leader, of.broker), return_counts=True)
    return int(brokers[count.argmax()])


def _of_this_cycle(fleet: Fleet) -> Shrinks:
    was_in = (fleet.slot_before & np.uint8(Slot.IN_ISR)) != 0
    row, slot = np.nonzero(was_in & ~fleet.marked(Slot.IN_ISR) & fleet.present)
    if not len(row):
        return Shrinks.none()
    leader = np.where(fleet.leader == NO_BROKER, fleet.leader_before, fleet.leader)[row]
    broker = fleet.broker[row, slot]
    evidence = _evidence(fleet, row, slot, leader)
    handover_to, handover_thin = _handover(fleet, row)
    return Shrinks(
        row=row.astype(np.int32),
        leader=leader.astype(np.int32),
        broker=broker,
        at_ms=np.full(len(row), fleet.observed_at_ms),
        seen_before_ms=np.full(len(row), fleet.before_at_ms),
        back_at_ms=np.full(len(row), UNKNOWN, np.int64),
        told_at_ms=np.full(len(row), UNKNOWN, np.int64),
        verdict=_verdict(evidence),
        evidence=evidence,
        kept_by_solution_1=_known_kept(fleet, row, broker),
        handover_to=handover_to,
        handover_thin=handover_thin,
    )


def _known_kept(fleet: Fleet, row: Array, broker: Array) -> NDArray[np.int8]:
    """[N] what an earlier step of this cycle found; its fetch may be forgotten since."""
    known = fleet.shrinks.picked(fleet.shrinks.at_ms == fleet.observed_at_ms)
    kept = np.full(len(row), UNKNOWN, np.int8)
    _, here, there = np.intersect1d(
        _key(row, broker), _key(known.row, known.broker), assume_unique=True, return_indices=True
    )
    kept[here] = known.kept_by_solution_1[there]
    return kept


def _evidence(fleet: Fleet, row: Array, slot: Array, leader: Array) -> NDArray[np.int32]:
    """[N] what the polls say of each replica that left."""
    broker = fleet.broker[row, slot]
    brokers = fleet.brokers
    seen_ms = np.full(len(row), fleet.observed_at_ms)
    silent = brokers.broker[~brokers.answered]
    works_slowly = [
        fresh(fleet, name, fleet.observed_at_ms) >= SLOW_ANSWER_MS  # NaN is not
        for name in ("fetch_follower_local_p99_ms", "fetch_follower_queue_p99_ms")
    ]
    answers_slowly = brokers.answered & (brokers.answered_in_ms >= SLOW_ANSWER_MS)
    slow = brokers.broker[np.any([answers_slowly, *works_slowly], axis=0)]
    end = fleet.log_end_offset[row, slot]
    goal = fleet.of_leader(fleet.log_end_offset)[row]
    offline = fleet.marked(Slot.OFFLINE)[row, slot]
    follower_silent = np.isin(broker, silent)
    holds = {
        Evidence.FOLLOWER_OFFLINE: offline,
        Evidence.FOLLOWER_SILENT: follower_silent,
        Evidence.FOLLOWER_BEHIND: (end != UNKNOWN) & (goal != UNKNOWN) & (end < goal),
        Evidence.LEADER_SILENT: _was_silent(fleet, leader, seen_ms),
        Evidence.LEADER_ANSWERS_SLOWLY: np.isin(leader, slow),
        Evidence.SEVERAL_FOLLOWERS_LEFT: _several(leader, broker, ~offline & ~follower_silent),
        Evidence.WAS_LEADER: fleet.leader_before[row] == broker,
    }
    bits = np.zeros(len(row), np.int32)
    for one, where in holds.items():
        bits |= np.where(where, np.int32(one), np.int32(0))
    return bits


def _was_silent(fleet: Fleet, broker: Array, at_ms: Array) -> Array:
    """[N] it answered no question of the twin until about that time.

    A leader that goes on acts at once, and answers the next cycle; or still this one.
    """
    of = fleet.brokers
    at = np.minimum(np.searchsorted(of.broker, broker), max(len(of.broker) - 1, 0))
    if not len(of.broker):
        return np.zeros(len(broker), bool)
    since, until = of.silent_since_ms[at], of.silent_until_ms[at]
    spans = (since < at_ms) & (at_ms <= until + CLOCKS_MS)
    found: Array = (of.broker[at] == broker) & np.where(
        of.answered[at], (until != UNKNOWN) & spans, since < at_ms
    )
    return found


def _several(leader: Array, broker: Array, alive: Array) -> Array:
    """[N] two or more live followers of one leader left; the dead have reasons of their own."""
    pair = np.unique(np.stack([leader, broker])[:, alive], axis=1)
    leaders, followers = np.unique(pair[0], return_counts=True)
    return alive & np.isin(leader, leaders[followers > 1])


def _verdict(evidence: NDArray[np.int32]) -> NDArray[np.int8]:
    """[N] the first that fits: a dead follower explains more than a slow leader does."""

    def has(*which: Evidence) -> Array:
        any_of: Array = (evidence & np.int32(sum(which))) != 0
        return any_of

    return np.select(
        [
            has(Evidence.FOLLOWER_OFFLINE),
            has(Evidence.WAS_LEADER),  # it handed over, or was taken from
            # The controller still hears of it, or it would be offline.
            has(Evidence.FOLLOWER_SILENT) & ~has(Evidence.LEADER_SILENT),
            has(Evidence.LEADER_SILENT),
            has(Evidence.FETCH_WAS_PENDING, Evidence.LEADER_ANSWERS_SLOWLY,
                Evidence.SEVERAL_FOLLOWERS_LEFT),
            has(Evidence.FOLLOWER_BEHIND),
        ],
        [
            Verdict.DEAD_FOLLOWER,
            Verdict.UNEXPLAINED,
            Verdict.SLOW_FOLLOWER,
            Verdict.FROZEN_LEADER,
            Verdict.SLOW_LEADER,
            Verdict.SLOW_FOLLOWER,
        ],
        Verdict.UNEXPLAINED,
    ).astype(np.int8)  # fmt: skip


def _handover(fleet: Fleet, row: Array) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """[N] who would lead had the leader handed over before the shrink, and is that one thin."""
    was_in = (fleet.slot_before & np.uint8(Slot.IN_ISR)) != 0
    return next_member(fleet, row, was_in, fleet.leader_before)


def _with_told(fleet: Fleet, polled: Shrinks) -> Shrinks:
    """The polled shrinks with what logs tell of them, and those that no poll saw.

    An ISR that shrinks and expands between two polls is seen by nobody else.
    """
    told = fleet.departures
    if not len(told):
        return polled
    departure, shrink = _pairs(_key(told.row, told.broker), _key(polled.row, polled.broker))
    at_ms = told.at_ms[departure]
    same = (at_ms >= polled.seen_before_ms[shrink] - CLOCKS_MS) & (
        at_ms <= polled.at_ms[shrink] + CLOCKS_MS
    )
    departure, shrink = departure[same], shrink[same]
    told_at_ms, evidence = polled.told_at_ms.copy(), polled.evidence.copy()
    told_at_ms[shrink] = told.at_ms[departure]
    evidence[shrink] |= np.where(told.behind[departure] == 1, np.int32(Evidence.FOLLOWER_BEHIND), 0)
    polled = replace(polled, told_at_ms=told_at_ms, evidence=evidence, verdict=_verdict(evidence))
    unseen = _only_told(fleet, told.picked(~np.isin(np.arange(len(told)), departure)))
    return polled.with_rows(unseen)


def _only_told(fleet: Fleet, told: Departures) -> Shrinks:
    """Shrinks of which only a log tells, with what earlier steps found out about them."""
    known = fleet.shrinks.picked(fleet.shrinks.at_ms == fleet.shrinks.told_at_ms)
    here, there = _pairs(_key(told.row, told.broker), _key(known.row, known.broker))
    same = told.at_ms[here] == known.at_ms[there]
    here, there = here[same], there[same]
    behind = np.int32(Evidence.FOLLOWER_BEHIND)
    silent = np.where(_was_silent(fleet, told.leader, told.at_ms), Evidence.LEADER_SILENT, 0)
    evidence = (np.where(told.behind == 1, behind, 0) | silent).astype(np.int32)
    evidence[here] |= known.evidence[there]
    kept = np.full(len(told), UNKNOWN, np.int8)
    kept[here] = known.kept_by_solution_1[there]
    handover_to, handover_thin = _handover(fleet, told.row)
    handover_to[here], handover_thin[here] = known.handover_to[there], known.handover_thin[there]
    in_isr = fleet.marked(Slot.IN_ISR)[told.row] & (fleet.broker[told.row] == told.broker[:, None])
    listed_since = fleet.described_at_ms[told.row] > told.at_ms
    back = np.where(in_isr.any(axis=1) & listed_since, fleet.observed_at_ms, UNKNOWN)
    back[here] = np.where(known.back_at_ms[there] != UNKNOWN, known.back_at_ms[there], back[here])
    return Shrinks(
        row=told.row,
        leader=told.leader,
        broker=told.broker,
        at_ms=told.at_ms,
        seen_before_ms=told.at_ms,
        back_at_ms=np.where(told.back_at_ms != UNKNOWN, told.back_at_ms, back),
        told_at_ms=told.at_ms,
        verdict=_verdict(evidence),
        evidence=evidence,
        kept_by_solution_1=kept,
        handover_to=handover_to,
        handover_thin=handover_thin,
    )


def _with_return(fleet: Fleet, of: Shrinks) -> Shrinks:
    """Earlier shrinks, with the time at which a replica was first seen back in the ISR.

    A crashed follower may leave by lag before it is fenced: that it is dead shows later.
    """
    if not len(of):
        return of
    its_slot = fleet.broker[of.row] == of.broker[:, None]
    in_isr = fleet.marked(Slot.IN_ISR)[of.row] & its_slot
    fenced = (fleet.marked(Slot.OFFLINE)[of.row] & its_slot).any(axis=1)
    fenced &= (of.back_at_ms == UNKNOWN) & (fleet.observed_at_ms - of.at_ms <= FENCED_WITHIN_MS)
    offline = np.where(fenced, np.int32(Evidence.FOLLOWER_OFFLINE), np.int32(0))
    evidence = np.bitwise_or(of.evidence, offline).astype(np.int32)
    returned = (of.back_at_ms != UNKNOWN) & (of.back_at_ms < fleet.observed_at_ms)
    back_now = np.where(in_isr.any(axis=1), fleet.observed_at_ms, UNKNOWN)
    back_at_ms = np.where(returned, of.back_at_ms, back_now)
    return replace(of, back_at_ms=back_at_ms, evidence=evidence, verdict=_verdict(evidence))


def _with_pending_fetches(fleet: Fleet, of: Shrinks) -> Shrinks:
    """The shrinks in the light of the followers' fetches, which may become known later.

    Solution 1 would have kept a replica whose fetch was pending when it was thrown out, if that
    asked for the leader end of the fetch before. The moment of the shrink is known only to a cycle,
    so the fetch must also have waited long enough to be the reason (SLOW_FETCH_SHARE). It would not
    have where the fetches from before the shrink on are known and none was such. With an unknown
    lag limit nothing is said.
    """
    books = fleet.fetches
    lag_max_ms = fleet.setting("replica_lag_time_max_ms")
    if not len(of) or not len(books) or lag_max_ms == UNKNOWN:
        return of
    key, book_key = _key(of.row, of.broker), _key(books.row, books.broker)
    order = np.argsort(book_key)
    at = order[np.minimum(np.searchsorted(book_key, key, sorter=order), len(order) - 1)]
    has_books = (book_key[at] == key) & (books.leader[at] == of.leader)
    told = of.told_at_ms != UNKNOWN
    from_ms = np.where(told, of.told_at_ms - RESUMED_MS, of.seen_before_ms)
    until_ms = np.where(told, of.told_at_ms, of.at_ms)
    arrived_ms, completed_ms = books.slow_arrived_at_ms[at], books.slow_completed_at_ms[at]
    long = completed_ms - arrived_ms >= SLOW_FETCH_SHARE * lag_max_ms
    spans = (arrived_ms <= until_ms) & (completed_ms > from_ms)
    was_pending = spans & (long | (told & (completed_ms >= until_ms)))
    asked_enough = books.slow_kept[at]
    waited = has_books & was_pending & (asked_enough == 1)
    heard_on = (arrived_ms < until_ms) & (books.fetched_at_ms[at] >= until_ms)
    none_such = ~was_pending | (asked_enough == 0)
    kept = np.where(waited, 1, np.where(has_books & heard_on & none_such, 0, UNKNOWN))
    kept = np.maximum(of.kept_by_solution_1, kept).astype(np.int8)
    pending = np.where(kept == 1, np.int32(Evidence.FETCH_WAS_PENDING), np.int32(0))
    evidence = np.bitwise_or(of.evidence, pending).astype(np.int32)
    return replace(of, kept_by_solution_1=kept, evidence=evidence, verdict=_verdict(evidence))


def _pairs(one: Array, other: Array) -> tuple[Array, Array]:
    """[M] all pairs of equal keys, as indices into both."""
    order = np.argsort(other, kind="stable")
    first = np.searchsorted(other, one, "left", sorter=order)
    count = np.searchsorted(other, one, "right", sorter=order) - first
    here = np.repeat(np.arange(len(one)), count)
    nth = np.arange(len(here)) - np.repeat(np.cumsum(count) - count, count)
    return here, order[first[here] + nth]


def _key(row: Array, broker: Array) -> NDArray[np.int64]:
    """[N] one number a replica."""
    key: NDArray[np.int64] = row.astype(np.int64) << 32 | broker
    return key
