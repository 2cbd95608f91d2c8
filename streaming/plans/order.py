"""``plan order``: puts warm replicas before cold ones, over all shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from streaming.bus.view import ClusterView
from streaming.plans.plan import (
    Plan,
    PlannedChange,
    changes_of,
    fresh_states,
    undone_lines,
    undone_names,
)
from streaming.questions.answer import broker_or_nobody, listed
from twin.arrays import plain
from twin.declarations.table import NO_BROKER
from twin.engine.shard_state import ShardState
from twin.plans.order import Order, order
from twin.plans.reordering import Obstacle
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Partitions

HEADER = ("partition", "led by", "replicas", "planned", "next leader", "then", "balancing gives")


def plan_order(view: ClusterView, now_ms: int, *, preferred: bool = False) -> Plan:
    """The plan for the whole cluster.

    Raises:
        PlanError: the twin is stale.
    """
    states = fresh_states(view, now_ms)
    orders = [order(state, preferred=preferred) for state in states]
    changes: list[PlannedChange] = []
    rows: list[tuple[str, ...]] = []
    for state, each in zip(states, orders, strict=True):
        them = list(changes_of(state, each.changes))
        changes += them
        rows += [_row(change, each, i) for i, change in enumerate(them)]
    undone = undone_names(zip(states, (each.obstacles for each in orders), strict=True))
    return Plan(
        name="order",
        cluster=states[0].cluster,
        observed_at_ms=view.observed_at_ms,
        changes=tuple(changes),
        lines=tuple(_lines(states, orders, changes, undone)),
        header=HEADER,
        rows=tuple(rows),
        undone=undone,
    )


def _row(change: PlannedChange, those: Order, i: int) -> tuple[str, ...]:
    balanced = int(those.then.balanced[i])
    return (
        str(change),
        broker_or_nobody(change.leader),
        listed(change.replicas),
        listed(change.planned),
        _successor(int(those.now.leader[i]), int(those.now.coverage[i])),
        _successor(int(those.then.leader[i]), int(those.then.coverage[i])),
        "-" if balanced == change.leader else broker_or_nobody(balanced),
    )


def _moved_if_preferred(states: Sequence[ShardState], orders: Sequence[Order]) -> int:
    """Partitions with a cold slot 0 that leader balancing would move once it is warm."""
    moved = 0
    for state, each in zip(states, orders, strict=True):
        if Obstacle.PREFERRED_COLD in each.obstacles:
            other = order(state, preferred=True)
            concerned = np.isin(other.changes.row, each.obstacles[Obstacle.PREFERRED_COLD])
            leader = state[Partitions].leader[other.changes.row]
            moved += int((concerned & (other.then.balanced != leader)).sum())
    return moved


def _successor(leader: int, coverage: int) -> str:
    if leader == NO_BROKER:
        return "nobody"
    return f"{leader}, {str(plain.name(Coverage, coverage)).replace('_', ' ')}"


def _lines(
    states: Sequence[ShardState],
    orders: Sequence[Order],
    changes: Sequence[PlannedChange],
    undone: Mapping[str, Sequence[str]],
) -> list[str]:
    cold = sum(int((each.now.coverage == Coverage.COLD).sum()) for each in orders)
    still = sum(int((each.then.coverage == Coverage.COLD).sum()) for each in orders)
    moved = sum(int((each.then.balanced != each.now.balanced).sum()) for each in orders)
    total = sum(state.partitions for state in states)
    of_all = f"of {plain.counted(total, 'partition')}"
    lines = [
        f"{plain.counted(len(changes), f'{of_all} gets', f'{of_all} get')} another order of the "
        "same replicas; no data moves.",
    ]
    if changes:
        lines.append(
            f"If their leaders were lost, {cold} of them would be led by a cold replica now, and "
            f"{still} with this plan."
        )
    if moved:
        lines.append(
            f"Leader balancing (auto.leader.rebalance.enable), or a preferred election, then gives "
            f"{moved} of them to another leader."
        )
    lines += undone_lines(undone)
    if Obstacle.PREFERRED_COLD.value in undone:
        lines.append(
            f"With --preferred, a warm replica becomes their slot 0, and leader balancing then "
            f"gives {_moved_if_preferred(states, orders)} of them to another leader."
        )
    if not_judged := sum(each.not_judged for each in orders):
        lines.append(
            f"{plain.counted(not_judged, 'partition has', 'partitions have')} no threshold of "
            "KIP-1303 ([eligibility]), so replicas are called neither warm nor cold."
        )
    return lines
