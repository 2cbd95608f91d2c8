"""``plan demote``: moves the leaderships of a broker to others, over all shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streaming.bus.view import ClusterView
from streaming.plans.plan import (
    PartitionChange,
    Plan,
    changes_of,
    fresh_states,
    undone_lines,
    undone_names,
)
from streaming.questions.answer import broker_or_nobody, brokers_of, check_broker, listed
from twin.arrays.plain import counted
from twin.declarations.table import Int32, Int64
from twin.plans.demote import Demotion, demote, leaders_of
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
    demotions: list[Demotion] = []
    for state in states:  # each shard evens out the ones before
        here = np.isin(ids, state[Brokers].broker)
        demotions.append(demote(state, broker, leaders[here]))
        leaders = leaders.copy()
        leaders[here] = demotions[-1].leaders
    changes: list[PartitionChange] = []
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
            *undone_lines(undone),
        ),
        header=HEADER,
        rows=tuple(map(_row, changes)),
        undone=undone,
    )


def _lines(broker: int, changes: Sequence[PartitionChange]) -> list[str]:
    moved = sum(change.leader == broker for change in changes)
    moving = counted(
        moved,
        f"partition that broker {broker} leads gets",
        f"partitions that broker {broker} leads get",
    )
    lines = [f"{moving} another leader by a preferred election; no data moves."]
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


def _row(change: PartitionChange) -> tuple[str, ...]:
    return (
        str(change),
        broker_or_nobody(change.leader),
        listed(change.replicas),
        listed(change.planned),
        broker_or_nobody(change.elect),
    )
