"""What brokers' logs tell beyond fetches: ISR changes, and followers that ask where the tier ends.

These are events, not samples: they belong to no cycle. The same event may come from two logs (the
leader's, and the controller's) or twice from one, so each is recognised by who, where and when.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from twin.fleet import Array, Fleet, to_numpy
from twin.frames import Frame, FrameRefused
from twin.rows import rows_of
from twin.sparse import Departures, Fetches, Starts
from twin.tables import UNKNOWN

KEPT_MS: Final = 600_000
"""How long an event is remembered: as long as the shrinks that it explains."""

SAME_MS: Final = 1_000
"""Two tellings of one departure are this close: a leader checks each half of the lag limit only."""


def merge_isr_changes(fleet: Fleet, frame: Frame) -> Fleet:
    """The fleet with the departures the frame tells of, and with who came back.

    Raises:
        FrameRefused: ``rows``, a replica has a negative broker id.
    """
    fleet, row, told = _told(fleet, frame)
    if not len(row):
        return fleet
    left = told["left"]
    news = Departures(
        row=row[left].astype(np.int32),
        leader=told["leader"][left],
        broker=told["broker"][left],
        at_ms=told["at_ms"][left],
        back_at_ms=np.full(left.sum(), UNKNOWN, np.int64),
        behind=_behind(told)[left],
        told_caught_up_at_ms=told["caught_up_at_ms"][left],
        kept_caught_up_at_ms=np.full(left.sum(), UNKNOWN, np.int64),
    )
    known = _once(fleet.departures.with_rows(news))
    if len(known):
        known = _returned(known, row[~left], told["broker"][~left], told["at_ms"][~left])
    return replace(fleet, departures=known) if _differ(known, fleet.departures) else fleet


def merge_tier_starts(fleet: Fleet, frame: Frame) -> Fleet:
    """The fleet with the last question of each follower that asked where the tier ends.

    Raises:
        FrameRefused: ``rows``, a replica has a negative broker id.
    """
    fleet, row, told = _told(fleet, frame)
    known = fleet.starts
    key = _key(row, told["broker"])
    last = _looked_up(_key(known.row, known.broker), known.at_ms, key)
    new = told["at_ms"] > last
    if not new.any():
        return fleet
    key, row, told = key[new], row[new], {name: value[new] for name, value in told.items()}
    order = np.lexsort((told["at_ms"], key))
    _, first, count = np.unique(key[order], return_index=True, return_counts=True)
    newest = order[first + count - 1]
    before = _looked_up(_key(known.row, known.broker), known.asked, key[newest])
    fresh = Starts(
        row=row[newest].astype(np.int32),
        broker=told["broker"][newest],
        leader=told["leader"][newest],
        at_ms=told["at_ms"][newest],
        pending_upload_offset=told["pending_upload_offset"][newest],
        error_code=told["error_code"][newest],
        asked=(np.maximum(before, 0) + count).astype(np.int32),
    )
    others = known.picked(~np.isin(_key(known.row, known.broker), key))
    joined = others.with_rows(fresh)
    return replace(fleet, starts=joined.picked(np.argsort(_key(joined.row, joined.broker))))


def of_late(fleet: Fleet, now_ms: int) -> tuple[Departures, Starts]:
    """Departures and questions without those older than KEPT_MS."""
    departures, starts = fleet.departures, fleet.starts
    return (
        departures.picked(now_ms - departures.at_ms <= KEPT_MS),
        starts.picked(now_ms - starts.at_ms <= KEPT_MS),
    )


def with_books(of: Departures, books: Fetches) -> Departures:
    """The departures with the caught-up times that the twin's own books held when they happened.

    Books go on, so they are read after every fetch, and what they proved once stays. The fetch that
    waited while a replica was thrown out is remembered longer, with what it proved.
    """
    if not len(of) or not len(books):
        return of
    row = _found(_key(books.row, books.broker), _key(of.row, of.broker))
    there = row != UNKNOWN
    there &= books.leader[row] == of.leader
    kept = of.kept_caught_up_at_ms
    so_far = there & (books.fetched_at_ms[row] <= of.at_ms)
    spanned = there & (books.slow_arrived_at_ms[row] <= of.at_ms)
    spanned &= books.slow_completed_at_ms[row] > of.at_ms - SAME_MS
    for held, at_ms in ((so_far, books.caught_up_at_ms[row]),
                        (spanned, books.slow_caught_up_at_ms[row])):  # fmt: skip
        kept = np.where(held & (at_ms > 0), np.maximum(kept, at_ms), kept)
    return replace(of, kept_caught_up_at_ms=kept)


def _told(fleet: Fleet, frame: Frame) -> tuple[Fleet, Array, dict[str, Array]]:
    """The rows of the frame whose partition is known, and where each stands."""
    if (to_numpy(frame.rows.column("broker")) < 0).any():
        raise FrameRefused("rows", "a replica has a negative broker id")
    fleet, row = rows_of(fleet, frame.rows, create=False)
    listed = row >= 0
    told = {name: to_numpy(frame.rows.column(name))[listed] for name in frame.rows.column_names}
    return fleet, row[listed], told


def _behind(told: dict[str, Array]) -> Array:
    """[N] the leader had more than the replica (tri-state)."""
    end, leader_end = told["log_end_offset"], told["leader_end_offset"]
    known = (end != UNKNOWN) & (leader_end != UNKNOWN)
    return np.where(known, end < leader_end, UNKNOWN).astype(np.int8)


def _once(of: Departures) -> Departures:
    """Each departure once: of two tellings the leader's own wins, which knows more."""
    if not len(of):
        return of
    says_more = of.told_caught_up_at_ms != UNKNOWN
    key = _key(of.row, of.broker)
    order = np.lexsort((of.at_ms, key))
    key, at_ms = key[order], of.at_ms[order]
    starts = np.ones(len(order), bool)
    starts[1:] = (key[1:] != key[:-1]) | (at_ms[1:] - at_ms[:-1] > SAME_MS)
    group = np.cumsum(starts) - 1
    best = np.lexsort((at_ms, ~says_more[order], group))
    first = np.searchsorted(group[best], np.arange(group[-1] + 1))
    chosen = of.picked(order[best[first]])
    begins = np.flatnonzero(starts)
    whole: dict[str, Any] = {
        name: np.maximum.reduceat(getattr(of, name)[order], begins)
        for name in ("back_at_ms", "behind", "kept_caught_up_at_ms")
    }
    return replace(chosen, **whole)


def _returned(of: Departures, row: Array, broker: Array, at_ms: Array) -> Departures:
    """The departures with the time of the first return after each."""
    came = (_key(row, broker)[:, None] == _key(of.row, of.broker)) & (at_ms[:, None] >= of.at_ms)
    # The last departure before it: they ascend within a replica.
    last = came.shape[1] - 1 - came[:, ::-1].argmax(axis=1)
    which, when = last[came.any(axis=1)], at_ms[came.any(axis=1)]
    back = np.where(of.back_at_ms == UNKNOWN, np.iinfo(np.int64).max, of.back_at_ms)
    np.minimum.at(back, which, when)
    return replace(of, back_at_ms=np.where(back == np.iinfo(np.int64).max, UNKNOWN, back))


def _differ(one: Departures, other: Departures) -> bool:
    return len(one) != len(other) or any(
        not np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Departures)
    )


def _looked_up(keys: Array, values: Array, wanted: Array) -> Array:
    """[N] the value of each wanted key, UNKNOWN where it is not among the keys."""
    if not len(keys):
        return np.full(len(wanted), UNKNOWN, values.dtype)
    at = _found(keys, wanted)
    return np.where(at == UNKNOWN, np.array(UNKNOWN, values.dtype), values[at])


def _found(keys: Array, wanted: Array) -> Array:
    """[N] where each wanted key stands among the keys, UNKNOWN for nowhere."""
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, UNKNOWN)


def _key(row: Array, broker: Array) -> Array:
    return row.astype(np.int64) << 32 | broker
