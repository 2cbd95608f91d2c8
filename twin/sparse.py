"""Tables about few partitions: what only some rows of a fleet have would be wasted as a column.

A row of such a table names the row of the fleet it speaks of. When rows of the fleet come, go and
move, ``moved`` takes these along; who speaks of a partition that is gone is gone too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from twin import tables
from twin.tables import Table

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """[N] columns of one such table, in order of ``row``."""

    row: Array

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def none(cls) -> Self:
        """A table without rows."""
        columns = TABLE_OF[cls].columns
        return cls(**{c.name: np.zeros(0, c.dtype.to_pandas_dtype()) for c in columns})

    def picked(self, chosen: Array) -> Self:
        """Those rows: a mask or an index, in ascending order of ``row``."""
        return type(self)(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def moved(self, to: Array) -> Self:
        """With the fleet's rows renumbered: ``to[old]`` is the new row, negative if it is gone."""
        if not len(self.row):
            return self
        row = to[self.row]
        order = np.argsort(row, kind="stable")
        order = order[row[order] >= 0]
        columns = {f.name: getattr(self, f.name)[order] for f in fields(self)}
        return type(self)(**columns | {"row": row[order].astype(np.int32)})

    def with_rows(self, other: Self) -> Self:
        """Both tables in one."""
        order = np.argsort(np.concatenate([self.row, other.row]), kind="stable")
        return type(self)(
            **{
                f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name)])[order]
                for f in fields(self)
            }
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pending(Sparse):
    """Risks that wait to be opened or closed."""

    risk: Array
    since_ms: Array


@dataclass(frozen=True, slots=True, eq=False)
class Joins(Sparse):
    """Replicas that are joining."""

    broker: Array
    joining: Array
    since_ms: Array
    path: Array
    start_offset: Array
    end_offset: Array
    sampled_at_ms: Array
    moved_at_ms: Array
    records_per_s: Array
    stuck: Array
    path_before: Array
    start_before_offset: Array
    end_before_offset: Array
    sampled_before_ms: Array
    moved_before_ms: Array
    records_per_s_before: Array


@dataclass(frozen=True, slots=True, eq=False)
class Shrinks(Sparse):
    """Replicas that left the ISR lately."""

    leader: Array
    broker: Array
    at_ms: Array
    seen_before_ms: Array
    back_at_ms: Array
    told_at_ms: Array
    verdict: Array
    evidence: Array
    kept_by_solution_1: Array
    handover_to: Array
    handover_thin: Array


@dataclass(frozen=True, slots=True, eq=False)
class Fetches(Sparse):
    """What leaders have in their books on their followers."""

    broker: Array
    leader: Array
    leader_epoch: Array
    log_start_offset: Array
    log_end_offset: Array
    leader_end_offset: Array
    leader_end_estimate_offset: Array
    fetched_at_ms: Array
    caught_up_at_ms: Array
    caught_up_solution_1_at_ms: Array
    slow_arrived_at_ms: Array
    slow_completed_at_ms: Array
    slow_caught_up_at_ms: Array
    slow_kept: Array


@dataclass(frozen=True, slots=True, eq=False)
class Departures(Sparse):
    """Replicas that left the ISR lately, as logs of brokers told it."""

    leader: Array
    broker: Array
    at_ms: Array
    back_at_ms: Array
    behind: Array
    told_caught_up_at_ms: Array
    kept_caught_up_at_ms: Array


@dataclass(frozen=True, slots=True, eq=False)
class Starts(Sparse):
    """Followers that asked lately where the tier ends."""

    broker: Array
    leader: Array
    at_ms: Array
    pending_upload_offset: Array
    error_code: Array
    asked: Array


@dataclass(frozen=True, slots=True, eq=False)
class Lineage(Sparse):
    """What is to be said of the remote segments of a partition."""

    remote_bytes: Array
    lineage_bytes: Array
    orphan_segments: Array
    orphan_bytes: Array
    orphan_since_ms: Array
    dangling_segments: Array
    dangling_since_ms: Array
    gap_start_offset: Array
    gap_end_offset: Array
    overlaps: Array
    highest_remote_offset: Array
    remote_log_start_offset: Array
    refused_transitions: Array


TABLE_OF: Final[dict[type[Sparse], Table]] = {
    Pending: tables.FLEET_PENDING,
    Joins: tables.FLEET_JOINS,
    Shrinks: tables.FLEET_SHRINKS,
    Fetches: tables.FLEET_FETCHES,
    Departures: tables.FLEET_DEPARTURES,
    Starts: tables.FLEET_STARTS,
    Lineage: tables.FLEET_LINEAGE,
}

SPARSE: Final[dict[str, type[Sparse]]] = {
    table.kind.removeprefix("fleet."): kind for kind, table in TABLE_OF.items()
}
"""The fields of a fleet that are such tables."""
