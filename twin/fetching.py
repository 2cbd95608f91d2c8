"""How the fetches of followers change what is known of them.

Fetches are events, not samples: they belong to no cycle, and the time at which they were sent does
not matter. A fetch that did not arrive after the last one known of its follower is a repeat, which
may say at most where the leader's log ended then.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from twin.fleet import Array, Fleet, to_numpy
from twin.frames import Frame, FrameRefused
from twin.rows import rows_of
from twin.rules.books import LATELY_MS, Books, fetched, fetched_by_solution_1
from twin.sparse import Fetches
from twin.tables import UNKNOWN
from twin.told import with_books

_TIME_BITS: Final = 42
"""Of a time in ms, until the year 2109; two million followers of a shard fit above them."""

_BOOKS: Final = tuple(field.name for field in fields(Books))


def merge_fetches(fleet: Fleet, frame: Frame) -> Fleet:
    """The fleet with the frame's fetches in its books; the same object if all of them were known.

    Fetches that failed and partitions that nobody listed yet are left out.

    Raises:
        FrameRefused: ``rows``, a follower has a negative broker id.
    """
    if (to_numpy(frame.rows.column("broker")) < 0).any():
        raise FrameRefused("rows", "a follower has a negative broker id")
    fleet, row = rows_of(fleet, frame.rows, create=False)
    told = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    good = (row >= 0) & (told["error_code"] == 0)
    if not good.any():
        return fleet
    told = {name: values[good] for name, values in told.items()}
    key = row[good].astype(np.int64) << 32 | told["broker"]
    told["spans"] = _spans(fleet, key, told["arrived_at_ms"], told["completed_at_ms"])
    order = np.lexsort((told["fetch_offset"], told["arrived_at_ms"], key))
    key, told = key[order], {name: values[order] for name, values in told.items()}

    follower, at = np.unique(key, return_inverse=True)
    table = _table(fleet.fetches, follower)
    held_spans = _spans(fleet, follower, table.slow_arrived_at_ms, table.slow_completed_at_ms)
    rank = np.arange(len(key)) - np.searchsorted(key, key)
    news, departures = False, fleet.departures
    for turn in range(int(rank.max()) + 1):  # the n-th fetch of every follower at once
        chosen = rank == turn
        fetch = {name: values[chosen] for name, values in told.items()}
        table, is_new, held_spans = _applied(table, at[chosen], fetch, held_spans)
        news |= is_new
        departures = with_books(departures, table)
    if not news:
        return fleet
    others = ~np.isin(_key(fleet.fetches), follower)
    joined = fleet.fetches.picked(others).with_rows(table)
    # The same followers are the same table, whoever was heard of first.
    fetches = joined.picked(np.argsort(_key(joined)))
    return replace(fleet, fetches=fetches, departures=departures)


def of_replicas(fleet: Fleet) -> Fetches:
    """The books on followers that still have a slot."""
    books = fleet.fetches
    seated = (fleet.broker[books.row] == books.broker[:, None]).any(axis=1)
    return books if seated.all() else books.picked(seated)


def _key(table: Fetches) -> Array:
    return table.row.astype(np.int64) << 32 | table.broker


def _table(known: Fetches, follower: Array) -> Fetches:
    """The rows of those followers, blank where they have none."""
    columns: dict[str, Any] = {
        field.name: np.full(len(follower), UNKNOWN, getattr(known, field.name).dtype)
        for field in fields(Fetches)
    }
    for name in ("fetched_at_ms", "caught_up_at_ms", "caught_up_solution_1_at_ms"):
        columns[name][:] = 0
    _, here, there = np.intersect1d(follower, _key(known), return_indices=True)
    for name in columns:
        columns[name][here] = getattr(known, name)[there]
    columns["row"] = (follower >> 32).astype(np.int32)
    columns["broker"] = (follower & 0xFFFFFFFF).astype(np.int32)
    return Fetches(**columns)


def _spans(fleet: Fleet, key: Array, arrived_ms: Array, completed_ms: Array) -> Array:
    """[N] the fetch waited at the moment at which its follower left the ISR, as a log tells."""
    of = fleet.departures
    if not len(of):
        return np.zeros(len(key), bool)
    # Follower and time as one number, so that one search finds the first departure since.
    follower, left = np.unique(of.row.astype(np.int64) << 32 | of.broker, return_inverse=True)
    moments = np.sort(left << _TIME_BITS | of.at_ms)
    number = np.minimum(np.searchsorted(follower, key), len(follower) - 1)
    known = (follower[number] == key) & (arrived_ms >= 0)
    since = number << _TIME_BITS | np.maximum(arrived_ms, 0)
    until = number << _TIME_BITS | np.maximum(completed_ms, 0)
    first = np.searchsorted(moments, since)
    found = moments[np.minimum(first, len(moments) - 1)]
    spans: Array = known & (first < len(moments)) & (found <= until)
    return spans


def _applied(
    table: Fetches, at: Array, fetch: dict[str, Array], held_spans: Array
) -> tuple[Fetches, bool, Array]:
    """The table after one fetch of each follower at ``at``, and whether any was news.

    Of a follower the slowest fetch of late is remembered; before all others one that waited while
    its follower was thrown out (``held_spans``: the remembered one is of that kind).
    """
    before = {field.name: getattr(table, field.name)[at] for field in fields(Fetches)}
    new_leader, is_new, completes = _news(before, fetch)
    # What a pending fetch would have changed is a thought: an estimate will do.
    estimate = np.where(new_leader, UNKNOWN, before["leader_end_estimate_offset"])
    known = estimate != UNKNOWN
    kept = known & (fetch["fetch_offset"] >= estimate)
    values = _books_after(before, new_leader, fetch)
    took = fetch["completed_at_ms"] - fetch["arrived_at_ms"]
    slow_took = before["slow_completed_at_ms"] - before["slow_arrived_at_ms"]
    forgotten = fetch["arrived_at_ms"] - before["slow_completed_at_ms"] > LATELY_MS
    slower = new_leader | forgotten | (took >= slow_took)
    slower = fetch["spans"] | (slower & ~held_spans[at]) | new_leader
    slowest = {
        "slow_arrived_at_ms": fetch["arrived_at_ms"],
        "slow_completed_at_ms": fetch["completed_at_ms"],
        "slow_caught_up_at_ms": values["caught_up_at_ms"],
        "slow_kept": np.where(known, kept, UNKNOWN),
    }
    names = ("leader", "leader_epoch", "leader_end_estimate_offset")
    values |= {name: fetch[name] for name in names}
    values |= {name: np.where(slower, new, before[name]) for name, new in slowest.items()}
    columns = {field.name: getattr(table, field.name).copy() for field in fields(Fetches)}
    for name, value in values.items():
        columns[name][at[is_new]] = value[is_new]
    told_end = fetch["leader_end_estimate_offset"]
    columns["leader_end_estimate_offset"][at[completes]] = told_end[completes]
    held_spans = held_spans.copy()
    held_spans[at] = np.where(is_new & slower, fetch["spans"], held_spans[at])
    return Fetches(**columns), bool((is_new | completes).any()), held_spans


def _news(before: dict[str, Array], fetch: dict[str, Array]) -> tuple[Array, Array, Array]:
    """[N] the fetch is of a new leader; is news at all; or says of the last one where it ended."""
    epoch, arrived = fetch["leader_epoch"], fetch["arrived_at_ms"]
    new_leader = (epoch > before["leader_epoch"]) | (
        (epoch == before["leader_epoch"]) & (fetch["leader"] != before["leader"])
    )
    same_leader = ~new_leader & (epoch == before["leader_epoch"])
    same_time = arrived == before["fetched_at_ms"]
    # A busy follower fetches more than once in a millisecond; its offset tells which came later.
    later = (arrived > before["fetched_at_ms"]) | (
        same_time & (fetch["fetch_offset"] > before["log_end_offset"])
    )
    same = same_leader & same_time & (fetch["fetch_offset"] == before["log_end_offset"])
    ended = fetch["leader_end_estimate_offset"] != UNKNOWN
    completes = same & ended & (before["leader_end_estimate_offset"] == UNKNOWN)
    return new_leader, new_leader | (same_leader & later), completes


def _books_after(
    before: dict[str, Array], new_leader: Array, fetch: dict[str, Array]
) -> dict[str, Array]:
    """[N] the books after the fetch, by Kafka's rule and by KIP-501; another leader opens new."""
    blank = Books.blank(len(new_leader))
    books = blank.where(new_leader, Books(*(before[name] for name in _BOOKS)))
    offset, log_start, arrived, completed, leader_end = (
        fetch[name]
        for name in (
            "fetch_offset",
            "log_start_offset",
            "arrived_at_ms",
            "completed_at_ms",
            "leader_end_offset",
        )
    )
    after = fetched(books, offset, log_start, arrived, leader_end)
    known = np.where(new_leader, 0, before["caught_up_solution_1_at_ms"])
    solution_1 = fetched_by_solution_1(
        replace(books, caught_up_at_ms=known), offset, log_start, arrived, completed, leader_end
    )
    return {
        **{name: getattr(after, name) for name in _BOOKS},
        "caught_up_solution_1_at_ms": solution_1.caught_up_at_ms,
    }
