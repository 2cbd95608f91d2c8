"""Why replicas leave the ISR.

Kafka's leader removes a replica that it has not seen caught up for replica.lag.time.max.ms; when
the leader itself stood still, that is every follower (KIP-501). From outside, the cause shows in
which replicas left together, which brokers answer, and which replicas are behind. If the fetches of
followers are known, it also shows in a fetch that asked for all records and waited for its leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Alert, api_field, gauge, risk, rule
from twin.declarations.results import ByBroker, OfRows
from twin.declarations.signature import Before, Cycle, Earlier, TableGroup
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
from twin.rules.partitions.leaders import IsrMembers, LeaderEnds, Leaders, Roles
from twin.rules.replication.isr_verdicts import (
    LEADERS_FAULT,
    SENTENCE,
    Evidence,
    Verdict,
    verdict_of,
)
from twin.tables.state import (
    Assignment,
    BrokerMetrics,
    Brokers,
    FollowerStates,
    IsrRemovals,
    Partitions,
    Replicas,
)

SHRINK_WINDOW_MS: Final = 600_000
"""How long a shrink is remembered: two rounds of leader balancing."""

SUSPECTED_MS: Final = 300_000
"""How long after a shrink its leader is called slow."""

SLOW_ANSWER_MS: Final = 1_000
"""Small requests are answered in a few milliseconds; followers wait at most half a second."""

BROKER_CLOCK_SKEW_MS: Final = 2_000
"""How far the clocks of brokers and collector may differ where observations of both are joined."""

FENCED_WITHIN_MS: Final = 30_000
"""A dead broker is fenced within its session, 9 s by default; later it is another story."""

STOPS_WITHIN_MS: Final = 15_000
"""A broker that shuts down in good order hands over first; three cycles see that it is silent."""

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


@dataclass(frozen=True, slots=True)
class ShrinkEvidence(TableGroup):
    """The tables of this cycle that shrinks are judged by."""

    partitions: Partitions
    assignment: Assignment
    replicas: Replicas
    roles: Roles
    leaders: Leaders
    brokers: Brokers
    metrics: BrokerMetrics
    removals: IsrRemovals
    previous: Before[LeaderEnds]
    cycle: Cycle

    def in_isr(self, row: Int32, broker: Int32) -> Bool:
        """[N] the broker is in the ISR of that partition."""
        member = self.roles.in_isr[row] & (self.assignment.broker[row] == broker[:, None])
        return member.any(axis=1)

    def is_offline(self, row: Int32, broker: Int32) -> Bool:
        """[N] the controller has the broker's replica of that partition offline."""
        offline = self.roles.is_offline[row] & (self.assignment.broker[row] == broker[:, None])
        return offline.any(axis=1)


@rule
def isr_shrinks(
    it: ShrinkEvidence,
    limits: LagLimits,
    followers: FollowerStates,
    was_member: Before[IsrMembers],
    latest: Earlier[IsrShrinks],
) -> IsrShrinks:
    """The shrinks of the window: earlier ones, those of this cycle, and those that logs report.

    Those of this cycle, and those that only a log reports, are computed again with each frame, so
    the order of frames does not matter.
    """
    roles, removals, now_ms = it.roles, it.removals, it.cycle.observed_at_ms
    polled = latest.pick(latest.at_ms != latest.logged_at_ms)
    recent = (polled.at_ms < now_ms) & (now_ms - polled.at_ms <= SHRINK_WINDOW_MS)
    row, slot = np.nonzero(was_member.in_isr & ~roles.in_isr & roles.is_assigned)
    table = _with_rejoins(it, polled.pick(recent)).with_rows(_of_this_cycle(it, row, slot, latest))
    if len(removals):
        table = _with_removals(it, table, latest)
    return _with_pending_fetches(table, removals, followers, limits)


def _of_this_cycle(it: ShrinkEvidence, row: Rows, slot: Rows, latest: IsrShrinks) -> IsrShrinks:
    """Replicas that the previous cycle had in the ISR and this one has not."""
    if not len(row):
        return IsrShrinks.empty()
    leader_now = it.partitions.leader
    leader = np.where(leader_now == NO_BROKER, it.previous.leader, leader_now)[row].astype(np.int32)
    broker = it.assignment.broker[row, slot]
    evidence = _evidence(it, row, slot, leader)
    count, now_ms = len(row), it.cycle.observed_at_ms
    # An earlier step of this cycle may have known a fetch that has been dropped since.
    earlier = latest.pick(latest.at_ms == now_ms)
    earlier_keys, row_keys = keys.pack(earlier.row, earlier.broker), keys.pack(row, broker)
    pending = keys.look_up(earlier_keys, earlier.fetch_was_pending, row_keys)
    evidence |= np.maximum(keys.look_up(earlier_keys, earlier.evidence & _OF_FETCHES, row_keys), 0)
    return IsrShrinks(
        row=row.astype(np.int32),
        leader=leader,
        broker=broker,
        at_ms=np.full(count, now_ms),
        last_in_isr_at_ms=np.full(count, it.cycle.prev_observed_at_ms),
        rejoined_at_ms=np.full(count, UNKNOWN, np.int64),
        logged_at_ms=np.full(count, UNKNOWN, np.int64),
        verdict=verdict_of(evidence),
        evidence=evidence,
        fetch_was_pending=pending,
    )


def are_slow(brokers: Brokers, metrics: BrokerMetrics, now_ms: int) -> Bool:
    """[B] it answers slowly, or measures itself that followers' fetches take long."""
    works_slowly = [
        metrics.of_brokers(brokers.broker, name, now_ms) >= SLOW_ANSWER_MS  # NaN is not
        for name in ("fetch_follower_local_p99_ms", "fetch_follower_queue_p99_ms")
    ]
    answers_slowly = brokers.answered & (brokers.answered_in_ms >= SLOW_ANSWER_MS)
    slow: Bool = np.any([answers_slowly, *works_slowly], axis=0)
    return slow


def _evidence(it: ShrinkEvidence, row: Rows, slot: Rows, leader: Int32) -> Int32:
    """[N] what the polls say of each replica that left."""
    broker, brokers, now_ms = it.assignment.broker[row, slot], it.brokers, it.cycle.observed_at_ms
    silent = brokers.broker[~brokers.answered]
    slow = brokers.broker[are_slow(brokers, it.metrics, now_ms)]
    end = it.replicas.log_end_offset[row, slot]
    goal = it.leaders.log_end_offset[row]
    offline = it.roles.is_offline[row, slot]
    follower_silent = np.isin(broker, silent)
    holds = {
        Evidence.FOLLOWER_OFFLINE: offline,
        Evidence.FOLLOWER_SILENT: follower_silent,
        Evidence.FOLLOWER_BEHIND: (end != UNKNOWN) & (goal != UNKNOWN) & (end < goal),
        Evidence.LEADER_SILENT: _was_silent(brokers, leader, np.full(len(row), now_ms)),
        Evidence.LEADER_ANSWERS_SLOWLY: np.isin(leader, slow),
        Evidence.SEVERAL_FOLLOWERS_LEFT: _several(row, ~offline & ~follower_silent),
        Evidence.WAS_LEADER: it.previous.leader[row] == broker,
    }
    bits = np.zeros(len(row), np.int32)
    for one, where in holds.items():
        bits |= np.where(where, np.int32(one), np.int32(0))
    return bits


def _was_silent(brokers: Brokers, broker: Int32, at_ms: Int64) -> Bool:
    """[N] the broker answered no request of the twin until about that time.

    A leader that stood still removes late followers as soon as it runs again, so it answers in this
    cycle or in the next one.
    """
    if not len(brokers.broker):
        return np.zeros(len(broker), bool)
    row = keys.find_sorted(brokers.broker, broker)
    since, until = brokers.silent_since_ms[row], brokers.silent_until_ms[row]
    spans = (since < at_ms) & (at_ms <= until + BROKER_CLOCK_SKEW_MS)
    return (row != UNKNOWN) & np.where(
        brokers.answered[row], (until != UNKNOWN) & spans, since < at_ms
    )


def _several(row: Rows, alive: Bool) -> Bool:
    """[N] two or more live followers of the partition left; dead ones have reasons of their own."""
    return alive & (np.bincount(row[alive], minlength=row.max() + 1)[row] > 1)


def _with_rejoins(it: ShrinkEvidence, earlier: IsrShrinks) -> IsrShrinks:
    """Earlier shrinks, with the time at which a replica was first observed in the ISR again.

    A crashed follower may leave by lag before it is fenced, so its death shows later. A follower in
    a controlled restart leaves first and then stops. It may be back before any listing shows it as
    fenced, so a silence that begins at about that time is evidence as well.
    """
    if not len(earlier):
        return earlier
    now_ms = it.cycle.observed_at_ms
    fenced = it.is_offline(earlier.row, earlier.broker)
    fenced &= (earlier.rejoined_at_ms == UNKNOWN) & (now_ms - earlier.at_ms <= FENCED_WITHIN_MS)
    offline = np.where(fenced, np.int32(Evidence.FOLLOWER_OFFLINE), np.int32(0))
    stopped = np.where(_fell_silent(it, earlier), np.int32(Evidence.FOLLOWER_SILENT), np.int32(0))
    evidence = (earlier.evidence | offline | stopped).astype(np.int32)
    rejoined = (earlier.rejoined_at_ms != UNKNOWN) & (earlier.rejoined_at_ms < now_ms)
    now = np.where(it.in_isr(earlier.row, earlier.broker), now_ms, UNKNOWN)
    at_ms = np.where(rejoined, earlier.rejoined_at_ms, now)
    return replace(earlier, rejoined_at_ms=at_ms, evidence=evidence, verdict=verdict_of(evidence))


def _fell_silent(it: ShrinkEvidence, shrinks: IsrShrinks) -> Bool:
    """[N] the newest silence of the replica's broker began about when it left the ISR."""
    brokers = it.brokers
    if not len(brokers.broker):
        return np.zeros(len(shrinks), bool)
    row = keys.find_sorted(brokers.broker, shrinks.broker)
    since, until = brokers.silent_since_ms[row], brokers.silent_until_ms[row]
    lasts = ~brokers.answered[row] | (until >= shrinks.last_in_isr_at_ms)
    silent: Bool = (row != UNKNOWN) & (since != UNKNOWN) & lasts
    silent &= since <= shrinks.at_ms + STOPS_WITHIN_MS
    return silent


def _with_removals(it: ShrinkEvidence, polled: IsrShrinks, latest: IsrShrinks) -> IsrShrinks:
    """The polled shrinks with what logs say of them, and those that no poll saw.

    An ISR that shrinks and expands between two polls is seen only in a log.
    """
    logged = it.removals
    removal, shrink = keys.pairs(
        keys.pack(logged.row, logged.broker), keys.pack(polled.row, polled.broker)
    )
    at_ms = logged.at_ms[removal]
    same = (at_ms >= polled.last_in_isr_at_ms[shrink] - BROKER_CLOCK_SKEW_MS) & (
        at_ms <= polled.at_ms[shrink] + BROKER_CLOCK_SKEW_MS
    )
    removal, shrink = removal[same], shrink[same]
    logged_at_ms, evidence = polled.logged_at_ms.copy(), polled.evidence.copy()
    logged_at_ms[shrink] = logged.at_ms[removal]
    behind = np.int32(Evidence.FOLLOWER_BEHIND)
    evidence[shrink] |= np.where(logged.was_behind[removal] == 1, behind, 0)
    polled = replace(
        polled, logged_at_ms=logged_at_ms, evidence=evidence, verdict=verdict_of(evidence)
    )
    unseen = logged.pick(~np.isin(np.arange(len(logged)), removal))
    return polled.with_rows(_logged_only(it, unseen, latest))


def _logged_only(it: ShrinkEvidence, logged: IsrRemovals, latest: IsrShrinks) -> IsrShrinks:
    """Shrinks that only a log reports, with what earlier steps found out about them."""
    earlier = latest.pick(latest.at_ms == latest.logged_at_ms)
    here, there = keys.pairs(
        keys.pack(logged.row, logged.broker), keys.pack(earlier.row, earlier.broker)
    )
    same = logged.at_ms[here] == earlier.at_ms[there]
    here, there = here[same], there[same]
    behind = np.int32(Evidence.FOLLOWER_BEHIND)
    silent = _was_silent(it.brokers, logged.leader, logged.at_ms)
    evidence = np.where(logged.was_behind == 1, behind, 0).astype(np.int32)
    evidence |= np.where(silent, np.int32(Evidence.LEADER_SILENT), np.int32(0))
    evidence[here] |= earlier.evidence[there]
    pending = np.full(len(logged), UNKNOWN, np.int8)
    pending[here] = earlier.fetch_was_pending[there]
    listed_since = it.partitions.described_at_ms[logged.row] > logged.at_ms
    is_back = it.in_isr(logged.row, logged.broker) & listed_since
    back = np.where(is_back, it.cycle.observed_at_ms, UNKNOWN)
    rejoined_at_ms = earlier.rejoined_at_ms[there]
    back[here] = np.where(rejoined_at_ms != UNKNOWN, rejoined_at_ms, back[here])
    return IsrShrinks(
        row=logged.row,
        leader=logged.leader,
        broker=logged.broker,
        at_ms=logged.at_ms,
        last_in_isr_at_ms=logged.at_ms,
        rejoined_at_ms=np.where(logged.rejoined_at_ms != UNKNOWN, logged.rejoined_at_ms, back),
        logged_at_ms=logged.at_ms,
        verdict=verdict_of(evidence),
        evidence=evidence,
        fetch_was_pending=pending,
    )


def _with_pending_fetches(
    shrinks: IsrShrinks, logs: IsrRemovals, followers: FollowerStates, limits: LagLimits
) -> IsrShrinks:
    """The shrinks, judged with the followers' fetches, which may become known later."""
    if not len(shrinks) or not len(followers):
        return shrinks
    logged = shrinks.logged_at_ms != UNKNOWN
    removals = Removals(
        row=shrinks.row,
        leader=shrinks.leader,
        broker=shrinks.broker,
        earliest_ms=np.where(logged, shrinks.logged_at_ms, shrinks.last_in_isr_at_ms),
        latest_ms=np.where(logged, shrinks.logged_at_ms, shrinks.at_ms),
        was_tracked=_was_tracked(shrinks, logs),
    )
    fetches = slowest_fetches(followers, removals, limits.lag_time_max_ms[shrinks.row])
    pending = np.maximum(shrinks.fetch_was_pending, fetches.was_pending).astype(np.int8)
    evidence = shrinks.evidence | np.where(
        pending == 1, np.int32(Evidence.FETCH_WAS_PENDING), np.int32(0)
    )
    evidence |= np.where(fetches.was_queued, np.int32(Evidence.FETCH_WAS_QUEUED), np.int32(0))
    return replace(
        shrinks, fetch_was_pending=pending, evidence=evidence, verdict=verdict_of(evidence)
    )


def _was_tracked(shrinks: IsrShrinks, logs: IsrRemovals) -> Bool:
    """[N] the follower's state just before the shrink was known when a log reported the shrink."""
    shrink, removal = keys.pairs(
        keys.pack(shrinks.row, shrinks.broker), keys.pack(logs.row, logs.broker)
    )
    same = shrinks.logged_at_ms[shrink] == logs.at_ms[removal]
    was_tracked = np.zeros(len(shrinks), bool)
    was_tracked[shrink[same]] = logs.tracked_caught_up_at_ms[removal[same]] != UNKNOWN
    return was_tracked


# ---------------------------------------------------------------- risk


@risk(
    "slow_leader",
    rank=90,
    severity="warn",
    open_after_ms=6_000,  # the next cycle shows whether the follower was being stopped
    close_after_ms=60_000,
    sentence="followers left the ISR because the leader was slow",
    source="KIP-501",
    alert=Alert(
        summary="have a leader that was too slow for its followers",
        description="Followers of {n} partitions of {cluster} left the ISR because the leader "
        "worked slowly or stood still (KIP-501).",
        # The twin remembers a shrink for five minutes; it is over before anybody looks.
        wait="0s",
        keep_firing_for="5m",
    ),
)
def has_slow_leader(shrinks: IsrShrinks, partitions: Partitions, cycle: Cycle) -> Bool:
    """Followers left the ISR recently, and the verdict blames their leader."""
    fault = np.isin(shrinks.verdict, LEADERS_FAULT)
    recent = cycle.observed_at_ms - shrinks.at_ms <= SUSPECTED_MS
    return shrinks.pick(fault & recent).row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge(
    "isr_shrinks_recent",
    "Replicas that left an ISR in the last 10 minutes, by verdict.",
    labels=("verdict",),
)
def isr_shrinks_recent(shrinks: IsrShrinks) -> Mapping[tuple[str], int]:
    """The shrinks by verdict, also for verdicts without shrinks."""
    return {(v.name.lower(),): int((shrinks.verdict == v).sum()) for v in Verdict}


@gauge(
    "isr_shrinks_recent",
    "Replicas that left the partition's ISR in the last 10 minutes.",
    level="partition",
)
def partition_isr_shrinks_recent(shrinks: IsrShrinks) -> OfRows:
    """The shrinks of each partition; no series without any."""
    row, count = np.unique(shrinks.row, return_counts=True)
    return OfRows(row, count)


@gauge(
    "isr_shrinks_recent",
    "Replicas that left the ISR of partitions that the broker leads, in the last 10 minutes, "
    "without those whose own broker was gone.",
    level="broker",
)
def broker_isr_shrinks_recent(shrinks: IsrShrinks) -> ByBroker:
    """The shrinks by the leader at that time; a dead follower says nothing about its leader."""
    may_be_slow = (shrinks.leader != NO_BROKER) & (shrinks.verdict != Verdict.DEAD_FOLLOWER)
    return ByBroker(shrinks.leader[may_be_slow])


@api_field(
    "isr_shrinks",
    "replicas that left the ISR in the last ten minutes: `broker`, `leader`, `at_ms` when that was "
    "observed, `logged_at_ms` by a broker's log, `rejoined_at_ms`, `verdict` and its `meaning`, "
    "`evidence` that supports it, `fetch_was_pending`: a fetch that asked for all records was "
    "pending when it was removed, which begins when a request handler takes it",
)
def isr_shrinks_field(shrinks: IsrShrinks, partitions: Partitions) -> list[list[dict[str, Any]]]:
    """A list of shrinks for each partition."""
    objects = (_plain(shrinks, i, Verdict(int(shrinks.verdict[i]))) for i in range(len(shrinks)))
    return plain.by_partition(shrinks.row, objects, len(partitions.leader))


def _plain(shrinks: IsrShrinks, i: int, verdict: Verdict) -> dict[str, Any]:
    evidence = int(shrinks.evidence[i])
    return {
        "broker": int(shrinks.broker[i]),
        "leader": plain.integer(shrinks.leader[i]),
        "at_ms": int(shrinks.at_ms[i]),
        "logged_at_ms": plain.integer(shrinks.logged_at_ms[i]),
        "rejoined_at_ms": plain.integer(shrinks.rejoined_at_ms[i]),
        "verdict": verdict.name.lower(),
        "meaning": SENTENCE[verdict],
        "evidence": [str(each.name).lower() for each in Evidence if evidence & each],
        "fetch_was_pending": plain.yes_or_no(shrinks.fetch_was_pending[i]),
    }
