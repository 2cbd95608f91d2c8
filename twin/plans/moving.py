"""Which partitions may be moved now."""

from __future__ import annotations

from collections.abc import Mapping

from twin.arrays.slots import any_slot
from twin.declarations.table import Bool
from twin.engine.shard_state import ShardState
from twin.plans.reordering import Obstacle, has_answered, is_described, is_reassigning
from twin.rules.partitions.leaders import Roles


def obstacles(state: ShardState) -> Mapping[Obstacle, Bool]:
    """[P] the partitions that each obstacle keeps where they are."""
    lags = state[Roles].is_assigned & ~(state[Roles].in_isr & has_answered(state))
    return {
        Obstacle.NOT_DESCRIBED: ~is_described(state),
        Obstacle.REASSIGNING: is_reassigning(state),
        Obstacle.NOT_IN_SYNC: any_slot(lags),
    }
