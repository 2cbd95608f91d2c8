"""Move the leaderships of a broker to other brokers: before a restart, or while it is slow.

KIP-501 lets a slow leader resign (solution 2). A new order of replicas does the same by hand:
the new leader becomes the preferred replica, the broker the last one, and a preferred election
moves the leadership. The effect lasts until the order is restored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.plans.reordering import (
    Obstacle,
    Reordering,
    could_lead,
    is_described,
    is_reassigning,
    reordering,
    sorted_within,
)
from twin.rules.brokers.racks import racks_of
from twin.rules.partitions.leaders import Roles
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.state import Assignment, Brokers, Partitions


@dataclass(frozen=True, slots=True)
class Demotion:
    """A plan for one shard: new orders, new leaders, and the partitions that stay."""

    changes: Reordering
    elect: Int32  # [N] the leader that a preferred election should elect
    obstacles: Mapping[Obstacle, Rows]
    leaders: Int64  # [B] partitions that each broker leads afterwards, in all shards


def leaders_of(state: ShardState, brokers: Int32) -> Int64:
    """[B] how many partitions of the shard each broker leads."""
    return _counted(state[Partitions].leader, brokers)


def demote(
    state: ShardState, broker: int, leaders: Int64, spared: Collection[int] = ()
) -> Demotion:
    """Give the broker's leaderships to warm replicas in sync, so that leaders are spread evenly.

    Partitions that it does not lead are included if it is their preferred replica, since leader
    balancing would give them back to it.

    Args:
        state: the state of one shard.
        broker: the broker that should not lead.
        leaders: [B] partitions that each of the state's brokers leads, in all shards.
        spared: brokers that get no leadership which another one can have.
    """
    brokers, assignment = state[Brokers], state[Assignment].broker
    leads = state[Partitions].leader == broker
    concerned = is_described(state) & (leads | (assignment[:, 0] == broker))
    moving = is_reassigning(state)
    candidates = _candidates(state, broker, spared) & (concerned & ~moving)[:, None]
    has_candidate = np.logical_or.reduce(candidates, axis=1)
    row = np.flatnonzero(has_candidate)
    freed = leaders - _counted(state[Partitions].leader[row], brokers.broker)
    slot, spread = _spread(brokers, assignment[row], candidates[row], freed)
    rank = np.ones(assignment.shape, np.int64)
    rank[assignment == broker] = 2
    rank[row, slot] = 0
    movable = has_candidate[:, None] & state[Roles].is_assigned
    changes = reordering(state, sorted_within(movable, rank), row)
    obstacles = {
        Obstacle.REASSIGNING: concerned & moving,
        Obstacle.NO_WARM: concerned & ~moving & ~has_candidate,
    }
    return Demotion(
        changes=changes,
        elect=changes.after[:, 0],
        obstacles={why: np.flatnonzero(mask) for why, mask in obstacles.items() if mask.any()},
        leaders=spread,
    )


def _candidates(state: ShardState, broker: int, spared: Collection[int]) -> Bool:
    """[P, R] replicas that could lead: warm or not judged; a leader elsewhere stays."""
    coverage = state[ReplicaCoverage].coverage
    able: Bool = could_lead(state) & (state[Assignment].broker != broker)
    able &= (coverage == Coverage.WARM) | (coverage == Coverage.NOT_JUDGED)
    leads = able & state[Roles].is_leader
    stays = np.logical_or.reduce(leads, axis=1)
    able = np.where(stays[:, None], leads, able)
    if spared:
        others = able & ~np.isin(state[Assignment].broker, list(spared))
        able = np.where(
            np.logical_or.reduce(others, axis=1)[:, None] & ~stays[:, None], others, able
        )
    return able


def _spread(
    brokers: Brokers, holders: Int32, candidates: Bool, leaders: Int64
) -> tuple[Int64, Int64]:
    """[N] the slot of the leader of each row, and [B] how many partitions each broker then leads.

    Leaders move from one broker to another as long as that lowers the sum of squares of leaders by
    broker and by rack. Each move takes the number of leaders that lowers the sum most, so the loop
    ends.
    """
    ids, here = brokers.broker, np.arange(len(holders))
    slot, leader_counts = candidates.argmax(axis=1), leaders.copy()
    if not len(holders):
        return slot, leader_counts
    place = np.searchsorted(ids, np.where(candidates, holders, ids[0]))
    leader_counts += np.bincount(place[here, slot], minlength=len(ids))
    row, to = np.nonzero(candidates)
    rack = racks_of(brokers, ids)
    apart = (rack[:, None] != rack) & (rack != UNKNOWN) & (rack != UNKNOWN)[:, None]
    while True:
        gap = leader_counts[:, None] - leader_counts
        in_rack = (rack[:, None] == rack) @ leader_counts
        gap = gap + np.where(apart, in_rack[:, None] - in_rack, 0)
        # This number of moves lowers the sum of squares most.
        best = np.where(apart, (gap + 1) // 4, gap // 2)
        source, target = place[row, slot[row]], place[row, to]
        movable = np.zeros(gap.shape, bool)
        movable[source, target] = True
        gain = np.where(movable & (best > 0), gap, 0)
        a, b = np.unravel_index(gain.argmax(), gain.shape)
        if gain[a, b] == 0:
            return slot, leader_counts
        moved = np.flatnonzero((source == a) & (target == b))[: best[a, b]]
        slot[row[moved]] = to[moved]
        leader_counts[a] -= len(moved)
        leader_counts[b] += len(moved)


def _counted(leader: Array, brokers: Int32) -> Int64:
    known_leaders = leader[leader != NO_BROKER]
    place = np.searchsorted(brokers, known_leaders)
    is_listed = np.isin(known_leaders, brokers)
    return np.bincount(place[is_listed], minlength=len(brokers)).astype(np.int64)
