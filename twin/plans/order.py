"""Orders of replicas with warm ones before cold ones: the effect of KIP-1303 on any Kafka.

Kafka elects the first replica of the assignment that is in sync. Behind slot 0, replicas that are
in sync and warm are put before cold ones. Slot 0 is the preferred leader: leader balancing moves
leadership to it, so it keeps its place unless ``preferred`` is set.

Replicas with unknown values keep their places, and so do those that are warm but not in sync. All
others keep their relative order, so a plan for the planned state is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twin.declarations.table import NO_BROKER, Bool, Int8, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.kafka.election import ElectionKind, elect
from twin.plans.reordering import (
    Obstacle,
    Reordering,
    has_answered,
    is_described,
    is_reassigning,
    is_warm,
    reordering,
    sorted_within,
)
from twin.questions.whatif import electorate_of
from twin.rules.election.next_leader import (
    coverage_of,
    hold_election,
    state_as_it_is,
    state_without,
)
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import holds_unclean_elections
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage, is_cold
from twin.tables.state import Partitions


@dataclass(frozen=True, slots=True)
class Successors:
    """[N] the leader after a loss of the present one, and after leader balancing."""

    leader: Int32
    coverage: Int8
    balanced: Int32

    def take(self, row: Rows) -> Successors:
        """The successors of some rows."""
        return Successors(self.leader[row], self.coverage[row], self.balanced[row])


@dataclass(frozen=True, slots=True)
class Order:
    """A plan for the orders of one shard: what changes, and which partitions it cannot help."""

    changes: Reordering
    now: Successors  # [N]
    then: Successors  # [N]
    obstacles: Mapping[Obstacle, Rows]
    not_judged: int  # partitions without a threshold: none of their replicas is called cold


def order(state: ShardState, *, preferred: bool = False) -> Order:
    """Put warm replicas before cold ones, behind slot 0 or (``preferred``) everywhere."""
    cold = is_cold(state[ReplicaCoverage], state[Roles])
    movable = (is_warm(state) | (cold & has_answered(state))) & _may_change(state)[:, None]
    if not preferred:
        movable[:, 0] = False
    slot = sorted_within(movable, cold.astype(np.int64))
    changes = reordering(state, slot)
    now, then = (_successors(state, each) for each in (_as_it_is(slot), slot))
    judged = state[ReplicaCoverage].coverage != Coverage.NOT_JUDGED
    return Order(
        changes=changes,
        now=now.take(changes.row),
        then=then.take(changes.row),
        obstacles=_obstacles(state, then, cold, preferred=preferred),
        not_judged=int((~(judged & state[Roles].is_assigned).any(axis=1)).sum()),
    )


def _may_change(state: ShardState) -> Bool:
    """[P] described, and not under reassignment."""
    return is_described(state) & ~is_reassigning(state)


def _as_it_is(slot: Int64) -> Int64:
    return np.broadcast_to(np.arange(slot.shape[1]), slot.shape)


def _successors(state: ShardState, slot: Int64) -> Successors:
    """[P] the successors by Kafka's rule, if the slots were in this order."""
    electorate, preference = electorate_of(state), slot.astype(np.int16)
    after_loss = state_without(electorate, electorate.roles.is_leader)
    unclean = holds_unclean_elections(electorate.topic_configs)
    leader, _ = hold_election(after_loss, unclean, preference)
    balanced, _ = elect(state_as_it_is(electorate), ElectionKind.PREFERRED, preference)
    return Successors(leader, coverage_of(leader, electorate), balanced)


def _obstacles(
    state: ShardState, then: Successors, cold: Bool, *, preferred: bool
) -> dict[Obstacle, Rows]:
    """Partitions that have or would get a cold leader, by the reason why the plan does not help."""
    roles, described = state[Roles], is_described(state)
    has_leader = state[Partitions].leader != NO_BROKER
    leader_cold = state[Leaders].values_of(state[ReplicaCoverage].coverage) == Coverage.COLD
    suffers = described & has_leader & ((then.coverage == Coverage.COLD) | leader_cold)
    reassigning = is_reassigning(state) & suffers
    suffers &= ~reassigning
    has_warm = (is_warm(state) & ~roles.is_leader).any(axis=1)
    silent = suffers & (roles.in_isr & cold & ~has_answered(state)).any(axis=1)
    others = suffers & ~silent & has_warm
    masks = {
        Obstacle.NOT_DESCRIBED: ~described,
        Obstacle.REASSIGNING: reassigning,
        Obstacle.PREFERRED_COLD: others & cold[:, 0] & (not preferred),
        Obstacle.LED_COLD: others & leader_cold & ~cold[:, 0],
        Obstacle.SILENT: silent,
        Obstacle.NO_WARM: suffers & ~silent & ~has_warm,
    }
    return {why: np.flatnonzero(mask) for why, mask in masks.items() if mask.any()}
