"""When the original order of a partition may be restored."""

from __future__ import annotations

import numpy as np

from twin.declarations.table import Bool
from twin.engine.shard_state import ShardState
from twin.plans.reordering import is_described, is_reassigning, is_warm
from twin.rules.partitions.leaders import Roles


def is_all_warm(state: ShardState) -> Bool:
    """[P] every replica is warm and in sync, so by KIP-1303 every order is equally good."""
    assigned = state[Roles].is_assigned
    warm: Bool = np.logical_and.reduce(is_warm(state) | ~assigned, axis=1)
    return warm & is_described(state) & ~is_reassigning(state)
