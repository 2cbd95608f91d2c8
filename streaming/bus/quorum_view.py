"""What a view knows of the controllers."""

from __future__ import annotations

from collections.abc import Collection

from streaming.bus.view import ClusterView
from twin.cluster_rules.silent_quorum import SilentQuorum
from twin.declarations.table import UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.questions.quorum import elects_without, newest_quorum
from twin.rules.brokers.brokers import is_silent
from twin.tables.state import Brokers


def silent_since_ms(view: ClusterView) -> int:
    """When the controllers answered last, while that is an open risk; else UNKNOWN."""
    if view.cluster is None or not view.cluster[ClusterRisks].brokers("quorum_lost"):
        return UNKNOWN
    return int(view.cluster[SilentQuorum].silent_since_ms.max(initial=UNKNOWN))


def elects(view: ClusterView, gone: Collection[int]) -> bool | None:
    """Whether controllers elect leaders without those brokers and those that are silent now."""
    if view.newest is None:
        return None
    if silent_since_ms(view) != UNKNOWN:
        return False
    brokers = view.newest[Brokers]
    silent = brokers.broker[is_silent(brokers, view.newest.observed_at_ms)].tolist()
    return elects_without(newest_quorum(view.states), {*gone, *silent})
