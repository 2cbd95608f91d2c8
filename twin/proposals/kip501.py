"""The effect of KIP-501: replicas stay in sync although their leader is slow.

Its solution 1 keeps a follower whose fetch the leader still works on. Its solution 2 moves a leader
that takes too long over a fetch to the end of the ISR, so that the next live member leads. No Kafka
has either, and no API reports a fetch before it is answered: what cannot be observed is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twin import keys, plain
from twin.declare import api_field, gauge, rule
from twin.rules.coverage import Coverage, ReplicaCoverage
from twin.rules.follower_state import (
    SLOW_FETCH_KEPT_MS,
    ReplicaState,
    is_caught_up,
    is_caught_up_pending,
)
from twin.rules.isr_shrinks import IsrShrinks
from twin.rules.leaders import IsrMembers, LeaderEnds, Leaders, Roles
from twin.rules.next_leader import Candidates
from twin.rules.replication import InSync, tracked
from twin.signature import Before, Cycle, Latest, NowMs
from twin.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    Int64,
    PartitionTable,
    ReplicaTable,
    Rows,
    SparseTable,
    column,
)
from twin.tables.state import Assignment, Configs, FollowerStates, Partitions, Replicas

_WHY = "a function of stored follower states"


class InSyncKip501(ReplicaTable, kind="in_sync_kip501", api="", on_demand=_WHY):
    """[P, R] whether each replica is in sync by solution 1 of KIP-501."""

    in_sync_kip501: Int8 = column("in sync by solution 1 of KIP-501", tri_state=True)


class NextLeaderKip501(
    PartitionTable, kind="next_leader_kip501", api="next_leader_kip501", on_demand=_WHY
):
    """[P] to whom a slow leader would hand over now by solution 2 of KIP-501."""

    leader: Int32 = column("broker id, null where the leader stays", fill=NO_BROKER)
    is_cold: Int8 = column("that replica holds too little local log", tri_state=True)


class Kip501Handovers(SparseTable, kind="kip501_handovers"):
    """[N] who would lead by solution 2 of KIP-501, for each row of isr_shrinks."""

    broker: Int32 = column("broker id of the replica that left the ISR")
    at_ms: Int64 = column("when that was observed")
    next_leader: Int32 = column("who would lead, -1 for nobody", fill=NO_BROKER)
    next_leader_cold: Int8 = column("that replica holds too little local log", tri_state=True)


@rule
def in_sync_kip501(
    in_sync: InSync,
    roles: Roles,
    configs: Configs,
    followers: FollowerStates,
    assignment: Assignment,
    partitions: Partitions,
    replicas: Replicas,
    leaders: Leaders,
    previous: Before[LeaderEnds],
    now_ms: NowMs,
) -> InSyncKip501:
    """In sync by Kafka's rule, or as of when the leader had answered its fetch.

    A replica that is not in sync by either rule is UNKNOWN if its log end reaches the leader's log
    end at its previous fetch, since a fetch that is still pending may keep it; otherwise, or if it
    is offline, it is out of sync. A follower whose fetches are not known is UNKNOWN too.
    """
    is_in_sync = np.where(in_sync.in_sync == 1, 1, UNKNOWN).astype(np.int8)
    gone = roles.is_offline & roles.is_assigned & ~roles.is_leader
    is_in_sync[gone & (is_in_sync != 1)] = 0
    lag_max_ms = configs.cluster_wide("replica_lag_time_max_ms")
    row, slot, states = tracked(followers, assignment, roles, partitions)
    if lag_max_ms == UNKNOWN or not len(row):
        return InSyncKip501(is_in_sync)
    state = ReplicaState(
        log_start_offset=states.log_start_offset,
        log_end_offset=states.log_end_offset,
        last_fetch_leader_end_offset=_leader_end(previous, row, states),
        last_fetch_at_ms=states.last_fetch_at_ms,
        caught_up_at_ms=states.caught_up_solution_1_at_ms,
    )
    leader_end = leaders.log_end_offset[row]
    now, limit = np.full(len(row), now_ms), np.full(len(row), lag_max_ms)
    caught_up = is_caught_up(state, leader_end, now, limit)
    asks_for = replicas.log_end_offset[row, slot]
    may_wait = is_caught_up_pending(state, asks_for, leader_end, now, limit)
    has_offsets = (asks_for != UNKNOWN) & (state.last_fetch_leader_end_offset != UNKNOWN)
    by_fetches = np.where(caught_up, 1, np.where(~may_wait & has_offsets, 0, UNKNOWN))
    is_in_sync[row, slot] = np.where(
        is_in_sync[row, slot] == UNKNOWN, by_fetches, is_in_sync[row, slot]
    )
    return InSyncKip501(is_in_sync)


@rule
def next_leader_kip501(
    configs: Configs,
    followers: FollowerStates,
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    candidates: Candidates,
    coverage: ReplicaCoverage,
    cycle: Cycle,
) -> NextLeaderKip501:
    """A leader is too slow that worked longer than replica.lag.time.max.ms on a recent fetch."""
    count = len(partitions.leader)
    to, cold = np.full(count, NO_BROKER, np.int32), np.full(count, UNKNOWN, np.int8)
    lag_max_ms = configs.cluster_wide("replica_lag_time_max_ms")
    rows, _, states = tracked(followers, assignment, roles, partitions)
    if lag_max_ms == UNKNOWN or not len(rows):
        return NextLeaderKip501(to, cold)
    took_ms = states.slow_completed_at_ms - states.slow_arrived_at_ms
    recent = cycle.observed_at_ms - states.slow_completed_at_ms <= SLOW_FETCH_KEPT_MS
    row = np.unique(rows[recent & (took_ms > lag_max_ms)])
    if len(row):
        to[row], cold[row] = _next_member(
            row, roles.in_isr, partitions.leader, assignment, candidates, coverage
        )
    return NextLeaderKip501(to, cold)


@rule
def kip501_handovers(
    shrinks: IsrShrinks,
    latest: Latest[Kip501Handovers],
    was_member: Before[IsrMembers],
    previous: Before[LeaderEnds],
    assignment: Assignment,
    candidates: Candidates,
    coverage: ReplicaCoverage,
    cycle: Cycle,
) -> Kip501Handovers:
    """Judged when a shrink is first observed, and kept as long as that."""
    if not len(shrinks):
        return Kip501Handovers.empty()
    to, cold = _next_member(
        shrinks.row, was_member.in_isr, previous.leader, assignment, candidates, coverage
    )
    here, there = keys.pairs(
        keys.pack(shrinks.row, shrinks.broker), keys.pack(latest.row, latest.broker)
    )
    # Those that a poll observed in this very cycle are judged anew with each of its frames.
    polled_now = (shrinks.at_ms == cycle.observed_at_ms) & (shrinks.at_ms != shrinks.logged_at_ms)
    same = (shrinks.at_ms[here] == latest.at_ms[there]) & ~polled_now[here]
    here, there = here[same], there[same]
    to[here], cold[here] = latest.next_leader[there], latest.next_leader_cold[there]
    return Kip501Handovers(shrinks.row, shrinks.broker, shrinks.at_ms, to, cold)


def _leader_end(previous: LeaderEnds, row: Rows, states: FollowerStates) -> Int64:
    """[N] the leader's log end at the last fetch: as logged, as estimated, or a lower bound.

    The bound is the leader's sample of the previous cycle, if that was taken before the fetch.
    """
    at_ms = previous.sampled_at_ms[row]
    sampled = (at_ms != UNKNOWN) & (at_ms <= states.last_fetch_at_ms)
    bound = np.where(sampled, previous.offset[row], UNKNOWN)
    estimate = states.last_fetch_leader_end_estimate_offset
    end = np.where(estimate != UNKNOWN, estimate, bound)
    logged = states.last_fetch_leader_end_offset
    return np.where(logged != UNKNOWN, logged, end)


def _next_member(
    row: Array, members: Bool, leader: Int32, assignment: Assignment, candidates: Candidates,
    coverage: ReplicaCoverage,
) -> tuple[Int32, Int8]:  # fmt: skip
    """[N] of those rows, the first live member of the ISR that does not lead, and is it cold.

    Args:
        row: [N] partitions.
        members: [P, R] the ISR.
        leader: [P] who hands over.
    """
    brokers = assignment.broker[row]
    able = members[row] & (brokers != leader[row][:, None]) & candidates.is_acceptable[row]
    slot, any_able, at = able.argmax(axis=1), able.any(axis=1), np.arange(len(row))
    to = np.where(any_able, brokers[at, slot], NO_BROKER)
    covered = coverage.coverage[row][at, slot]
    is_judged = any_able & np.isin(covered, (Coverage.WARM, Coverage.COLD))
    cold = np.where(is_judged, covered == Coverage.COLD, UNKNOWN)
    return to.astype(np.int32), cold.astype(np.int8)


# ---------------------------------------------------------------- exported


@gauge(
    "isr_shrinks_preventable",
    "Replicas that left an ISR in the last 10 minutes, by whether solution 1 of KIP-501 would have "
    "kept them: yes, no, unknown.",
    labels=("would_have_stayed",),
)
def isr_shrinks_preventable(shrinks: IsrShrinks) -> Mapping[tuple[str], int]:
    """A pending fetch that asked for all records would have kept it."""
    return {
        (name,): int((shrinks.fetch_was_pending == value).sum())
        for name, value in (("yes", 1), ("no", 0), ("unknown", UNKNOWN))
    }


@api_field(
    "kip501",
    "for each entry of `isr_shrinks`, in the same order: whether solution 1 of KIP-501 would have "
    "kept the replica (`would_have_stayed`), who would have led by solution 2 (`next_leader`, null "
    "for nobody) and whether that replica is cold (`next_leader_cold`)",
)
def kip501_field(
    shrinks: IsrShrinks, handovers: Kip501Handovers, partitions: Partitions
) -> list[list[dict[str, Any]]]:
    """A list for each partition."""
    objects = (
        {
            "would_have_stayed": plain.yes_or_no(shrinks.fetch_was_pending[i]),
            "next_leader": plain.integer(handovers.next_leader[i]),
            "next_leader_cold": plain.yes_or_no(handovers.next_leader_cold[i]),
        }
        for i in range(len(handovers))
    )
    return plain.by_partition(handovers.row, objects, len(partitions.leader))
