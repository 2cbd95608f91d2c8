"""Replicas that are on their way into the ISR: how far they are, and whether they move at all.

Every follower outside the ISR whose broker is alive is joining: its fetcher never stops trying. One
that was empty when the twin first saw it is a bootstrap, and the path it took shows in where its
local log begins (KIP-1023).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.balance import NEVER, seconds_to_eligible
from twin.rules.bootstrap import as_configured
from twin.rules.coverage import coverage, held_bytes
from twin.rules.growth import WEIGHT, bytes_per_record
from twin.sparse import Joins
from twin.tables import NO_BROKER, UNKNOWN, JoinPath, Slot, StuckReason

STUCK_AFTER_MS: Final = 10_000
"""Ten tries of a fetcher that backs off for a second (replica.fetch.backoff.ms)."""

LATE_AFTER_MS: Final = 60_000
LATE_LEFT_S: Final = 3_600.0
"""A replica that still needs an hour after a minute of copying is worth a look at its throttle."""


def joins(fleet: Fleet, now_ms: int) -> Joins:
    """The joining replicas of this cycle, and those that were joining when it began.

    Derives from the ``*_before`` columns and this cycle's samples alone.
    """
    before = fleet.joins.picked(fleet.joins.since_ms < fleet.observed_at_ms)
    row, slot = np.nonzero(_outside(fleet))
    if not len(row) and not len(before):
        return Joins.none()
    broker = fleet.broker[row, slot]
    _, here, there = np.intersect1d(_key(row, broker), _key(before.row, before.broker),
                                    assume_unique=True, return_indices=True)  # fmt: skip

    def left(column: str, unknown: Any) -> Array:
        """[N] what the last cycle left of each, ``unknown`` for newcomers."""
        old = getattr(before, column)
        value = np.full(len(row), unknown, old.dtype)
        value[here] = old[there]
        return value

    end, at_ms = fleet.log_end_offset[row, slot], fleet.sampled_at_ms[row, slot]
    was_here = np.zeros(len(row), bool)
    was_here[here] = True
    path, start = _origin(
        fleet, row, slot, left("path_before", UNKNOWN), left("start_before_offset", UNKNOWN),
        was_here,
    )  # fmt: skip
    end_before, before_ms = (
        left("end_before_offset", UNKNOWN),
        left("sampled_before_ms", UNKNOWN),
    )
    moved = (end != end_before) & (end != UNKNOWN) & (end_before != UNKNOWN)
    since = left("since_ms", now_ms)
    now = Joins(
        row=row.astype(np.int32),
        broker=broker,
        joining=np.ones(len(row), np.int8),
        since_ms=since,
        path=path,
        start_offset=start,
        end_offset=end,
        sampled_at_ms=at_ms,
        moved_at_ms=np.where(moved, now_ms, left("moved_before_ms", now_ms)),
        records_per_s=_rate(
            end - end_before, at_ms - before_ms, (end_before != UNKNOWN) & (at_ms > before_ms),
            left("records_per_s_before", UNKNOWN),
        ),
        stuck=np.full(len(row), UNKNOWN, np.int8),
        path_before=left("path_before", UNKNOWN),
        start_before_offset=left("start_before_offset", UNKNOWN),
        end_before_offset=end_before,
        sampled_before_ms=before_ms,
        moved_before_ms=left("moved_before_ms", now_ms),
        records_per_s_before=left("records_per_s_before", UNKNOWN),
    )  # fmt: skip
    now = replace(now, stuck=_stuck(fleet, now, now_ms))
    ended = np.ones(len(before), bool)
    ended[there] = False
    return now.with_rows(_as_it_was(before.picked(ended)))


def as_left(table: Joins) -> Joins:
    """The table as a new cycle finds it: what is still joining, set aside as ``*_before``."""
    still = table.picked(table.joining == 1)
    return replace(
        still,
        path_before=still.path,
        start_before_offset=still.start_offset,
        end_before_offset=still.end_offset,
        sampled_before_ms=still.sampled_at_ms,
        moved_before_ms=still.moved_at_ms,
        records_per_s_before=still.records_per_s,
    )


def _as_it_was(table: Joins) -> Joins:
    """Rows that no longer join, without what an earlier frame of this cycle made of them."""
    return replace(
        table,
        joining=np.zeros(len(table), np.int8),
        path=table.path_before,
        start_offset=table.start_before_offset,
        end_offset=table.end_before_offset,
        sampled_at_ms=table.sampled_before_ms,
        moved_at_ms=table.moved_before_ms,
        records_per_s=table.records_per_s_before,
        stuck=np.full(len(table), UNKNOWN, np.int8),
    )


def active(fleet: Fleet) -> Joins:
    """The replicas that are joining now."""
    return fleet.joins.picked(fleet.joins.joining == 1)


def progress(fleet: Fleet, of: Joins) -> NDArray[np.float64]:
    """[N] share of what it has to copy that it has, 0 to 1; NaN where nobody can tell."""
    goal = fleet.of_leader(fleet.log_end_offset)[of.row]
    known = (of.start_offset != UNKNOWN) & (goal != UNKNOWN) & (of.end_offset != UNKNOWN)
    whole = np.maximum(goal - of.start_offset, 1)
    return np.where(known, np.clip((of.end_offset - of.start_offset) / whole, 0, 1), np.nan)


def seconds_left(fleet: Fleet, of: Joins) -> NDArray[np.float64]:
    """[N] until it has caught up at its rate; inf if it falls behind, NaN before it has a rate."""
    goal = fleet.of_leader(fleet.log_end_offset)[of.row]
    known = (of.records_per_s != UNKNOWN) & (goal != UNKNOWN) & (of.end_offset != UNKNOWN)
    missing = np.maximum(goal - of.end_offset, 0)
    # What is written meanwhile has to be copied as well.
    gain = of.records_per_s - np.maximum(fleet.appended_per_s[of.row], 0)
    seconds = np.where(gain > 0, missing / np.where(gain > 0, gain, 1), np.inf)
    return np.where(known, np.where(missing == 0, 0.0, seconds), np.nan)


def seconds_to_lead(fleet: Fleet, of: Joins, now_ms: int) -> NDArray[np.float64]:
    """[N] until it has caught up and holds enough local log to lead (KIP-1303).

    inf if it never will, NaN where nobody can tell. What it still has to copy counts as held: it
    will hold that much by the time it has caught up. After that it grows as its partition does.
    """
    at = of.row, (fleet.broker[of.row] == of.broker[:, None]).argmax(axis=1)
    goal = fleet.of_leader(fleet.log_end_offset)[of.row]
    end, held = fleet.log_end_offset.copy(), held_bytes(fleet)
    end[at] = np.maximum(end[at], goal)
    missing_bytes = (end[at] - of.end_offset) * bytes_per_record(fleet)[of.row]
    missing_bytes = np.where(end[at] == of.end_offset, 0.0, missing_bytes)
    known = (held[at] != UNKNOWN) & ~np.isnan(missing_bytes)
    held[at] = np.where(known, held[at] + missing_bytes, UNKNOWN)
    there = replace(fleet, log_end_offset=end, local_log_bytes=held)
    there = replace(there, coverage=coverage(there, now_ms))
    enough = seconds_to_eligible(there, now_ms)[at]
    return np.where(enough == NEVER, NEVER, np.maximum(seconds_left(fleet, of), enough))


def stuck(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] a replica of the partition is joining and does not move."""
    of = active(fleet)
    return fleet.among(of.row[of.stuck != UNKNOWN])


def late(fleet: Fleet, now_ms: int) -> NDArray[np.bool_]:
    """[P] a replica of the partition moves, and will not be there for LATE_LEFT_S, if ever."""
    of = active(fleet)
    slow = (now_ms - of.since_ms >= LATE_AFTER_MS) & (seconds_left(fleet, of) > LATE_LEFT_S)
    return fleet.among(of.row[slow & (of.stuck == UNKNOWN)])


def _outside(fleet: Fleet) -> Array:
    """[P, R] followers outside the ISR, of partitions that have a leader, on live brokers."""
    follows = (fleet.leader != NO_BROKER)[:, None] & fleet.present & ~fleet.leads
    outside: Array = follows & ~fleet.marked(Slot.IN_ISR) & ~fleet.marked(Slot.OFFLINE)
    return outside


def _origin(
    fleet: Fleet, row: Array, slot: Array, path: Array, start: Array, was_here: Array
) -> tuple[Array, Array]:
    """[N] the path and the first offset of each, kept once they are known.

    One that was here before and had nothing, or that a reassignment adds, began empty; any other
    is only catching up, from where it was first seen.
    """
    end, local = fleet.log_end_offset[row, slot], fleet.local_log_start_offset[row, slot]
    leader_local = fleet.of_leader(fleet.local_log_start_offset)[row]
    begins = (start == UNKNOWN) & (end > 0)
    was_empty = begins & (was_here | fleet.marked(Slot.ADDING)[row, slot])
    told = (local != UNKNOWN) & (leader_local != UNKNOWN)
    took = np.select(
        [
            _was_told_the_tier(fleet, row, fleet.broker[row, slot], local),
            ~told,
            local == 0,
            local > leader_local,
        ],
        [JoinPath.FROM_PENDING_UPLOAD, UNKNOWN, JoinPath.FROM_ZERO, JoinPath.FROM_PENDING_UPLOAD],
        JoinPath.FROM_LOCAL_START,
    )
    return (
        np.where(was_empty, took, path).astype(np.int8),
        np.where(was_empty, local, np.where(begins, end, start)),
    )


def _was_told_the_tier(fleet: Fleet, row: Array, broker: Array, local: Array) -> NDArray[np.bool_]:
    """[N] its log begins where its leader lately told it that uploads are pending."""
    of = fleet.starts
    _, here, there = np.intersect1d(_key(row, broker), _key(of.row, of.broker), return_indices=True)
    told = np.full(len(row), UNKNOWN, np.int64)
    told[here] = of.pending_upload_offset[there]
    began_there: NDArray[np.bool_] = (told > 0) & (told == local)
    return began_there


def _rate(records: Array, elapsed_ms: Array, measured: Array, average: Array) -> Array:
    """[N] records a second as a moving average, UNKNOWN before two samples."""
    rate = np.maximum(records, 0) / (np.where(measured, elapsed_ms, 1) / 1000)
    moved = np.where(average == UNKNOWN, rate, average + WEIGHT * (rate - average))
    return np.where(measured, moved, average)


def _stuck(fleet: Fleet, of: Joins, now_ms: int) -> NDArray[np.int8]:
    """[N] a StuckReason for those that have something to copy and do not move, else UNKNOWN.

    Where the leader's answers explain it, two looks are enough; otherwise it takes a while.
    """
    if not len(of):
        return np.zeros(0, np.int8)
    goal = fleet.of_leader(fleet.log_end_offset)[of.row]
    behind = (of.end_offset == UNKNOWN) | (goal == UNKNOWN) | (of.end_offset < goal)
    path = as_configured(fleet).path[of.row]
    empty = of.end_offset == 0
    explained = np.select(
        [
            empty & (path == JoinPath.STUCK_IDLE),
            empty & (path == JoinPath.NOTHING_TIERED_YET),
            empty & (path == JoinPath.BELOW_LOG_START),
        ],
        [StuckReason.STUCK_IDLE, StuckReason.NOTHING_TIERED_YET, StuckReason.BELOW_LOG_START],
        UNKNOWN,
    )
    answers = fleet.brokers.broker[fleet.brokers.answered]
    otherwise = np.select(
        [
            ~np.isin(of.broker, answers),
            ~np.isin(fleet.leader[of.row], answers),
            empty & (path == JoinPath.LEADER_LEARNING),
        ],
        [StuckReason.BROKER_SILENT, StuckReason.LEADER_SILENT, StuckReason.LEADER_LEARNING],
        StuckReason.UNEXPLAINED,
    )
    still_ms = now_ms - of.moved_at_ms
    return np.select(
        [~behind, (explained != UNKNOWN) & (still_ms > 0), still_ms >= STUCK_AFTER_MS],
        [UNKNOWN, explained, otherwise],
        UNKNOWN,
    ).astype(np.int8)


def _key(row: Array, broker: Array) -> Array:
    return row.astype(np.int64) << 32 | broker
