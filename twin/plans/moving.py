"""Which partitions may be moved now, and what a new replica of them copies."""

from __future__ import annotations

from collections.abc import Mapping

from twin.arrays.slots import any_slot
from twin.declarations.table import Bool, Float64
from twin.engine.state import ShardState
from twin.plans.reordering import Obstacle, has_answered, is_described, is_reassigning
from twin.rules.partitions.leaders import Roles
from twin.rules.tiering.bootstrap import BootstrapOff, BootstrapOn
from twin.tables.state import Configs


def obstacles(state: ShardState) -> Mapping[Obstacle, Bool]:
    """[P] the partitions that each obstacle keeps where they are."""
    lags = state[Roles].is_assigned & ~(state[Roles].in_isr & has_answered(state))
    return {
        Obstacle.NOT_DESCRIBED: ~is_described(state),
        Obstacle.REASSIGNING: is_reassigning(state),
        Obstacle.NOT_IN_SYNC: any_slot(lags),
    }


def copied_bytes(state: ShardState) -> Float64:
    """[P] bytes that a new replica copies, NaN where that is unknown.

    With KIP-1023 only if it is on for the whole cluster.
    """
    if state[Configs].cluster_wide("last_tiered_fetch") == 1:
        return state[BootstrapOn].bytes_estimate
    return state[BootstrapOff].bytes_estimate
