"""``plan demote``: moves the leaderships of a broker to others, over all shards."""

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
from streaming.questions.answer import broker_or_nobody, brokers_of, check_broker, listed
from twin.arrays.plain import counted
from twin.declarations.table import Int32, Int64
from twin.engine.shard_state import ShardState
from twin.plans.demote import Demotion, demote, leaders_of
from twin.questions.load import above_capacity_after_moves, peaks_of, text_of_share
from twin.rules.load.peaks import CarriedPeaks
from twin.tables.state import Brokers

HEADER = ("partition", "led by", "replicas", "planned", "then led by")


def plan_demote(view: ClusterView, now_ms: int, broker: int) -> Plan:
    """The plan for the whole cluster.

    Raises:
        PlanError: the twin is stale.
        WhatIfError: there is no such broker.
    """
    states = fresh_states(view, now_ms)
    check_broker(broker, brokers_of(states))
    ids = np.array(brokers_of(states), np.int32)
    leaders = sum((leaders_of(state, ids) for state in states), np.zeros(len(ids), np.int64))
    led_before = leaders
    demotions, leaders, above = _spread(states, broker, ids, led_before, peaks_of(view.cluster))
    changes: list[PlannedChange] = []
    for state, each in zip(states, demotions, strict=True):
        changes += changes_of(state, each.changes, each.elect.tolist())
    undone = undone_names(zip(states, (each.obstacles for each in demotions), strict=True))
    return Plan(
        name="demote",
        cluster=states[0].cluster,
        observed_at_ms=view.observed_at_ms,
        changes=tuple(changes),
        lines=(
            *_lines(broker, changes),
            _leaders_line(ids, led_before, leaders),
            *_capacity_lines(above),
            *undone_lines(undone),
        ),
        header=HEADER,
        rows=tuple(map(_row, changes)),
        undone=undone,
    )


def _spread(
    states: Sequence[ShardState], broker: int, ids: Int32, led_before: Int64, peaks: CarriedPeaks
) -> tuple[list[Demotion], Int64, Mapping[int, float]]:
    """The demotions, leaders by broker then, and the brokers that would be above their capacity.

    The broker that would carry most of its capacity is spared, then the next one, while others can
    lead instead without being above theirs.
    """
    spared: list[int] = []
    tried: list[tuple[list[Demotion], Int64, Mapping[int, float]]] = []
    while True:
        demotions, leaders = [], led_before
        for state in states:  # each shard evens out the ones before
            here = np.isin(ids, state[Brokers].broker)
            demotions.append(demote(state, broker, leaders[here], spared))
            leaders = leaders.copy()
            leaders[here] = demotions[-1].leaders
        moves = ((each.changes.row, each.elect) for each in demotions)
        above = above_capacity_after_moves(states, moves, peaks)
        tried.append((demotions, leaders, above))
        worst = max(above.keys() - set(spared), key=lambda each: above[each], default=None)
        if worst is None:
            # Nobody is above, or nobody is left to be spared: the least is chosen.
            return min(tried, key=lambda each: max(each[2].values(), default=0.0))
        spared.append(worst)


def _capacity_lines(above: Mapping[int, float]) -> list[str]:
    if not above:
        return []
    names = [text_of_share(*each) for each in sorted(above.items())]
    return [f"No spread keeps every broker within its capacity: then above it {', '.join(names)}."]


def _lines(broker: int, changes: Sequence[PlannedChange]) -> list[str]:
    moved = sum(change.leader == broker for change in changes)
    moving = counted(
        moved,
        f"partition that broker {broker} leads gets",
        f"partitions that broker {broker} leads get",
    )
    lines = [
        f"{moving} another leader by a preferred election; no data moves, so no disk needs room."
    ]
    if kept := len(changes) - moved:
        keeping = counted(kept, "partition keeps its leader", "partitions keep their leader")
        lines.append(
            f"{keeping}, who becomes the preferred replica: leader balancing would elect broker "
            f"{broker}."
        )
    if changes:
        lines.append(
            f"Until `kafka-twin plan restore` broker {broker} is the last replica of all of them."
        )
    return lines


def _leaders_line(brokers: Int32, before: Int64, after: Int64) -> str:
    each = zip(brokers.tolist(), before.tolist(), after.tolist(), strict=True)
    counts = ", ".join(f"{broker}: {now} → {then}" for broker, now, then in each)
    return f"Leaders by broker, now and then: {counts}."


def _row(change: PlannedChange) -> tuple[str, ...]:
    return (
        str(change),
        broker_or_nobody(change.leader),
        listed(change.replicas),
        listed(change.planned),
        broker_or_nobody(change.elect),
    )
