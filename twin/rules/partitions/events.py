"""Leaders that moved, and partitions that were assigned to other brokers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twin.arrays.slots import any_slot
from twin.declarations.declare import Occurrence, event
from twin.declarations.signature import Earlier
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool
from twin.rules.partitions.leaders import Roles, assigned_brokers
from twin.tables.state import Assignment, Partitions


@event("leader_moved")
def leader_moved(was: Earlier[Partitions], now: Partitions) -> Iterator[Occurrence]:
    """The partition has another leader, or none."""
    for row in np.flatnonzero(_both_described(was, now) & (was.leader != now.leader)).tolist():
        old, new = int(was.leader[row]), int(now.leader[row])
        if new == NO_BROKER:
            text = f"{{p}} lost its leader {old}: it is offline"
        else:
            text = f"{{p}} is led by {new}" + (f", was {old}" if old != NO_BROKER else "")
        yield Occurrence(text, row, broker=new, before=(old,), after=(new,))


@event("reassigned")
def reassigned(
    was: Earlier[Partitions],
    now: Partitions,
    was_assignment: Earlier[Assignment],
    assignment: Assignment,
    was_roles: Earlier[Roles],
    roles: Roles,
) -> Iterator[Occurrence]:
    """The partition has replicas on other brokers, or in another order."""
    is_same = np.array_equal(was_assignment.broker, assignment.broker)
    if is_same and np.array_equal(was.assigned, now.assigned):
        return
    before, after = assigned_brokers(was_assignment, was_roles), assigned_brokers(assignment, roles)
    width = max(before.shape[1], after.shape[1])
    before, after = (
        np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=NO_BROKER)
        for each in (before, after)
    )
    changed = _both_described(was, now) & any_slot(before != after)
    for row in np.flatnonzero(changed).tolist():
        old_brokers, new_brokers = (
            tuple(int(b) for b in each[row] if b != NO_BROKER) for each in (before, after)
        )
        text = f"{{p}} is assigned to {list(new_brokers)}, was {list(old_brokers)}"
        yield Occurrence(text, row, before=old_brokers, after=new_brokers)


def _both_described(was: Partitions, now: Partitions) -> Bool:
    return (was.described_at_ms != UNKNOWN) & (now.described_at_ms != UNKNOWN)
