"""Live followers that do not follow their new leader: their logs end beyond the leader's.

A leader from outside the ISR may have less than a replica that could not be elected. Such a replica
truncates as soon as it reaches the leader. One that cannot reach it keeps its longer log, and looks
caught up once the leader's log has grown as long. So by its samples it counts as not caught up
until it is seen to follow: it is in the ISR, it truncates, or its log end moves, since it gets
records from its leader alone.

Whether it has diverged from a leader that ends beyond it, the start of the leader's epoch says
(``truncations``).

Source: Replica.resetReplicaState, Kafka 4.3: a new leader takes no follower outside the ISR to be
caught up before it has fetched.
"""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import UNKNOWN, Bool, Int32, Int64, SparseTable, column
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.tables.state import Assignment, Partitions, Replicas


class DivergedFollowers(SparseTable, kind="diverged_followers"):
    """[N] one row a follower that ended beyond its new leader, and is not seen to follow it."""

    broker: Int32 = column("broker id of the follower")
    since_ms: Int64 = column("when that was first seen")
    end_offset: Int64 = column("its log end by its last answer")

    def slots(self, assignment: Assignment) -> Bool:
        """[P, R] the replica has a row here."""
        mask = np.zeros(assignment.broker.shape, bool)
        if len(self):
            row, slot = np.nonzero(assignment.broker[self.row] == self.broker[:, None])
            mask[self.row[row], slot] = True
        return mask


@rule
def diverged_followers(
    partitions: Partitions,
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    leaders: Leaders,
    previous: Before[LeaderEnds],
    before: Before[DivergedFollowers],
    cycle: Cycle,
) -> DivergedFollowers:
    """Noticed in the first cycle in which the leader of a new epoch and the follower answer."""
    now_ms = cycle.observed_at_ms
    is_new = partitions.leader != previous.leader
    # It may have been elected in an earlier cycle, in which it did not answer.
    is_new |= previous.sampled_at_ms < cycle.prev_observed_at_ms
    is_new &= previous.leader_epoch != UNKNOWN
    candidates = np.flatnonzero(is_new | before.row_mask(len(is_new)))
    candidates = candidates[leaders.sampled_at_ms[candidates] == now_ms]
    end, leader_end = replicas.log_end_offset[candidates], leaders.log_end_offset[candidates]
    outside = roles.is_assigned[candidates] & ~roles.is_leader[candidates]
    outside &= ~roles.in_isr[candidates]
    answers = replicas.sampled_at_ms[candidates] == now_ms
    at, slot = np.nonzero(
        outside & answers & (end > leader_end[:, None]) & is_new[candidates, None]
    )
    row = candidates[at]
    news = DivergedFollowers(
        row=row.astype(np.int32),
        broker=assignment.broker[row, slot],
        since_ms=np.full(len(row), now_ms),
        end_offset=replicas.log_end_offset[row, slot],
    )
    kept = before.pick(_stays(before, assignment, replicas, roles, leaders, now_ms))
    same = np.isin(keys.pack(kept.row, kept.broker), keys.pack(news.row, news.broker))
    return kept.pick(~same).with_rows(news)


def _stays(
    before: DivergedFollowers, assignment: Assignment, replicas: Replicas, roles: Roles,
    leaders: Leaders, now_ms: int,
) -> Bool:  # fmt: skip
    """[N] the follower is still one, and is not seen to follow."""
    match = (assignment.broker[before.row] == before.broker[:, None]) & roles.is_assigned[
        before.row
    ]
    match &= ~roles.is_leader[before.row] & ~roles.in_isr[before.row]
    slot = match.argmax(axis=1)
    end = replicas.log_end_offset[before.row, slot]
    both = replicas.sampled_at_ms[before.row, slot] == now_ms
    both &= leaders.sampled_at_ms[before.row] == now_ms
    moves = (end != before.end_offset) & (end <= leaders.log_end_offset[before.row])
    stays: Bool = match.any(axis=1) & ~(both & (moves | (end < before.end_offset)))
    return stays
