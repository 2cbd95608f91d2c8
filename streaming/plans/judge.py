"""``plan judge``: whether a reassignment fits, and whether losses harm fewer partitions then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.plans.placed import HEADER, Placed, copied_line, reach_rows
from streaming.plans.plan import Key, PlanError, fresh_states
from streaming.questions.answer import Answer, listed, some
from streaming.questions.room.data import RoomOnBroker, room_of_rows, worst_of
from streaming.questions.room.words import room_lines
from twin.arrays.plain import counted
from twin.declarations.table import Int64
from twin.plans.placement import reach

_PAIRS: Final = "pairs that take a partition offline together"
_NAMES: Final = ("lost", "under_min_isr", "offline", "then_under_min_isr", "then_offline")


def judge(view: ClusterView, now_ms: int, proposed: Mapping[Key, Sequence[int]]) -> Answer:
    """Compare what losses would do now and with the proposed replicas of those partitions.

    Raises:
        PlanError: the twin is stale, or the proposal names a broker or a partition that it does not
            know.
    """
    placed = Placed.of(fresh_states(view, now_ms))
    now = placed.placement
    places = [np.searchsorted(placed.broker, each) for each in proposed.values()]
    then = now.with_places(_rows(placed, proposed), places)
    now_reach, then_reach = reach(now), reach(then)
    rows: list[tuple[Any, ...]] = list(reach_rows(now_reach, then_reach))
    better = [name for name, *numbers in rows if _differs(numbers) > 0]
    worse = [name for name, *numbers in rows if _differs(numbers) < 0]
    # No verdict: more pairs that take fewer partitions each take as many in all.
    rows.append((_PAIRS, "", now_reach.pairs_offline, "", then_reach.pairs_offline))
    copied = np.repeat(placed.copied_bytes(), now.added(then))
    few = int((then.replicas < now.replicas).sum())
    room = room_of_rows(view, placed.new_replicas(then))
    lines = [
        *_verdict(better, worse),
        *_too_much(room),
        f"{counted(len(proposed), 'partition')} of {len(now.place)} "
        f"{'is' if len(proposed) == 1 else 'are'} reassigned; {copied_line(copied)}",
        *room_lines(room),
        *([f"{counted(few, 'partition gets', 'partitions get')} fewer replicas."] if few else ()),
        "Every replica counts as in sync, so this is about the placement alone.",
    ]
    data = {
        "observed_at_ms": view.observed_at_ms,
        "partitions": len(proposed),
        "better": better,
        "worse": worse,
        "copied_replicas": len(copied),
        "copied_bytes": round(float(np.nansum(copied))),
        "copied_unknown": int(np.isnan(copied).sum()),
        "fewer_replicas": few,
        "fits": worst_of(room),
        "room": room,
        "losses": [dict(zip(_NAMES, each, strict=True)) for each in rows],
    }
    return Answer(data, lines, HEADER, rows)


def _rows(placed: Placed, proposed: Mapping[Key, Sequence[int]]) -> Int64:
    """[N] the rows of the proposed partitions."""
    known = set(placed.broker.tolist())
    others = sorted({b for each in proposed.values() for b in each} - known)
    if others:
        raise PlanError(
            f"the proposal names brokers that the twin has not seen: {listed(others)}; it knows "
            f"{listed(sorted(known))}"
        )
    places = {key: row for row, key in enumerate(placed.keys())}
    missing = [f"{topic}-{number}" for topic, number in proposed if (topic, number) not in places]
    if missing:
        raise PlanError(
            f"the proposal names {counted(len(missing), 'partition')} that the twin does not know: "
            f"{some(missing)}; is it of this cluster, and are the topics still there?"
        )
    return np.array([places[key] for key in proposed], np.int64)


def _differs(numbers: Sequence[Any]) -> int:
    """Above 0 if fewer are offline then, or as many and fewer under min ISR; below 0 if more."""
    under, offline, then_under, then_offline = numbers
    was, then = (offline, under), (then_offline, then_under)
    return (was > then) - (was < then)


def _too_much(room: Sequence[RoomOnBroker]) -> Iterator[str]:
    full = [each["broker"] for each in room if each["room"] == "does_not_fit"]
    if full:
        who = "broker" if len(full) == 1 else "brokers"
        yield f"The proposal does not fit on the disks of {who} {listed(full)}."


def _verdict(better: Sequence[str], worse: Sequence[str]) -> Iterator[str]:
    if better:
        yield f"The proposal is better: {', '.join(better)}."
    if worse:
        yield f"The proposal is worse: {', '.join(worse)}."
    if not better and not worse:
        yield "The proposal is neither better nor worse."
