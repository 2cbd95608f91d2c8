"""Changes of leaders, until it is known where the new leader's records begin.

A leader begins its epoch where its own log ends. Every replica that has records of the epoch before
beyond that offset truncates to it. The collector reads that offset from the new leader in the cycle
that first lists it; the log end that the leader samples later may be higher, since it is written.

Source: Partition.makeLeader and LeaderEpochFileCache.endOffsetFor, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle, TableGroup
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Int32,
    Int64,
    Observation,
    ReplicaTable,
    Rows,
    SparseTable,
    column,
)
from twin.rules.partitions.growth import Growth
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.tables.columns import PartitionKey
from twin.tables.state import Partitions

EPOCH_END_WITHIN_MS: Final = 15_000
"""A leader that answers, and whose epoch was not read for that long, is judged without it."""


class EpochEndsFrame(Observation, PartitionKey, kind="epoch_ends", version=2):
    """One row a partition whose leader epoch has changed, as its new leader answered."""

    leader_epoch: Int32 = column("leader epoch of the leader that answered", source="Metadata")
    prev_epoch: Int32 = column("leader epoch before the change", source="Metadata")
    found_epoch: Int32 = column(
        "newest epoch up to that one in the leader's log, or that one if there is none",
        source="OffsetForLeaderEpoch",
    )
    end_offset: Int64 = column(
        "end of that epoch in the leader's log, -1 if it has no history of epochs",
        source="OffsetForLeaderEpoch",
    )


class EpochEnds(SparseTable, kind="epoch_ends", version=2):
    """[N] one row a partition: where the records of the leader epoch before end."""

    leader_epoch: Int32 = column("leader epoch of the leader that answered")
    prev_epoch: Int32 = column("leader epoch before the change")
    found_epoch: Int32 = column(
        "newest epoch up to that one in its log, or that one if there is none"
    )
    end_offset: Int64 = column("end of that epoch in the leader's log")
    read_at_ms: Int64 = column("when it was read")


class SafeSuccessors(ReplicaTable, kind="safe_successors", on_demand="flags of the table replicas"):
    """[P, R] replicas that have every committed record by the controller's view."""

    is_safe: Bool = column("in the ISR or in the ELR", fill=False)


class LeaderChanges(SparseTable, kind="leader_changes", version=5):
    """[N] one row a partition whose leader epoch changed, until the start of its epoch is known."""

    old_leader: Int32 = column("broker id of the leader before")
    old_epoch: Int32 = column("its leader epoch")
    end_offset: Int64 = column("its last sampled log end offset")
    sampled_at_ms: Int64 = column("when that was sampled")
    end_estimate_offset: Int64 = column(
        "its log end when it was lost, from the rate at which it was written; half a cycle is "
        "assumed between the sample and the loss"
    )
    changed_at_ms: Int64 = column(
        "when a later leader epoch than the old leader's was first listed"
    )
    new_leader: Int32 = column("broker id of the leader now, -1 for none", fill=NO_BROKER)
    new_end_offset: Int64 = column("its log end at its first answer as leader")
    answered_at_ms: Int64 = column("when that was")
    is_unclean: Bool = column("it was neither in the ISR nor in the ELR", fill=False)
    start_offset: Int64 = column("first offset at which its log may differ from the old leader's")
    start_is_exact: Bool = column("that was read from the leader's epochs", fill=False)
    found_epoch: Int32 = column(
        "newest epoch of its log up to the old leader's: it had truncated to the log of that "
        "epoch's leader"
    )


@rule
def safe_successors(roles: Roles) -> SafeSuccessors:
    """If one of these becomes the leader, no committed record is lost."""
    return SafeSuccessors(roles.in_isr | roles.in_elr)


@dataclass(frozen=True, slots=True)
class PrevCycle(TableGroup):
    """The leaders of the previous cycle."""

    ends: Before[LeaderEnds]
    growth: Before[Growth]
    safe: Before[SafeSuccessors]
    changes: Before[LeaderChanges]


@rule
def leader_changes(
    prev: PrevCycle, partitions: Partitions, leaders: Leaders, epochs: EpochEnds, cycle: Cycle
) -> LeaderChanges:
    """A successor is judged in the cycle that first lists it: later ISRs are set by it.

    A leader whose log becomes shorter within its epoch has lost records too.
    """
    now_ms, ends = cycle.observed_at_ms, prev.ends
    waiting = prev.changes.pick(prev.changes.start_offset == UNKNOWN)
    old_leader, old_epoch = ends.leader.copy(), ends.leader_epoch.copy()
    end, sampled_at_ms = ends.offset.copy(), ends.sampled_at_ms.copy()
    old_leader[waiting.row], old_epoch[waiting.row] = waiting.old_leader, waiting.old_epoch
    end[waiting.row], sampled_at_ms[waiting.row] = waiting.end_offset, waiting.sampled_at_ms
    answered = (partitions.leader != NO_BROKER) & (leaders.sampled_at_ms == now_ms)
    answered &= leaders.log_end_offset != UNKNOWN
    changed = partitions.leader_epoch != old_epoch
    shorter = (partitions.leader == old_leader) & answered & (leaders.log_end_offset < end)
    known = (old_leader != NO_BROKER) & (end != UNKNOWN)
    row = np.flatnonzero(known & (changed | shorter))

    place = keys.find(waiting.row.astype(np.int64), row)
    leader, is_first = partitions.leader[row], place == UNKNOWN
    was_unclean, answered_at_ms, new_end, estimate, changed_at_ms = (
        np.where(is_first, fill, np.append(values, fill)[place])
        for values, fill in (
            (waiting.is_unclean, False),
            (waiting.answered_at_ms, UNKNOWN),
            (waiting.new_end_offset, UNKNOWN),
            (waiting.end_estimate_offset, UNKNOWN),
            (waiting.changed_at_ms, now_ms),
        )
    )
    is_new = (leader != NO_BROKER) & (leader != ends.leader[row])
    is_safe = prev.safe.is_safe[row, leaders.slot[row]]
    answers_first = answered[row] & (answered_at_ms == UNKNOWN)
    answered_at_ms = np.where(answers_first, now_ms, answered_at_ms)
    new_end = np.where(answers_first, leaders.log_end_offset[row], new_end)
    start, is_exact, found_epoch = _epoch_starts(
        row, old_epoch[row], partitions.leader_epoch[row], epochs
    )
    # A log that begins with a later epoch has none of these: the answer is where it begins then.
    has_found = start > np.maximum(leaders.log_start_offset[row], 0)
    is_late = (answered_at_ms != UNKNOWN) & (now_ms - answered_at_ms >= EPOCH_END_WITHIN_MS)
    is_bound = (start == UNKNOWN) & answered[row] & (is_late | ~changed[row])
    return LeaderChanges(
        row=row.astype(np.int32),
        old_leader=old_leader[row],
        old_epoch=old_epoch[row],
        end_offset=end[row],
        sampled_at_ms=sampled_at_ms[row],
        end_estimate_offset=np.where(is_first, end[row] + _written(prev, cycle, row), estimate),
        changed_at_ms=changed_at_ms,
        new_leader=leader,
        new_end_offset=new_end,
        answered_at_ms=answered_at_ms,
        is_unclean=was_unclean.astype(bool) | (is_new & ~is_safe),
        start_offset=np.where(is_bound, new_end, start),
        start_is_exact=is_exact,
        found_epoch=np.where(has_found, found_epoch, UNKNOWN),
    )


def _written(prev: PrevCycle, cycle: Cycle, row: Rows) -> Int64:
    """[N] records that were written in half a cycle, at the rate of the last cycles."""
    half_s = max(cycle.observed_at_ms - cycle.prev_observed_at_ms, 0) / 2_000
    rate = np.maximum(prev.growth.appended_records_per_s[row], 0)
    return (rate * half_s).astype(np.int64)


def _epoch_starts(
    row: Rows, old_epoch: Int32, leader_epoch: Int32, epochs: EpochEnds
) -> tuple[Int64, Bool, Int32]:
    """[N] where the old leader's epoch ends in the leader's log, whether that was asked, and the
    newest epoch that was found up to the one that was asked about.

    A collector that has started since asked about a later epoch: the old one ends there or before.
    """
    if not len(epochs):
        unknown = np.full(len(row), UNKNOWN, np.int64)
        return unknown, np.zeros(len(row), bool), unknown.astype(np.int32)
    place = keys.find(epochs.row.astype(np.int64), row)
    known = (place != UNKNOWN) & (epochs.leader_epoch[place] == leader_epoch)
    known &= (epochs.prev_epoch[place] >= old_epoch) & (epochs.end_offset[place] != UNKNOWN)
    exact = known & (epochs.prev_epoch[place] == old_epoch)
    end = np.where(known, epochs.end_offset[place], UNKNOWN)
    found_epoch = np.where(known, epochs.found_epoch[place], UNKNOWN)
    return end, exact, found_epoch.astype(np.int32)
