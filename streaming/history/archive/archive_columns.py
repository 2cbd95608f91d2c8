"""Columns of a state as the archive has them, and back.

What would change in each cycle although nothing happened is written so that it does not:

* A measurement of a replica is the difference to its leader's. Most replicas are where their leader
  is, so nearly all differences stay.
* A time that is the time of the cycle is ``OF_CYCLE``: a replica that answers each time, or a
  partition that is written all the time.
* Fractional numbers are rounded; the error is less than half a percent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from streaming.history.archive.row_layout import UNKNOWN_DIFFERENCE, Field, rounded
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Table
from twin.engine.shard_state import ShardState
from twin.tables.state import Assignment, Partitions

OF_CYCLE: Final = np.iinfo(np.int64).max - 1
"""In place of a time: that of the cycle in which it was measured."""

Columns = dict[str, Array]


def leader_slots(state: ShardState) -> Array:
    """[P] the slot of the leader's replica; of the first one while nobody leads."""
    leads = state[Assignment].broker == state[Partitions].leader[:, None]
    leads &= state[Assignment].broker != NO_BROKER
    return leads.argmax(axis=1)


class ArchiveColumns:
    """The columns of one state in the form of the archive."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._leader: Array | None = None
        self._tables: dict[type[Table], dict[str, Array]] = {}

    def of(self, fields: Iterable[Field]) -> Columns:
        """Their values: [P] of partitions, [P, R] of replicas."""
        return {field.name: self._one(field) for field in fields}

    def _one(self, field: Field) -> Array:
        values = getattr(self._state[field.table], field.column.name)
        if field.column.dtype.kind == "f":
            values = rounded(values)
        elif field.column.dtype == np.uint8:
            values = values.astype(np.int16)
        if not (field.of_leader or field.from_leader):
            return self._timed(field, values)
        base = self._of_leader(values)
        if field.of_leader:
            return self._timed(field, base)
        known = (base != UNKNOWN)[:, None]
        moved = np.where(known, values - base[:, None], values)
        return np.where(values == UNKNOWN, UNKNOWN_DIFFERENCE, moved)

    def _of_leader(self, values: Array) -> Array:
        if self._leader is None:
            self._leader = leader_slots(self._state)
        return values[np.arange(len(values)), self._leader]

    def _timed(self, field: Field, values: Array) -> Array:
        if not field.is_time:
            return values
        return np.where(values == self._state.observed_at_ms, OF_CYCLE, values)


def written(field: Field, values: Array, cycle_ms: int) -> Array:
    """Values as they stand in the archive: with the time itself."""
    return np.where(values == OF_CYCLE, cycle_ms, values) if field.is_time else values


def read(field: Field, values: Array, cycle_ms: Array) -> Array:
    """The inverse of ``written``: a time of its own cycle is OF_CYCLE."""
    return np.where(values == cycle_ms, OF_CYCLE, values) if field.is_time else values


def restored(field: Field, values: Array, cycle_ms: Array, leader: Array | None = None) -> Array:
    """A column of the state: the inverse of ``ArchiveColumns``.

    Args:
        field: the column.
        values: in the form of the archive.
        cycle_ms: [P] the cycle in which each partition was measured last.
        leader: [P] for a difference: the restored values of the leader's replica.
    """
    if field.is_time:
        values = np.where(values == OF_CYCLE, cycle_ms, values)
    if field.from_leader:
        assert leader is not None
        base = np.where(leader == UNKNOWN, 0, leader)[:, None]
        values = np.where(values == UNKNOWN_DIFFERENCE, UNKNOWN, values + base)
    return values.astype(field.column.dtype)
