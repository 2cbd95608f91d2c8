"""The controller quorum: what is known of it now, and whether it elects without some nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from twin.cluster_rules.controllers import CAUGHT_UP_WITHIN_MS, OLD_AFTER_MS
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool
from twin.engine.shard_state import ShardState
from twin.tables.state import ControllerQuorum


def newest_quorum(states: Iterable[ShardState]) -> ControllerQuorum:
    """The controller quorum as it was observed last; no rows if that is long ago."""
    listed = list(states)
    newest = max(
        (state[ControllerQuorum] for state in listed),
        key=lambda quorum: int(quorum.observed_at_ms.max(initial=UNKNOWN)),
        default=ControllerQuorum.empty(),
    )
    now_ms = max((state.observed_at_ms for state in listed), default=UNKNOWN)
    age_ms = now_ms - int(newest.observed_at_ms.max(initial=UNKNOWN))
    return ControllerQuorum.empty() if age_ms > OLD_AFTER_MS else newest


def behind(quorum: ControllerQuorum) -> Bool | None:
    """[K] voters that are away or behind, so that no majority is made with them; None if unknown.

    One that has not caught up since the active controller was elected has no time.
    """
    caught_up = quorum.caught_up_at_ms
    newest_ms = caught_up[quorum.is_active].max(initial=UNKNOWN)
    if newest_ms == UNKNOWN:
        return None
    is_behind: Bool = newest_ms - caught_up > CAUGHT_UP_WITHIN_MS
    return is_behind


def elects_without(quorum: ControllerQuorum, nodes: Collection[int]) -> bool | None:
    """Whether a majority of the voters is left without those nodes; None if that is unknown.

    Voters that are away or behind already count as lost too, also those that are no brokers.
    A cluster with ZooKeeper (the only row has no node) elects without any broker.
    """
    if not len(quorum.node):
        return None
    voters = quorum.node[quorum.node != NO_BROKER]
    is_behind = behind(quorum)
    away = [] if is_behind is None else quorum.node[is_behind].tolist()
    left = int((~np.isin(voters, [*nodes, *away])).sum())
    return not len(voters) or left > len(voters) // 2
