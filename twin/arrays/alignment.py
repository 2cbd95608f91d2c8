"""Compare tables from before and after a step, to find events."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Int32, Int64


class DatedTable(Protocol):
    """A sparse table whose rows carry a time; partition and time together identify a row."""

    @property
    def row(self) -> Int32:
        """[N] the partition."""

    @property
    def at_ms(self) -> Int64:
        """[N] the time of each row."""


def appeared(was: DatedTable, now: DatedTable) -> list[int]:
    """Indices of rows of ``now`` that ``was`` lacks; none is older than its newest row."""
    newest_ms = was.at_ms.max(initial=UNKNOWN)
    newest_rows = was.row[was.at_ms == newest_ms]
    is_new = (now.at_ms > newest_ms) | ((now.at_ms == newest_ms) & ~np.isin(now.row, newest_rows))
    return np.flatnonzero(is_new).tolist()


def in_present_slots(was: Int32, now: Int32, values: Array, fill: Any) -> Array:
    """[P, R] ``values`` of the slots of ``was``, in the slots of ``now``.

    Args:
        was: [P, S] brokers before.
        now: [P, R] brokers now.
        values: [P, S].
        fill: the value for replicas that did not exist before.
    """
    if was.shape == now.shape and np.array_equal(was, now):
        return values
    match = (now[:, :, None] == was[:, None, :]) & (now != NO_BROKER)[:, :, None]
    taken = np.take_along_axis(values, match.argmax(axis=2), axis=1)
    return np.where(match.any(axis=2), taken, np.array(fill, values.dtype))
