"""The controller quorum: what is known of it now, and whether it elects without some nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from twin.cluster_rules.controllers import OLD_AFTER_MS
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.state import ShardState
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


def elects_without(quorum: ControllerQuorum, nodes: Collection[int]) -> bool | None:
    """Whether a majority of the voters is left without those nodes; None if that is unknown.

    A cluster with ZooKeeper (the only row has no node) elects without any broker.
    """
    if not len(quorum.node):
        return None
    voters = quorum.node[quorum.node != NO_BROKER]
    left = int((~np.isin(voters, list(nodes))).sum())
    return not len(voters) or left > len(voters) // 2
