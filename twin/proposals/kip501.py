"""The effect of KIP-501: replicas stay in sync although their leader is slow.

Its solution 1 keeps a follower whose fetch the leader still works on. Its solution 2 moves a leader
that takes too long over a fetch to the end of the ISR, so that the next live member leads. No Kafka
version has either, and no API reports a fetch before it is answered. What cannot be observed is
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from twin.declarations.declare import gauge, rule
from twin.declarations.signature import Before, NowMs
from twin.declarations.table import (
    UNKNOWN,
    Bool,
    Int8,
    Int64,
    ReplicaTable,
    Rows,
    column,
)
from twin.kafka.follower_state import (
    ReplicaState,
    is_caught_up,
    is_caught_up_pending,
)
from twin.rules.brokers.lag_limits import LagLimits
from twin.rules.election.ballots import in_isr
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import Evidence
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.rules.replication.caught_up import InSync, tracked
from twin.tables.state import Assignment, FollowerStates, Partitions, Replicas

_WHY = "a function of stored follower states"


class InSyncKip501(ReplicaTable, kind="in_sync_kip501", api="", on_demand=_WHY):
    """[P, R] whether each replica is in sync by solution 1 of KIP-501."""

    in_sync_kip501: Int8 = column("in sync by solution 1 of KIP-501", tri_state=True)


@rule
def in_sync_kip501(
    in_sync: InSync,
    roles: Roles,
    limits: LagLimits,
    followers: FollowerStates,
    assignment: Assignment,
    partitions: Partitions,
    replicas: Replicas,
    leaders: Leaders,
    previous: Before[LeaderEnds],
    now_ms: NowMs,
) -> InSyncKip501:
    """A replica is in sync by Kafka's rule, or by the time when the leader had answered its fetch.

    A replica that is not in sync by either rule is UNKNOWN if its log end reaches the leader's log
    end at its previous fetch, since a fetch that is still pending may keep it; otherwise, or if it
    is offline, it is out of sync. A follower whose fetches are not known is UNKNOWN too.
    """
    is_in_sync = np.where(in_sync.in_sync == 1, 1, UNKNOWN).astype(np.int8)
    gone = roles.is_offline & roles.is_assigned & ~roles.is_leader
    is_in_sync[gone & (is_in_sync != 1)] = 0
    row, slot, states = tracked(followers, assignment, roles, partitions)
    has_limit = limits.lag_time_max_ms[row] != UNKNOWN
    row, slot, states = row[has_limit], slot[has_limit], states.pick(has_limit)
    if not len(row):
        return InSyncKip501(is_in_sync)
    state = ReplicaState(
        log_start_offset=states.log_start_offset,
        log_end_offset=states.log_end_offset,
        last_fetch_leader_end_offset=_leader_end(previous, row, states),
        last_fetch_at_ms=states.last_fetch_at_ms,
        caught_up_at_ms=states.caught_up_solution_1_at_ms,
    )
    leader_end = leaders.log_end_offset[row]
    now, limit = np.full(len(row), now_ms), limits.lag_time_max_ms[row]
    caught_up = is_caught_up(state, leader_end, now, limit)
    asks_for = replicas.log_end_offset[row, slot]
    may_wait = is_caught_up_pending(state, asks_for, leader_end, now, limit)
    has_offsets = (asks_for != UNKNOWN) & (state.last_fetch_leader_end_offset != UNKNOWN)
    by_fetches = np.where(caught_up, 1, np.where(~may_wait & has_offsets, 0, UNKNOWN))
    is_in_sync[row, slot] = np.where(
        is_in_sync[row, slot] == UNKNOWN, by_fetches, is_in_sync[row, slot]
    )
    return InSyncKip501(is_in_sync)


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


_BY_CONTROLLER: Final = np.int32(Evidence.FOLLOWER_OFFLINE | Evidence.WAS_LEADER)


def would_have_stayed(shrinks: IsrShrinks) -> Int8:
    """[N] solution 1 would have kept the replica (tri-state).

    A pending fetch that asked for all records would have kept it. Only the leader looks at fetches,
    so nothing keeps a replica whose broker is fenced, or a leader that handed over: the controller
    takes these out of the ISR.

    Source: KIP-501; ReplicationControlManager.handleBrokerFenced and
    handleBrokerInControlledShutdown, Kafka 4.3.
    """
    pending = shrinks.fetch_was_pending
    by_controller = (shrinks.evidence & _BY_CONTROLLER) != 0
    return np.where(by_controller & (pending == UNKNOWN), 0, pending).astype(np.int8)


def kept_isr(
    roles: Roles, assignment: Assignment, shrinks: IsrShrinks, now_in_sync: InSyncKip501
) -> Bool:
    """[P, R] the ISR, and replicas that left it in the last minutes and would have stayed.

    A replica whose pending fetch is not known, or that is known to be out of sync now, is not in
    sync by solution 1 either.
    """
    members = in_isr(roles)
    left = shrinks.pick((would_have_stayed(shrinks) == 1) & (shrinks.rejoined_at_ms == UNKNOWN))
    if len(left):
        at, slot = np.nonzero(assignment.broker[left.row] == left.broker[:, None])
        row = left.row[at]
        members[row, slot] |= roles.is_assigned[row, slot] & (
            now_in_sync.in_sync_kip501[row, slot] != 0
        )
    return members


# ---------------------------------------------------------------- exported


@gauge(
    "isr_shrinks_preventable",
    "Replicas that left an ISR in the last 10 minutes, by whether solution 1 of KIP-501 would have "
    "kept them: yes, no, unknown.",
    labels=("would_have_stayed",),
)
def isr_shrinks_preventable(shrinks: IsrShrinks) -> Mapping[tuple[str], int]:
    """The recent shrinks by verdict, known without a tap if the controller removed the replica."""
    stayed = would_have_stayed(shrinks)
    return {
        (name,): int((stayed == value).sum())
        for name, value in (("yes", 1), ("no", 0), ("unknown", UNKNOWN))
    }
