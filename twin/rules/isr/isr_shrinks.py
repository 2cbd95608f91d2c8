"""Why replicas leave the ISR.

Kafka's leader removes a replica that it has not seen caught up for replica.lag.time.max.ms; when
the leader itself stood still, that is every follower (KIP-501). From outside, the cause shows in
which replicas left together, which brokers answer, and which replicas are behind. If the fetches of
followers are known, it also shows in a fetch that asked for all records and waited for its leader.

A row is one replica that left once. What is observed changes it so:

    observed                                                    row
    ----------------------------------------------------------  ------------------------------------
    a poll has it in the ISR, the next has it not               begins, with what this cycle shows
    a log says that it was removed between these two polls      gets the time and the lag of the log
    a log says so of another time: no poll saw it               begins, at the time of the log
    its broker is fenced or falls silent soon after             evidence: dead or stopping follower
    its leader was silent when the log says that it removed it  evidence: frozen leader
    a fetch becomes known that waited when it was removed       evidence: slow leader
    a poll or a log has it in the ISR again                     has rejoined; the row stays
    ten minutes have passed                                     ends

The verdict follows from the evidence, whatever the order in which it came: rows of this cycle, and
rows that only a log reports, are made again with each frame and keep what earlier frames showed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import set_slots
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Earlier
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Int8,
    Int32,
    Int64,
    Rows,
    SparseTable,
    column,
)
from twin.kafka.pending_fetches import Removals, slowest_fetches
from twin.rules.brokers.lag_limits import LagLimits
from twin.rules.isr.isr_shrink_evidence import (
    BROKER_CLOCK_SKEW_MS,
    Polled,
    after_it_left,
    as_it_left,
    bits,
    was_silent,
)
from twin.rules.isr.isr_verdicts import Evidence, Verdict, verdict_of
from twin.rules.partitions.leaders import IsrMembers
from twin.tables.state import FollowerStates, IsrRemovals

SHRINK_WINDOW_MS: Final = 600_000
"""How long a shrink is remembered: two rounds of leader balancing."""

_OF_FETCHES: Final = np.int32(Evidence.FETCH_WAS_PENDING | Evidence.FETCH_WAS_QUEUED)


class IsrShrinks(SparseTable, kind="isr_shrinks", version=4):
    """[N] one row a replica that left an ISR in the last ten minutes, and why."""

    leader: Int32 = column("broker id of the leader when it left")
    broker: Int32 = column("broker id of the replica that left")
    at_ms: Int64 = column("when that was observed")
    last_in_isr_at_ms: Int64 = column("when it was last observed in the ISR")
    rejoined_at_ms: Int64 = column("when it was observed in the ISR again")
    logged_at_ms: Int64 = column("when it left, if a broker's log says so")
    verdict: Int8 = column("why it left", enum=Verdict)
    evidence: Int32 = column("observations that support the verdict", fill=0, flags=Evidence)
    fetch_was_pending: Int8 = column(
        "a fetch that asked for all records was pending when it was removed: a request handler of "
        "the leader had taken it and not answered it yet",
        tri_state=True,
    )


@rule
def isr_shrinks(
    it: Polled,
    logged: IsrRemovals,
    followers: FollowerStates,
    limits: LagLimits,
    was_member: Before[IsrMembers],
    latest: Earlier[IsrShrinks],
) -> IsrShrinks:
    """The shrinks of the window: earlier ones, those of this cycle, and those that logs report."""
    now_ms, in_log_alone = it.cycle.observed_at_ms, latest.at_ms == latest.logged_at_ms
    recent = (latest.at_ms < now_ms) & (now_ms - latest.at_ms <= SHRINK_WINDOW_MS)
    row, slot = set_slots(was_member.in_isr & ~it.roles.in_isr & it.roles.is_assigned)
    shrinks = _earlier(it, latest.pick(recent & ~in_log_alone))
    if len(row):
        new = _of_this_cycle(it, row, slot)
        # A fetch that an earlier frame of this cycle showed may have been dropped since.
        shrinks = shrinks.with_rows(_kept(new, latest.pick(latest.at_ms == now_ms), _OF_FETCHES))
    if len(logged):
        shrinks, is_seen = _with_logs(shrinks, logged)
        new = _in_log_alone(it, logged.pick(~is_seen), latest.pick(in_log_alone))
        shrinks = shrinks.with_rows(new)
    if not len(shrinks):
        return shrinks
    shrinks = _with_fetches(shrinks, logged, followers, limits)
    return replace(shrinks, verdict=verdict_of(shrinks.evidence))


def _of_this_cycle(it: Polled, row: Rows, slot: Rows) -> IsrShrinks:
    """Replicas that the previous cycle had in the ISR and this one has not."""
    leader = np.where(it.partitions.leader == NO_BROKER, it.previous.leader, it.partitions.leader)
    removed_by = leader[row].astype(np.int32)
    count, broker = len(row), it.assignment.broker[row, slot]
    return IsrShrinks(
        row=row.astype(np.int32),
        leader=removed_by,
        broker=broker,
        at_ms=np.full(count, it.cycle.observed_at_ms),
        last_in_isr_at_ms=np.full(count, it.cycle.prev_observed_at_ms),
        rejoined_at_ms=np.full(count, UNKNOWN, np.int64),
        logged_at_ms=np.full(count, UNKNOWN, np.int64),
        verdict=np.zeros(count, np.int8),
        evidence=as_it_left(it, row, slot, removed_by),
        fetch_was_pending=np.full(count, UNKNOWN, np.int8),
    )


def _earlier(it: Polled, polled: IsrShrinks) -> IsrShrinks:
    """Shrinks that earlier cycles saw, with what this one shows of them."""
    if not len(polled):
        return polled
    row, broker, now_ms = polled.row, polled.broker, it.cycle.observed_at_ms
    is_out = polled.rejoined_at_ms == UNKNOWN
    shown = after_it_left(it, row, broker, polled.last_in_isr_at_ms, polled.at_ms, is_out)
    rejoined = ~is_out & (polled.rejoined_at_ms < now_ms)
    now = np.where(it.has(it.roles.in_isr, row, broker), now_ms, UNKNOWN)
    rejoined_at_ms = np.where(rejoined, polled.rejoined_at_ms, now)
    return replace(polled, rejoined_at_ms=rejoined_at_ms, evidence=polled.evidence | shown)


def _with_logs(polled: IsrShrinks, logged: IsrRemovals) -> tuple[IsrShrinks, Bool]:
    """The polled shrinks with what logs say of them, and the mask of removals that a poll saw."""
    removal, shrink = keys.pairs(
        keys.pack(logged.row, logged.broker), keys.pack(polled.row, polled.broker)
    )
    at_ms = logged.at_ms[removal]
    same = at_ms >= polled.last_in_isr_at_ms[shrink] - BROKER_CLOCK_SKEW_MS
    same &= at_ms <= polled.at_ms[shrink] + BROKER_CLOCK_SKEW_MS
    removal, shrink = removal[same], shrink[same]
    logged_at_ms, evidence = polled.logged_at_ms.copy(), polled.evidence.copy()
    logged_at_ms[shrink] = logged.at_ms[removal]
    evidence[shrink] |= _of_logs(logged)[removal]
    is_seen = np.zeros(len(logged), bool)
    is_seen[removal] = True
    return replace(polled, logged_at_ms=logged_at_ms, evidence=evidence), is_seen


def _in_log_alone(it: Polled, logged: IsrRemovals, earlier: IsrShrinks) -> IsrShrinks:
    """Shrinks that no poll saw: the ISR shrank and expanded between two of them."""
    froze = {Evidence.LEADER_SILENT: was_silent(it.brokers, logged.leader, logged.at_ms)}
    listed_since = it.partitions.described_at_ms[logged.row] > logged.at_ms
    is_back = it.has(it.roles.in_isr, logged.row, logged.broker) & listed_since
    new = IsrShrinks(
        row=logged.row,
        leader=logged.leader,
        broker=logged.broker,
        at_ms=logged.at_ms,
        last_in_isr_at_ms=logged.at_ms,
        rejoined_at_ms=np.where(is_back, it.cycle.observed_at_ms, UNKNOWN),
        logged_at_ms=logged.at_ms,
        verdict=np.zeros(len(logged), np.int8),
        evidence=_of_logs(logged) | bits(froze, len(logged)),
        fetch_was_pending=np.full(len(logged), UNKNOWN, np.int8),
    )
    new = _kept(new, earlier, np.int32(-1))
    by_log = logged.rejoined_at_ms
    return replace(new, rejoined_at_ms=np.where(by_log != UNKNOWN, by_log, new.rejoined_at_ms))


def _of_logs(logged: IsrRemovals) -> Int32:
    return bits({Evidence.FOLLOWER_BEHIND: logged.was_behind == 1}, len(logged))


def _kept(new: IsrShrinks, earlier: IsrShrinks, which: np.int32) -> IsrShrinks:
    """The shrinks with what earlier frames showed of the same, and that evidence of theirs."""
    here, same = keys.pairs(keys.pack(new.row, new.broker), keys.pack(earlier.row, earlier.broker))
    is_same = new.at_ms[here] == earlier.at_ms[same]
    here, same = here[is_same], same[is_same]
    evidence, pending = new.evidence.copy(), new.fetch_was_pending.copy()
    rejoined_at_ms = new.rejoined_at_ms.copy()
    evidence[here] |= earlier.evidence[same] & which
    pending[here] = earlier.fetch_was_pending[same]
    known = earlier.rejoined_at_ms[same]
    rejoined_at_ms[here] = np.where(known != UNKNOWN, known, rejoined_at_ms[here])
    return replace(new, rejoined_at_ms=rejoined_at_ms, evidence=evidence, fetch_was_pending=pending)


def _with_fetches(
    shrinks: IsrShrinks, logs: IsrRemovals, followers: FollowerStates, limits: LagLimits
) -> IsrShrinks:
    """The shrinks, judged with the followers' fetches, which may become known later."""
    if not len(followers):
        return shrinks
    is_logged = shrinks.logged_at_ms != UNKNOWN
    removals = Removals(
        row=shrinks.row,
        leader=shrinks.leader,
        broker=shrinks.broker,
        earliest_ms=np.where(is_logged, shrinks.logged_at_ms, shrinks.last_in_isr_at_ms),
        latest_ms=np.where(is_logged, shrinks.logged_at_ms, shrinks.at_ms),
        was_tracked=_was_tracked(shrinks, logs),
    )
    fetches = slowest_fetches(followers, removals, limits.lag_time_max_ms[shrinks.row])
    pending = np.maximum(shrinks.fetch_was_pending, fetches.was_pending).astype(np.int8)
    holds = {
        Evidence.FETCH_WAS_PENDING: pending == 1,
        Evidence.FETCH_WAS_QUEUED: fetches.was_queued,
    }
    evidence = shrinks.evidence | bits(holds, len(shrinks))
    return replace(shrinks, fetch_was_pending=pending, evidence=evidence)


def _was_tracked(shrinks: IsrShrinks, logs: IsrRemovals) -> Bool:
    """[N] the follower's state just before the shrink was known when a log reported the shrink."""
    shrink, removal = keys.pairs(
        keys.pack(shrinks.row, shrinks.broker), keys.pack(logs.row, logs.broker)
    )
    same = shrinks.logged_at_ms[shrink] == logs.at_ms[removal]
    was_tracked = np.zeros(len(shrinks), bool)
    was_tracked[shrink[same]] = logs.tracked_caught_up_at_ms[removal[same]] != UNKNOWN
    return was_tracked
