"""``plan place``: moves replicas so that the loss of a rack, or a pair, harms fewer partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.plans.placed import Placed, copied_line, reach_rows
from streaming.plans.plan import (
    Plan,
    PlannedChange,
    changes_of,
    fresh_states,
    undone_lines,
    undone_names,
)
from streaming.questions.answer import broker_or_nobody, listed
from streaming.questions.room.data import room_of_rows
from streaming.questions.room.words import room_lines
from streaming.runtime.quantities import size_text
from twin.arrays.plain import counted
from twin.declarations.table import Bool, Float64, Rows
from twin.engine.shard_state import ShardState
from twin.plans.moving import obstacles
from twin.plans.placement import Harm, Placement, reach
from twin.plans.reordering import Obstacle, Reordering
from twin.plans.swaps import Step, SwapTerms, improving_steps
from twin.questions.whatif import is_judged
from twin.tables.state import Partitions

HEADER: Final = (
    "partition",
    "led by",
    "replicas",
    "planned",
    "if its worst rack is lost",
    "then",
    "copies",
)

DEFAULT_STEPS: Final = 20

MAX_STEPS: Final = 1_000
"""The exporter makes one plan after the other, so others wait for a long one."""

_SUFFERS: Final = {
    Harm.NONE: "takes writes",
    Harm.UNDER_MIN_ISR: "under min ISR",
    Harm.OFFLINE: "offline",
}


def plan_place(view: ClusterView, now_ms: int, *, most: int = DEFAULT_STEPS) -> Plan:
    """The plan for the whole cluster, of at most so many steps.

    Raises:
        PlanError: the twin is stale.
    """
    states = fresh_states(view, now_ms)
    placed = Placed.of(states)
    kept = [obstacles(state) for state in states]
    terms = _terms(placed, kept)
    now = placed.placement
    then, steps = improving_steps(now, terms, most)
    added = now.added(then)
    row = np.flatnonzero(added)
    before, after = placed.ids(now.place[row]), placed.ids(then.place[row])
    changes: list[PlannedChange] = []
    for state, rows in placed.shards(row):
        here = slice(len(changes), len(changes) + len(rows))
        changes += changes_of(state, Reordering(rows, before[here], after[here]))
    misplaced = np.flatnonzero(now.excess(terms.usable) > 0)
    left = int((then.excess(terms.usable) > 0).sum())
    undone = undone_names(_immovable(placed, kept, misplaced))
    room = room_of_rows(view, placed.new_replicas(then))
    return Plan(
        name="place",
        cluster=states[0].cluster,
        observed_at_ms=view.observed_at_ms,
        changes=tuple(changes),
        lines=(
            *_lines(placed, then, steps, len(misplaced), left, most),
            *([copied_line(np.repeat(terms.copied, added))] if steps else ()),
            *room_lines(room),
            *undone_lines(undone),
        ),
        header=HEADER,
        rows=tuple(_rows(now.take(row), then.take(row), changes, (terms.copied * added)[row])),
        undone=undone,
        room=tuple(room),
    )


def _immovable(
    placed: Placed, kept: Sequence[Mapping[Obstacle, Bool]], misplaced: Rows
) -> Iterator[tuple[ShardState, Mapping[Obstacle, Rows]]]:
    """The misplaced partitions that may not be moved now, each by its first obstacle."""
    for (state, rows), each in zip(placed.shards(misplaced), kept, strict=True):
        first: dict[Obstacle, Rows] = {}
        for why, mask in each.items():
            if mask[rows].any():
                first[why] = rows[mask[rows]]
            rows = rows[~mask[rows]]
        yield state, first


def _terms(placed: Placed, kept: Sequence[Mapping[Obstacle, Bool]]) -> SwapTerms:
    movable = [
        is_judged(state) & ~np.logical_or.reduce(list(each.values()))
        for state, each in zip(placed.states, kept, strict=True)
    ]
    brokers = placed.brokers
    usable = brokers.broker[brokers.answered & (brokers.fenced != 1)]
    leader = np.concatenate([state[Partitions].leader for state in placed.states])
    leads = placed.ids(placed.placement.place) == leader[:, None]
    leads[:, 0] = True  # the preferred leader
    return SwapTerms(
        np.concatenate(movable), np.isin(placed.broker, usable), leads, placed.copied_bytes()
    )


def _rows(
    now: Placement, then: Placement, changes: Sequence[PlannedChange], size: Float64
) -> list[tuple[str, ...]]:
    """One row below ``HEADER`` for each changed partition."""
    suffers = [each.harm(each.in_rack().max(axis=1, initial=0)) for each in (now, then)]
    return [
        (
            str(change),
            broker_or_nobody(change.leader),
            listed(change.replicas),
            listed(change.planned),
            *(_SUFFERS[Harm(int(each[i]))] for each in suffers),
            "unknown" if np.isnan(size[i]) else size_text(round(float(size[i]))),
        )
        for i, change in enumerate(changes)
    ]


def _lines(
    placed: Placed, then: Placement, steps: Sequence[Step], misplaced: int, left: int, most: int
) -> list[str]:
    swaps = sum(len(step) == 2 for step in steps)
    lines = []
    if not placed.racks:
        lines.append("No broker has a rack (broker.rack), so only pairs of brokers are compared.")
    else:
        are = (
            counted(misplaced, "partition is", "partitions are") if misplaced else "No partition is"
        )
        lines.append(
            f"{are} harmed more by the loss of a rack than {counted(len(placed.racks), 'rack')} "
            "require."
        )
    if not steps:
        lines.append("No replica has to move, or none may.")
        return lines
    of_steps = "in each" if swaps == len(steps) else f"in {swaps} of them"
    lines.append(
        f"{counted(len(steps), 'step')}; {of_steps} two replicas change places, so that brokers "
        "hold as many as before. Kafka's tools move them; kafka-twin does not."
    )
    for what, under, offline, then_under, then_offline in reach_rows(
        reach(placed.placement), reach(then)
    ):
        lines.append(
            f"The loss of {what}, with all replicas in sync: {under} under min ISR, {offline} of "
            f"them offline; with this plan {then_under} and {then_offline}."
        )
    if len(steps) == most:
        lines.append(
            f"These are the first {most} steps; {counted(left, 'partition is', 'partitions are')} "
            "still harmed more by the loss of a rack than required."
        )
    return lines
