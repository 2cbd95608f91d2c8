"""A plan as plain data: what it changes, what it leaves as it is, and why."""

from __future__ import annotations

from typing import Any, Final, TypedDict

from streaming.plans import files
from streaming.plans.plan import Plan, PlannedChange
from streaming.questions.room.data import RoomOnBroker

MAX_NAMES: Final = 100
"""The maximum of names that are listed for a reason; ``count`` has the number of all."""


class Unchanged(TypedDict):
    """Partitions that a plan leaves as they are: at most MAX_NAMES names, ``count`` in all."""

    reason: str
    count: int
    names: list[str]


class PlanData(TypedDict):
    """A plan of ``total`` changes, of which ``changes`` has some.

    ``lines`` explain it to a person; ``rows`` below ``header`` are the changes in words. ``room``
    has the brokers that receive data; a plan that moves none has nobody there.
    """

    plan: str
    cluster: str
    observed_at_ms: int
    total: int
    changes: list[PlannedChange]
    unchanged: list[Unchanged]
    room: list[RoomOnBroker]
    lines: list[str]
    header: list[str]
    rows: list[list[str]]


def plan_data(plan: Plan, most: int) -> PlanData:
    """The plan with at most ``most`` of its changes."""
    changes: list[Any] = [files.as_json(change) for change in plan.changes[:most]]
    return {
        "plan": plan.name,
        "cluster": plan.cluster,
        "observed_at_ms": plan.observed_at_ms,
        "total": len(plan.changes),
        "changes": changes,
        "unchanged": [
            {"reason": reason, "count": len(names), "names": names[:MAX_NAMES]}
            for reason, names in plan.undone.items()
        ],
        "room": list(plan.room),
        "lines": list(plan.lines),
        "header": list(plan.header),
        "rows": [list(map(str, row)) for row in plan.rows[:most]],
    }
