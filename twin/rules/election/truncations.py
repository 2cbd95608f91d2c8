"""Replicas whose logs differ from their leader's, and to where they will truncate them.

A leader begins its epoch where its own log ends. A replica that was away and has records of an
earlier epoch beyond that offset truncates to it when it is back. The replica of the former leader
is listed until then in any case: it was written until it was lost, and nobody polls that end.

A replica that answers has not truncated for that: its fetcher may not reach the leader. It has once
its log end is seen at or below the offset, or below its last answer; once it moves while its leader
answers, since it gets records from nobody else; and if it is in the ISR. So live replicas outside
the ISR of an unclean leader are listed, too, until one of these is seen.

Source: AbstractFetcherThread.maybeTruncateToEpochEndOffsets, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import api_field, rule
from twin.declarations.signature import Before, Cycle, TableGroup
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Int32,
    Int64,
    ReplicaTable,
    Rows,
    SparseTable,
    column,
)
from twin.rules.election.leader_changes import LeaderChanges
from twin.rules.partitions.leaders import Leaders, Roles
from twin.tables.state import PRIOR_END_STAYS_MS, Assignment, Partitions, PriorEnds, Replicas

_STAYS_MS: Final = PRIOR_END_STAYS_MS
"""After the return: the log of the replica's broker may be read later than its offsets, and as long
as an answer before its truncation counts, it is known up to where that was the leader's log."""


class Truncations(SparseTable, kind="truncations", version=4):
    """[N] one row a replica that diverged from a new leader, or may have: it was away when the
    leader changed, had answered before that with a longer log, or has more than the new leader had
    and is outside the ISR. Kept until it has truncated, and a while longer."""

    broker: Int32 = column("broker id of the replica")
    to_offset: Int64 = column("offset to which it truncates; unknown without the leader's epochs")
    leader_epoch: Int32 = column("leader epoch that begins there, or after it")
    sampled_at_ms: Int64 = column("when it last answered before")
    was_leader: Bool = column("it led before the change", fill=False)
    is_unclean: Bool = column("the new leader was neither in the ISR nor in the ELR", fill=False)
    was_in_isr: Bool = column(
        "the new leader was in one of them, and the controller elects nobody else", fill=False
    )
    answered_at_ms: Int64 = column(
        "when it answered again while its leader did not: it may have truncated before or not"
    )
    seen_end_offset: Int64 = column("its log end by its last answer, with which it is compared")
    stood_at_ms: Int64 = column(
        "when it answered last, its leader too, and it was not seen to have truncated"
    )
    returned_at_ms: Int64 = column("when it and its leader answered, and it had truncated")

    def left(self) -> Truncations:
        """The replicas that are not back."""
        return self.pick(self.returned_at_ms == UNKNOWN)


class CommonLogs(
    ReplicaTable, kind="common_logs", on_demand="the stored log ends, but for a few replicas"
):
    """[P, R] what each replica has in common with its leader's log."""

    end_offset: Int64 = column("log end offset, or where it truncates to if that is lower")


@dataclass(frozen=True, slots=True)
class ReplicaSamples(TableGroup):
    """The replicas and their last samples."""

    leaders: Leaders
    partitions: Partitions
    assignment: Assignment
    roles: Roles
    replicas: Replicas
    prior: PriorEnds
    cycle: Cycle


@rule
def truncations(
    it: ReplicaSamples, changes: LeaderChanges, before: Before[Truncations]
) -> Truncations:
    """Of several changes while a replica is away, the lowest offset counts."""
    known = changes.pick(changes.start_offset != UNKNOWN)
    news = _diverged(it, replace(known, start_offset=first_difference(known, before)[0]))
    mine, theirs = keys.pack(news.row, news.broker), keys.pack(before.row, before.broker)
    away = before.left()
    place = keys.find(keys.pack(away.row, away.broker), mine)
    if len(away):
        # Unknown is lower.
        stays = (place != UNKNOWN) & (away.to_offset[place] <= news.to_offset)
        news = replace(
            news,
            to_offset=np.where(stays, away.to_offset[place], news.to_offset),
            leader_epoch=np.where(stays, away.leader_epoch[place], news.leader_epoch),
            answered_at_ms=np.where(stays, away.answered_at_ms[place], news.answered_at_ms),
        )
    kept = before.pick(~np.isin(theirs, mine)).with_rows(news)
    slot, is_assigned = _slots(it, kept.row, kept.broker)
    now_ms = it.cycle.observed_at_ms
    answers = it.replicas.sampled_at_ms[kept.row, slot] == now_ms
    answers &= kept.returned_at_ms == UNKNOWN
    end = it.replicas.log_end_offset[kept.row, slot]
    both = answers & (it.leaders.sampled_at_ms[kept.row] == now_ms)
    stands = both & ~_has_truncated(it, kept, slot, end)
    # Without an answer of its leader, one that is as it was seen beside it has not truncated.
    is_open = answers & ~both & ((kept.stood_at_ms == UNKNOWN) | (end != kept.seen_end_offset))
    answered_at_ms = np.where(answers & ~stands & (both | is_open), now_ms, kept.answered_at_ms)
    answered_at_ms = np.where(stands, UNKNOWN, answered_at_ms)
    # Outside when it stood, in the ISR now: its leader has seen it caught up, if it answers or not.
    joined = (kept.stood_at_ms != UNKNOWN) & it.roles.in_isr[kept.row, slot]
    joined &= kept.returned_at_ms == UNKNOWN
    returned_at_ms = np.where((both & ~stands) | joined, now_ms, kept.returned_at_ms)
    kept = replace(
        kept,
        seen_end_offset=np.where(stands, end, kept.seen_end_offset),
        stood_at_ms=np.where(stands, now_ms, kept.stood_at_ms),
    )
    is_over = (returned_at_ms != UNKNOWN) & (now_ms - returned_at_ms > _STAYS_MS)
    waiting = changes.row[changes.start_offset == UNKNOWN]  # ``first_difference`` reads it then
    is_over |= (kept.broker == it.partitions.leader[kept.row]) & ~np.isin(kept.row, waiting)
    kept = replace(kept, answered_at_ms=answered_at_ms, returned_at_ms=returned_at_ms)
    return kept.pick(is_assigned & ~is_over)


def _has_truncated(it: ReplicaSamples, rows: Truncations, slot: Rows, end: Int64) -> Bool:
    """[N] a replica that answers beside its leader is seen to follow it.

    One that was away may have been written to a higher end before; only if it ends where its leader
    does, it has followed. One that answered in the leader's epoch gets records from it alone.
    """
    leader_end, seen = it.leaders.log_end_offset[rows.row], rows.seen_end_offset
    follows = it.roles.in_isr[rows.row, slot] | (end < seen)
    follows |= (rows.to_offset != UNKNOWN) & (end <= rows.to_offset)
    stood = rows.stood_at_ms != UNKNOWN
    follows |= (end != seen) & np.where(stood, end <= leader_end, end == leader_end)
    return follows


def first_difference(changes: LeaderChanges, before: Truncations) -> tuple[Int64, Bool]:
    """[N] the first offset at which the new leader's log and the old one's differ; it is exact.

    A leader that was away during an earlier change may not have truncated since: its log differs
    from the old leader's from where it would have. One that has records of an epoch from then on
    has truncated. Where that is not known, one from the ISR or the ELR is taken to have done so.
    """
    away = before.left()
    place = keys.find(keys.pack(away.row, away.broker), keys.pack(changes.row, changes.new_leader))
    if not len(away):
        return changes.start_offset, changes.start_is_exact
    to_offset = np.where(place == UNKNOWN, UNKNOWN, away.to_offset[place])
    is_lower = (to_offset != UNKNOWN) & (to_offset < changes.start_offset)
    is_lower &= changes.found_epoch < away.leader_epoch[place]  # unknown is lower
    is_lower &= changes.is_unclean | (changes.found_epoch != UNKNOWN)
    is_exact = changes.start_is_exact & ~(is_lower & (away.answered_at_ms[place] != UNKNOWN))
    return np.where(is_lower, to_offset, changes.start_offset), is_exact


def _diverged(it: ReplicaSamples, changes: LeaderChanges) -> Truncations:
    """The former leaders, who is away, who was beyond the new epoch's start and is not now, and who
    is, outside the ISR of an unclean leader.

    Who is away may have more than it last answered.
    """
    now_ms, row = it.cycle.observed_at_ms, changes.row
    brokers = it.assignment.broker[row]
    others = it.roles.is_assigned[row] & (brokers != changes.new_leader[:, None])
    was_leader = brokers == changes.old_leader[:, None]
    is_away = it.replicas.sampled_at_ms[row] < now_ms
    is_away &= it.replicas.log_end_offset[row] != UNKNOWN
    its = keys.pack(it.prior.row, it.prior.broker)
    replicas = keys.pack(np.broadcast_to(row[:, None], brokers.shape), brokers)
    had = keys.look_up(its, it.prior.end_offset, replicas)
    has_truncated = ~is_away & (had > changes.start_offset[:, None])
    stands = changes.is_unclean[:, None] & ~it.roles.in_isr[row]
    stands &= it.replicas.sampled_at_ms[row] == now_ms
    stands &= it.replicas.log_end_offset[row] > changes.start_offset[:, None]
    seen = np.where(has_truncated, had, it.replicas.log_end_offset[row])
    seen = np.where(was_leader, changes.end_offset[:, None], seen)
    at, slot = np.nonzero(others & (was_leader | is_away | has_truncated | stands))
    sampled_at_ms = it.replicas.sampled_at_ms[row[at], slot]
    return Truncations(
        row=row[at],
        broker=brokers[at, slot],
        to_offset=np.where(changes.start_is_exact, changes.start_offset, UNKNOWN)[at],
        leader_epoch=it.partitions.leader_epoch[row[at]],
        # A former leader may have come back and answered in this very cycle.
        sampled_at_ms=np.where(was_leader[at, slot], changes.sampled_at_ms[at], sampled_at_ms),
        was_leader=was_leader[at, slot],
        is_unclean=changes.is_unclean[at],
        was_in_isr=changes.was_in_isr[at],
        answered_at_ms=np.where(sampled_at_ms >= changes.changed_at_ms[at], sampled_at_ms, UNKNOWN),
        seen_end_offset=seen[at, slot],
        stood_at_ms=np.full(len(at), UNKNOWN, np.int64),
        returned_at_ms=np.full(len(at), UNKNOWN, np.int64),
    )


def _slots(it: ReplicaSamples, row: Int32, broker: Int32) -> tuple[Rows, Bool]:
    """[N] the slot of each replica, 0 if it is no longer assigned; whether it is."""
    match = (it.assignment.broker[row] == broker[:, None]) & it.roles.is_assigned[row]
    return match.argmax(axis=1), match.any(axis=1)


@rule
def common_logs(it: ReplicaSamples, away: Truncations, changes: LeaderChanges) -> CommonLogs:
    """Unknown for replicas that are away while it is not known where a new epoch begins, for those
    outside the ISR then if the leader is unclean, and for those that may have truncated before they
    answered or not."""
    ends = it.replicas.log_end_offset.copy()
    waiting = changes.pick((changes.start_offset == UNKNOWN) & (changes.new_leader != NO_BROKER))
    doubtful = it.replicas.sampled_at_ms[waiting.row] < it.cycle.observed_at_ms
    outside = ~it.roles.in_isr[waiting.row] & ~it.roles.is_leader[waiting.row]
    doubtful |= outside & waiting.is_unclean[:, None]
    ends[waiting.row] = np.where(doubtful, UNKNOWN, ends[waiting.row])
    rows = away.left()
    slot, is_assigned = _slots(it, rows.row, rows.broker)
    rows, slot = rows.pick(is_assigned), slot[is_assigned]
    end, to_offset = ends[rows.row, slot], rows.to_offset
    is_open = (rows.answered_at_ms != UNKNOWN) & (end > to_offset)
    ends[rows.row, slot] = np.where(is_open, UNKNOWN, np.minimum(end, to_offset))
    return CommonLogs(ends)


@api_field(
    "truncations",
    "replicas that have records which the log of a new leader does not have, until they are seen "
    "to follow it: they were away when their leader changed, or do not reach the new one. Each has "
    "`broker`, the offset `to_offset` to which it truncates, and how many `records` of its last "
    "answer that removes; both null if the leader's epochs could not be read. A leader may have "
    "written more after its last answer. For a cycle after an unclean election a live replica may "
    "be listed that has truncated already",
)
def truncations_field(
    away: Truncations, assignment: Assignment, roles: Roles, replicas: Replicas
) -> list[list[dict[str, Any]]]:
    """The replicas of each partition that must truncate, by their last answers."""
    rows = away.pick((away.answered_at_ms == UNKNOWN) & (away.returned_at_ms == UNKNOWN))
    match = (assignment.broker[rows.row] == rows.broker[:, None]) & roles.is_assigned[rows.row]
    match &= ~roles.is_leader[rows.row]
    end = np.where(match, replicas.log_end_offset[rows.row], UNKNOWN).max(axis=1, initial=UNKNOWN)
    is_known = rows.to_offset != UNKNOWN
    truncates = match.any(axis=1) & (~is_known | (end > rows.to_offset))
    objects = (
        {
            "broker": int(rows.broker[i]),
            "to_offset": plain.integer(rows.to_offset[i]),
            "records": int(end[i] - rows.to_offset[i]) if is_known[i] else None,
        }
        for i in np.flatnonzero(truncates).tolist()
    )
    return plain.by_partition(rows.row[truncates], objects, len(assignment.broker))
