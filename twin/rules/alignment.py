"""Values of replicas before a step, in the slots where the replicas are now: for events."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.rules.leaders import Roles
from twin.table import NO_BROKER, Array, Int32
from twin.tables.state import Assignment


def assigned_brokers(assignment: Assignment, roles: Roles) -> Int32:
    """[P, R] brokers of the assigned replicas, NO_BROKER elsewhere."""
    return np.where(roles.is_assigned, assignment.broker, NO_BROKER)


def in_present_slots(was: Int32, now: Int32, values: Array, fill: Any) -> Array:
    """[P, R] ``values`` of the slots of ``was``, in the slots of ``now``.

    Args:
        was: [P, S] brokers before.
        now: [P, R] brokers now.
        values: [P, S].
        fill: for replicas that were not there.
    """
    if was.shape == now.shape and np.array_equal(was, now):
        return values
    match = (now[:, :, None] == was[:, None, :]) & (now != NO_BROKER)[:, :, None]
    taken = np.take_along_axis(values, match.argmax(axis=2), axis=1)
    return np.where(match.any(axis=2), taken, np.array(fill, values.dtype))
