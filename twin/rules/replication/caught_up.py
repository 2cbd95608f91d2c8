"""When was each replica caught up with its leader, and does that make it in sync?

Kafka's leader keeps a state of each follower (``follower_state``). No API returns it, so here the
samples of a cycle stand for fetches, and an estimate is late by at most one interval. Where the
followers' fetches are known, the leader's own numbers are used.

A member of the ISR that did not answer in this cycle has fetched up to the high watermark at least,
by the leader's own word. So a broker that the twin alone cannot reach does not look late. A
follower whose log has diverged from its leader's is not caught up, however long it is
(``diverged``).
"""

from __future__ import annotations

import numpy as np

from twin.arrays.slots import in_slots
from twin.declarations.declare import api_field, gauge, rule
from twin.declarations.signature import Before, Cycle, NowMs
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int64,
    ReplicaTable,
    Rows,
    column,
)
from twin.rules.brokers.lag_limits import LagLimits
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.rules.replication.diverged import DivergedFollowers
from twin.rules.replication.high_watermark import HighWatermarks, HighWatermarkSource
from twin.tables.state import Assignment, FollowerStates, IsrRemovals, Partitions, Replicas


class KnownEnds(ReplicaTable, kind="known_ends", on_demand="stored log ends, and high watermarks"):
    """[P, R] up to where each replica is known to have fetched."""

    end_offset: Int64 = column(
        "its log end, by its own answer or, if that is older than this cycle, by the high watermark"
    )


class SampledCaughtUp(
    ReplicaTable,
    kind="sampled_caught_up",
    on_demand="an intermediate result; what the previous cycle left of it is stored",
):
    """[P, R] when each replica was last known to be caught up, by samples alone."""

    at_ms: Int64 = column("when")


class CaughtUp(ReplicaTable, kind="caught_up", api=""):
    """[P, R] when each replica was last known to be caught up with its leader."""

    caught_up_at_ms: Int64 = column("when it was last known to be caught up")


class InSync(ReplicaTable, kind="in_sync", api=""):
    """[P, R] whether each replica is in sync by Kafka's rule, as computed from observations."""

    in_sync: Int8 = column("caught up by Kafka's rule", tri_state=True)


class Lag(ReplicaTable, kind="lag", api="", on_demand="a difference of two stored offsets"):
    """[P, R] how far each replica is behind its leader."""

    lag_records: Int64 = column(
        "records between its log end and the leader's; of one that does not answer, at most"
    )


@rule
def known_ends(
    replicas: Replicas, roles: Roles, watermarks: HighWatermarks, cycle: Cycle
) -> KnownEnds:
    """The high watermark is a lower bound of the log of each member of the ISR."""
    is_bound = replicas.sampled_at_ms < cycle.observed_at_ms
    if not is_bound.any():
        return KnownEnds(replicas.log_end_offset)
    is_bound &= roles.in_isr & roles.is_assigned
    says_so = watermarks.high_watermark_source == HighWatermarkSource.LEADER
    is_bound &= in_slots(says_so, is_bound.shape[1])
    if not is_bound.any():
        return KnownEnds(replicas.log_end_offset)
    offset = in_slots(watermarks.high_watermark, is_bound.shape[1])
    bound = np.where(is_bound, offset, UNKNOWN)
    return KnownEnds(np.maximum(replicas.log_end_offset, bound))


@rule
def sampled_caught_up(
    replicas: Replicas,
    known: KnownEnds,
    roles: Roles,
    leaders: Leaders,
    previous_end: Before[LeaderEnds],
    before: Before[SampledCaughtUp],
    diverged: DivergedFollowers,
    assignment: Assignment,
) -> SampledCaughtUp:
    """The newest time at which the replica had all records of the leader.

    The leader is caught up whenever it answers. A follower was caught up at the leader's sample of
    this cycle or of the previous one, if its log end reaches that sample; but not later than its
    own last answer, since a dead follower does not fetch. If it has fetched more since than the
    leader had in the previous cycle, it was caught up then, whether it answers or not.
    """
    end = replicas.log_end_offset
    leader_end, leader_at_ms, prev_end, prev_at_ms = (
        in_slots(values, end.shape[1])
        for values in (
            leaders.log_end_offset,
            leaders.sampled_at_ms,
            previous_end.offset,
            previous_end.sampled_at_ms,
        )
    )
    then = (end != UNKNOWN) & (prev_end != UNKNOWN) & (end >= prev_end)
    now = (end != UNKNOWN) & (leader_end != UNKNOWN) & (end >= leader_end)
    heard_at_ms = replicas.sampled_at_ms
    at_ms = np.where(then, np.minimum(prev_at_ms, heard_at_ms), UNKNOWN)
    at_ms = np.maximum(at_ms, np.where(now, np.minimum(leader_at_ms, heard_at_ms), UNKNOWN))
    if known.end_offset is not end:  # a replica did not answer
        fetched = (prev_end != UNKNOWN) & (known.end_offset > end) & (known.end_offset > prev_end)
        at_ms = np.maximum(at_ms, np.where(fetched, prev_at_ms, UNKNOWN))
    at_ms = np.maximum(at_ms, before.at_ms)
    if len(diverged):  # and it was not with this leader
        at_ms = np.where(diverged.slots(assignment), UNKNOWN, at_ms)
    return SampledCaughtUp(np.where(roles.is_leader, replicas.sampled_at_ms, at_ms))


@rule
def caught_up(
    sampled: SampledCaughtUp,
    followers: FollowerStates,
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    cycle: Cycle,
) -> CaughtUp:
    """The leader's own state where the follower's fetches are known, else the samples."""
    if not len(followers):
        return CaughtUp(sampled.at_ms)
    row, slot, states = current(followers, assignment, roles, partitions, cycle)
    at_ms, proven = sampled.at_ms.copy(), states.caught_up_at_ms
    exact = is_exact(states)
    at_ms[row, slot] = np.where(exact, proven, np.maximum(at_ms[row, slot], proven))
    return CaughtUp(at_ms)


@rule
def in_sync(
    caught_up: CaughtUp,
    known: KnownEnds,
    roles: Roles,
    leaders: Leaders,
    limits: LagLimits,
    diverged: DivergedFollowers,
    assignment: Assignment,
    now_ms: NowMs,
) -> InSync:
    """The leader is in sync, and a follower at its log end or caught up recently enough.

    Unknown where the replica was never seen caught up, unless the controller itself has it outside
    the ISR. Source: ReplicaState.isCaughtUp, Kafka 4.3.
    """
    end, slots = known.end_offset, known.end_offset.shape[1]
    leader_end = in_slots(leaders.log_end_offset, slots)
    lag_max_ms = in_slots(limits.lag_time_max_ms, slots)
    at_ms = caught_up.caught_up_at_ms
    judged = (at_ms != UNKNOWN) & (lag_max_ms != UNKNOWN)
    yes = roles.is_leader | ((end != UNKNOWN) & (end == leader_end))
    yes |= judged & (now_ms - at_ms <= lag_max_ms)
    if len(diverged):
        yes &= ~diverged.slots(assignment)
    behind = judged & (leader_end != UNKNOWN)
    no = ~yes & (behind | ~roles.in_isr)
    return InSync(np.where(yes, np.int8(1), np.where(no, np.int8(0), np.int8(UNKNOWN))))


@rule
def lag(
    known: KnownEnds, leaders: Leaders, diverged: DivergedFollowers, assignment: Assignment
) -> Lag:
    """The lag of each replica, unknown where either log end is, and where its log is another."""
    end = known.end_offset
    leader_end = in_slots(leaders.log_end_offset, end.shape[1])
    has_both_ends = (end != UNKNOWN) & (leader_end != UNKNOWN)
    if len(diverged):
        has_both_ends &= ~diverged.slots(assignment)
    return Lag(np.where(has_both_ends, np.maximum(leader_end - end, 0), UNKNOWN))


def tracked(
    followers: FollowerStates, assignment: Assignment, roles: Roles, partitions: Partitions
) -> tuple[Rows, Rows, FollowerStates]:
    """[N] row and slot of the followers whose fetches at the present leader are known."""
    row = followers.row
    if not len(row):
        return row.astype(np.intp), row.astype(np.intp), followers
    slot = assignment.broker[row] == followers.broker[:, None]
    slot &= roles.is_assigned[row] & ~roles.is_leader[row]
    holds = (followers.leader == partitions.leader[row]) & slot.any(axis=1)
    holds &= followers.leader_epoch == partitions.leader_epoch[row]
    return row[holds].astype(np.intp), slot.argmax(axis=1)[holds], followers.pick(holds)


def current(
    followers: FollowerStates,
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    cycle: Cycle,
) -> tuple[Rows, Rows, FollowerStates]:
    """Followers with a fetch since the previous cycle that were seen caught up by fetches.

    If fetches are no longer reported, samples are used. They are also used until a follower was
    seen caught up, since the leader's state before the first fetch is unknown.
    """
    row, slot, states = tracked(followers, assignment, roles, partitions)
    is_current = (states.last_fetch_at_ms >= cycle.prev_observed_at_ms) & (
        states.caught_up_at_ms > 0
    )
    return row[is_current], slot[is_current], states.pick(is_current)


def is_exact(states: FollowerStates) -> Bool:
    """[N] the leader's log end was known at the last fetch; else the state is a lower bound."""
    return states.last_fetch_leader_end_offset != UNKNOWN


# ---------------------------------------------------------------- exported


@gauge("in_sync", "1 if the replica is caught up by Kafka's rule, else 0.", level="replica")
def replica_in_sync(in_sync: InSync) -> Array:
    """The tri-state of each replica as a number."""
    return in_sync.in_sync


@gauge("lag_records", "Records that the replica is behind its leader.", level="replica")
def replica_lag_records(lag: Lag) -> Array:
    """The lag of each replica, unknown where either log end is."""
    return lag.lag_records


@gauge(
    "caught_up_age_seconds",
    "Seconds since the replica was last known to be caught up with its leader.",
    level="replica",
)
def caught_up_age_seconds(caught_up: CaughtUp, now_ms: NowMs) -> Array:
    """The age at the newest cycle."""
    at_ms = caught_up.caught_up_at_ms
    return np.where(at_ms == UNKNOWN, np.nan, np.maximum(now_ms - at_ms, 0) / 1000)


@gauge(
    "caught_up_error_seconds",
    "Largest error of the estimated caught-up times among those that leaders logged in the last 10 "
    "minutes.",
    combine="max",
)
def caught_up_error_seconds(removals: IsrRemovals) -> float:
    """The largest error, NaN where no leader logged one."""
    tracked_ms, logged_ms = removals.tracked_caught_up_at_ms, removals.logged_caught_up_at_ms
    both = (tracked_ms != UNKNOWN) & (logged_ms != UNKNOWN)
    if not both.any():
        return float("nan")
    return float(np.abs(tracked_ms - logged_ms)[both].max()) / 1000


@api_field(
    "caught_up_uncertainty_seconds",
    "largest error of caught_up_at_ms of its replicas; 0 where the leader's own state is known",
)
def caught_up_uncertainty_seconds(
    replicas: Replicas,
    previous_end: Before[LeaderEnds],
    followers: FollowerStates,
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    cycle: Cycle,
) -> list[float | None]:
    """The largest uncertainty over the replicas; null where none is known."""
    uncertainty_ms = caught_up_uncertainty_ms(
        replicas, previous_end, followers, assignment, roles, partitions, cycle
    )
    largest = uncertainty_ms.max(axis=1, initial=UNKNOWN)
    return [None if value == UNKNOWN else value / 1000 for value in largest.tolist()]


def caught_up_uncertainty_ms(
    replicas: Replicas,
    previous_end: Before[LeaderEnds],
    followers: FollowerStates,
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    cycle: Cycle,
) -> Int64:
    """[P, R] by how much ``caught_up_at_ms`` may be too early; 0 where it is the leader's own.

    Otherwise the time since the leader's sample before this cycle, or since the replica's own
    sample if that is older still; UNKNOWN while either has none.
    """
    leader_at_ms = previous_end.sampled_at_ms[:, None]
    has_samples = (leader_at_ms != UNKNOWN) & (replicas.sampled_at_ms != UNKNOWN)
    gap_ms = cycle.observed_at_ms - np.minimum(leader_at_ms, replicas.sampled_at_ms)
    uncertainty = np.where(has_samples, gap_ms, UNKNOWN)
    row, slot, states = current(followers, assignment, roles, partitions, cycle)
    exact = is_exact(states)
    uncertainty[row[exact], slot[exact]] = 0
    return uncertainty
