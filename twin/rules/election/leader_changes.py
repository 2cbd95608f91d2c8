"""Changes of leaders, until it is known where the new leader's records begin.

A leader begins its epoch where its own log ends. Every replica that has records of the epoch before
beyond that offset truncates to it. The collector reads that offset from the new leader in the cycle
that first lists it; the log end that the leader samples later may be higher, since it is written.

A leader from the ISR has every committed record. Whether it was in the ISR when it was elected is
not listed: the twin knows the ISR of the cycle before, what brokers have logged since, and whether
the controller may elect anybody else. A high watermark above the start of the new leader's epoch
proves that it was not, or that it has lost records.

Source: Partition.makeLeader and LeaderEpochFileCache.endOffsetFor, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from twin.rules.isr.isr_shrink_evidence import BROKER_CLOCK_SKEW_MS
from twin.rules.partitions.growth import Growth
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs, forbids_unclean_elections
from twin.rules.replication.catching_up import CatchingUp
from twin.rules.replication.logged_changes import (
    logged_as_unclean,
    logged_removals,
    logged_watermarks,
)
from twin.tables.columns import PartitionKey
from twin.tables.state import (
    Assignment,
    IsrRemovals,
    LoggedHighWatermarks,
    LoggedUncleanElections,
    Partitions,
    PriorEnds,
)

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


class LeaderChanges(SparseTable, kind="leader_changes", version=6):
    """[N] one row a partition whose leader epoch changed, until the start of its epoch is known."""

    old_leader: Int32 = column("broker id of the leader before")
    old_epoch: Int32 = column("its leader epoch")
    end_offset: Int64 = column("its last sampled log end offset; unknown if it never answered")
    sampled_at_ms: Int64 = column("when that was sampled")
    committed_offset: Int64 = column(
        "its last known high watermark: what is below was committed; unknown if nobody said it"
    )
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
    prior_end_offset: Int64 = column(
        "its log end in the cycle before it was listed as leader, if it was outside the ISR then"
    )
    is_unclean: Bool = column(
        "it was neither in the ISR nor in the ELR: by the cycle before, by a log that has its "
        "removal since, by a controller's log, or by a high watermark above its start",
        fill=False,
    )
    may_have_joined: Bool = column(
        "it was outside in the cycle before, and may have joined the ISR before it was elected",
        fill=False,
    )
    was_in_isr: Bool = column(
        "it was in the ISR or the ELR, and the controller elects nobody else", fill=False
    )
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
    """The leaders of the previous cycle, and who was on its way into the ISR."""

    ends: Before[LeaderEnds]
    growth: Before[Growth]
    safe: Before[SafeSuccessors]
    outside: Before[CatchingUp]
    changes: Before[LeaderChanges]


@dataclass(frozen=True, slots=True)
class Electors(TableGroup):
    """What this cycle shows of the new leaders, and of who could be elected."""

    partitions: Partitions
    assignment: Assignment
    roles: Roles
    leaders: Leaders
    configs: TopicConfigs
    removals: IsrRemovals
    watermarks: LoggedHighWatermarks
    elections: LoggedUncleanElections
    prior: PriorEnds
    epochs: EpochEnds


@rule
def leader_changes(prev: PrevCycle, it: Electors, cycle: Cycle) -> LeaderChanges:
    """A successor is judged in the cycle that first lists it: later ISRs are set by it.

    A leader whose log becomes shorter within its epoch has lost records too.
    """
    now_ms, partitions, leaders = cycle.observed_at_ms, it.partitions, it.leaders
    answered = (partitions.leader != NO_BROKER) & (leaders.sampled_at_ms == now_ms)
    answered &= leaders.log_end_offset != UNKNOWN
    changes = _changed(prev, partitions, leaders, answered, cycle)
    if not len(changes):
        return changes
    row = changes.row
    changed = partitions.leader_epoch[row] != changes.old_epoch
    changes = _with_successors(changes, prev, it)
    answers_first = answered[row] & (changes.answered_at_ms == UNKNOWN)
    answered_at_ms = np.where(answers_first, now_ms, changes.answered_at_ms)
    new_end = np.where(answers_first, leaders.log_end_offset[row], changes.new_end_offset)
    start, is_exact, found_epoch = _epoch_starts(
        row, changes.old_epoch, partitions.leader_epoch[row], it.epochs
    )
    # A log that begins with a later epoch has none of these: the answer is where it begins then.
    has_found = start > np.maximum(leaders.log_start_offset[row], 0)
    is_late = (answered_at_ms != UNKNOWN) & (now_ms - answered_at_ms >= EPOCH_END_WITHIN_MS)
    is_bound = (start == UNKNOWN) & answered[row] & (is_late | ~changed)
    start = np.where(is_bound, _bounds(changes, new_end, it.prior), start)
    committed = np.maximum(changes.committed_offset, _logged_watermarks(changes, it.watermarks))
    # Of a bound of the start it is not known on which side of a high watermark it is.
    is_proven = is_exact & (start != UNKNOWN) & (committed > start)
    # Where nobody else is elected, or where it had more, it has lost them itself.
    is_proven &= ~changes.was_in_isr & (_ends_before(changes, it.prior) <= start)
    return replace(
        changes,
        committed_offset=committed,
        new_end_offset=new_end,
        answered_at_ms=answered_at_ms,
        is_unclean=changes.is_unclean | (is_proven & (changes.new_leader != changes.old_leader)),
        start_offset=start,
        start_is_exact=is_exact,
        found_epoch=np.where(has_found, found_epoch, UNKNOWN),
    )


def _changed(
    prev: PrevCycle, partitions: Partitions, leaders: Leaders, answered: Bool, cycle: Cycle
) -> LeaderChanges:
    """[N] the changes that wait, and those of this cycle, without what is found out now."""
    ends, waiting = prev.ends, prev.changes.pick(prev.changes.start_offset == UNKNOWN)
    waiting = waiting.pick(partitions.leader_epoch[waiting.row] != waiting.old_epoch)
    changed = partitions.leader_epoch != ends.leader_epoch
    shorter = (partitions.leader == ends.leader) & answered
    shorter &= leaders.log_end_offset < ends.offset
    waits = waiting.row_mask(len(changed))
    row = np.flatnonzero((ends.leader != NO_BROKER) & ~waits & (changed | shorter))
    end = ends.offset[row]
    unknown, no = np.full(len(row), UNKNOWN, np.int64), np.zeros(len(row), bool)
    news = LeaderChanges(
        row=row.astype(np.int32),
        old_leader=ends.leader[row],
        old_epoch=ends.leader_epoch[row],
        end_offset=end,
        sampled_at_ms=np.where(end == UNKNOWN, UNKNOWN, ends.sampled_at_ms[row]),
        committed_offset=ends.high_watermark[row],
        end_estimate_offset=np.where(end == UNKNOWN, UNKNOWN, end + _written(prev, cycle, row)),
        changed_at_ms=np.full(len(row), cycle.observed_at_ms),
        new_leader=np.full(len(row), NO_BROKER, np.int32),
        new_end_offset=unknown,
        answered_at_ms=unknown,
        prior_end_offset=unknown,
        is_unclean=no,
        may_have_joined=no,
        was_in_isr=no,
        start_offset=unknown,
        start_is_exact=no,
        found_epoch=unknown.astype(np.int32),
    )
    return waiting.with_rows(news)


def _with_successors(found: LeaderChanges, prev: PrevCycle, it: Electors) -> LeaderChanges:
    """[N] the changes with the leaders of this cycle, and how they were elected."""
    row, leader = found.row, it.partitions.leader[found.row]
    is_new = (leader != NO_BROKER) & (leader != prev.ends.leader[row])
    is_safe = prev.safe.is_safe[row, it.leaders.slot[row]]
    is_removed, has_rejoined = _logged(found, leader, it.removals)
    elects_others = ~forbids_unclean_elections(it.configs)[row]
    broker, led = it.assignment.broker[row], prev.ends.leader[row] != NO_BROKER
    # A leader that comes back after nobody has all that it had, or its log is shorter.
    was_outside = is_new & ~is_safe & (led | (leader != found.old_leader))
    led_before = broker == prev.ends.leader[row][:, None]
    is_moved = led & ~(led_before & it.roles.is_assigned[row]).any(axis=1)
    # An unclean leader begins alone in the ISR.
    others = it.roles.in_isr[row] & prev.safe.is_safe[row] & ~it.roles.is_leader[row]
    others &= it.roles.is_assigned[row] & ~it.roles.is_offline[row]
    joins = is_moved | (led & ~elects_others) | others.any(axis=1) | has_rejoined
    its_ends = keys.look_up(
        keys.pack(prev.outside.row, prev.outside.broker),
        prev.outside.end_offset,
        keys.pack(row, leader),
    )
    was_logged = logged_as_unclean(
        row, found.old_epoch, it.partitions.leader_epoch[row], _far(row), it.elections
    )
    is_removed |= was_logged
    was_in_isr = is_safe & ~elects_others & ~is_removed & ~found.is_unclean
    return replace(
        found,
        new_leader=leader,
        prior_end_offset=np.where(is_new, its_ends, found.prior_end_offset),
        is_unclean=found.is_unclean | was_outside | (is_removed & (leader != found.old_leader)),
        may_have_joined=np.where(was_outside, joins, found.may_have_joined) & ~was_logged,
        was_in_isr=np.where(is_new, was_in_isr, found.was_in_isr & ~is_removed),
    )


def _logged(found: LeaderChanges, leader: Int32, removals: IsrRemovals) -> tuple[Bool, Bool]:
    """[N], [N] brokers logged that the new leader left the ISR of the old one and is not back; that
    it came back. Both since the old leader answered last, in its epoch or before."""
    sampled_at_ms = found.sampled_at_ms
    since_ms = np.where(sampled_at_ms == UNKNOWN, found.changed_at_ms, sampled_at_ms)
    since_ms = since_ms - BROKER_CLOCK_SKEW_MS
    far_ms = _far(found.row)
    return logged_removals(found.row, leader, found.old_leader, since_ms, far_ms, removals)


def _far(row: Int32) -> Int64:
    """[N] a time that never comes."""
    return np.full(len(row), np.iinfo(np.int64).max)


def _logged_watermarks(found: LeaderChanges, logged: LoggedHighWatermarks) -> Int64:
    """[N] the high watermark that the old leader sent to a follower last, or unknown."""
    return logged_watermarks(found.row, found.old_leader, found.old_epoch, logged)


def _bounds(found: LeaderChanges, new_end: Int64, prior: PriorEnds) -> Int64:
    """[N] where a leader whose epochs are not known begins its epoch, about.

    That is not beyond its first answer. One from outside the ISR has no more of the old leader's
    log than it answered last before it led, but for what it has fetched in a cycle.
    """
    before = found.prior_end_offset
    before = np.where(before != UNKNOWN, before, _ends_before(found, prior))
    is_capped = found.is_unclean & (before != UNKNOWN)
    return np.where(is_capped, np.minimum(new_end, before), new_end)


def _ends_before(found: LeaderChanges, prior: PriorEnds) -> Int64:
    """[N] where the log of the new leader ended before it was silent, or became shorter."""
    its = keys.pack(prior.row, prior.broker)
    ends: Int64 = keys.look_up(its, prior.end_offset, keys.pack(found.row, found.new_leader))
    return ends


def _written(prev: PrevCycle, cycle: Cycle, row: Rows) -> Int64:
    """[N] records that were written in half a cycle, at the rate of the last cycles."""
    half_s = max(cycle.observed_at_ms - cycle.prev_observed_at_ms, 0) / 2_000
    rate = np.maximum(prev.growth.appended_records_per_s[row], 0)
    return (rate * half_s).astype(np.int64)


def _epoch_starts(
    row: Int32, old_epoch: Int32, leader_epoch: Int32, epochs: EpochEnds
) -> tuple[Int64, Bool, Int32]:
    """[N] where the old leader's epoch ends in the leader's log, whether that was asked, and the
    newest epoch that was found up to the one that was asked about.

    A collector that has started since asked about a later epoch: the old one ends there or before.
    """
    if not len(epochs):
        unknown = np.full(len(row), UNKNOWN, np.int64)
        return unknown, np.zeros(len(row), bool), unknown.astype(np.int32)
    place = keys.find(epochs.row.astype(np.int64), row.astype(np.int64))
    known = (place != UNKNOWN) & (epochs.leader_epoch[place] == leader_epoch)
    known &= (epochs.prev_epoch[place] >= old_epoch) & (epochs.end_offset[place] != UNKNOWN)
    exact = known & (epochs.prev_epoch[place] == old_epoch)
    end = np.where(known, epochs.end_offset[place], UNKNOWN)
    found_epoch = np.where(known, epochs.found_epoch[place], UNKNOWN)
    return end, exact, found_epoch.astype(np.int32)
