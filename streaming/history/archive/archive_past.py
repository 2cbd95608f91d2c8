"""The past out of the archive: a second source of past moments beside replay.

Decisions are those of the cycle, measurements those of their minute. A shard of which cycles are
missing at the moment is left out: what is unknown is not filled in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.compute import Expression

from streaming.bus.bus_topics import shard_of
from streaming.bus.view import ClusterView, view_of
from streaming.history.archive import row_layout
from streaming.history.archive.base_states import BaseState, base_state_of, base_state_rows
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.rebuilding import ArchivedCycle, rebuilt
from streaming.history.archive.row_layout import (
    HOUR,
    HOUR_MS,
    hour_of,
    sparse_columns,
    times_of,
)
from streaming.history.archive.scanning import wanted_rows
from streaming.history.archive.sparse_rows import SparseRows, by_shard
from streaming.history.change_times import ChangeTimes
from streaming.history.moment import MomentError, checked_in, time_text
from streaming.history.past import PastView
from streaming.history.span import Span
from streaming.runtime.lru_cache import LruCache
from twin.cluster_step import empty_cluster
from twin.declarations.table import UNKNOWN, Array
from twin.engine.catalog import Catalog
from twin.engine.frames import InvalidFrame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState

KEPT_VIEWS: Final = 4
"""A view of a million replicas takes 134 MB."""

_SHORT_CYCLES: Final = 3
"""Cycles that may be missing without a gap: the state before them stands, marked incomplete."""

LOOK_EVERY_S: Final = 5.0
"""The longest time until newly archived cycles can be asked about."""

_NEAR_MS: Final = 300_000

_Key = tuple[bool, bool, tuple[int, ...], int | None]
"""Whether it is complete and filled, the cycles of the shards, and the one shard that it has; None
for all."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The cycle of a shard at a moment, and whether the moment is within it."""

    cycle: ArchivedCycle
    shards: int  # how many there should be
    is_filled: bool  # it was computed from observations
    is_within: bool  # the cycle after it was later than the moment
    missing_until_ms: int  # the cycle before which cycles are missing; UNKNOWN if none are


class ArchivePast:
    """The past of one cluster's archive. Threads may ask at the same time."""

    def __init__(
        self, tables: ArchiveTables, catalog: Catalog, cluster: str, interval_ms: int
    ) -> None:
        """The past of tables, which may be empty; two cycles are ``interval_ms`` apart."""
        self._tables, self._catalog, self.cluster = tables, catalog, cluster
        self._interval_ms = interval_ms
        self._lock = threading.Lock()
        self._views: LruCache[_Key, PastView] = LruCache(KEPT_VIEWS)
        self._changes: tuple[int, ChangeTimes] | None = None
        self._span: tuple[float, Span] | None = None

    @property
    def span(self) -> Span:
        """From the first cycle that is kept to the newest, as it was when somebody looked last.

        Nothing is read here, so no scrape waits.

        Raises:
            MomentError: nothing is archived yet.
        """
        return self._known_span()

    def look(self) -> None:
        """Look for cycles that were archived since the last look.

        Raises:
            ArchiveError: the archive cannot be read.
        """
        with self._lock:
            self._look()

    @property
    def changes(self) -> ChangeTimes:
        """When the changes were, by the events in the archive."""
        with self._lock:
            end_ms = self._look().end_ms
            if self._changes is None or self._changes[0] != end_ms:
                rows = self._tables.read(row_layout.EVENTS, columns=["event"])
                texts = [] if rows is None else rows.column("event").to_pylist()
                times = ChangeTimes.of((text.encode() for text in texts), self._catalog)
                self._changes = end_ms, times
            return self._changes[1]

    def cycles(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """The times of the archived cycles between two moments, both included, in order.

        Raises:
            ArchiveError: the archive cannot be read.
        """
        rows = self._rows_between(row_layout.CYCLES, from_ms, to_ms, ["at", "shard"])
        if rows is None:
            return ()
        of_shards = rows.filter(pc.not_equal(rows.column("shard"), CLUSTER))
        times: list[int] = np.unique(times_of(of_shards.column("at"))).tolist()
        return times

    def events(self, from_ms: int, to_ms: int) -> Sequence[bytes]:
        """Archived events between two moments, both included, in order of their times.

        Raises:
            ArchiveError: the archive cannot be read.
        """
        rows = self._rows_between(row_layout.EVENTS, from_ms, to_ms, ["at", "event"])
        if rows is None:
            return ()
        rows = rows.take(pc.sort_indices(rows, [("at", "ascending")]))
        return [text.encode() for text in rows.column("event").to_pylist()]

    def _rows_between(
        self, name: str, from_ms: int, to_ms: int, columns: Sequence[str]
    ) -> pa.Table | None:
        """The rows of two moments and the time between them; None if there is no table yet."""
        hours = range(from_ms // HOUR_MS * HOUR_MS, to_ms + 1, HOUR_MS)
        with self._lock:
            texts = [hour_of(each) for each in hours]
            rows = self._tables.read(name, texts, columns, until_ms=to_ms)
        if rows is None:
            return None
        return rows.filter(pa.array(times_of(rows.column("at")) >= from_ms))

    def view(self, at_ms: int, topic: str | None = None) -> PastView:
        """The cluster at a moment of the span; with a topic, the shard that it is in.

        Raises:
            MomentError: the moment is outside the span, or in a gap of all shards.
            ArchiveError: the archive cannot be read.
        """
        with self._lock:
            span = self._look()
            checked_in(at_ms, span.begin_ms, span.end_ms, at_ms)
            cycles = self._found(at_ms)
            known = {shard: each for shard, each in cycles.items() if each.missing_until_ms < 0}
            of_shards = [each for shard, each in known.items() if shard != CLUSTER]
            if not of_shards:
                raise MomentError(_gap(at_ms, cycles))
            shards = max(each.shards for each in of_shards)
            complete = len(of_shards) == shards and all(each.is_within for each in of_shards)
            times = tuple(each.cycle.at_ms for _, each in sorted(known.items()))
            filled = any(each.is_filled for each in of_shards)
            key: _Key = complete, filled, times, None
            if topic is not None and key not in self._views:
                its_shard = shard_of(topic, shards)
                known = {n: each for n, each in known.items() if n in (its_shard, CLUSTER)}
                key = complete, filled, times, its_shard
            return self._views.get(
                key,
                lambda: PastView(
                    self._view(known, shards), max(times), self._interval_ms, complete, filled
                ),
            )

    def _known_span(self) -> Span:
        if self._span is None:
            raise MomentError("nothing is archived yet")
        return self._span[1]

    def _look(self) -> Span:
        now_s = time.monotonic()
        if self._span is None or now_s - self._span[0] > LOOK_EVERY_S:
            self._tables.open()
            hours = self._tables.hours()
            rows = self._tables.read(row_layout.CYCLES, hours[:1], ["at"])
            begin = times_of(rows.column("at")) if rows is not None else np.zeros(0, np.int64)
            newest = self._tables.newest_cycles()
            if len(begin) and newest:
                self._span = now_s, Span(int(begin.min()), max(newest.values()))
        return self._known_span()

    def _found(self, at_ms: int) -> dict[int, _Found]:
        """By shard, the newest cycle at or before the moment."""
        hour = datetime.fromisoformat(f"{hour_of(at_ms)}:00")
        hours = [f"{hour + timedelta(hours=n):%Y-%m-%dT%H}" for n in (-1, 0, 1)]
        # The hour that is not compacted has a file for each minute: mostly a few are enough.
        near = self._tables.read(
            row_layout.CYCLES, hours, after_ms=at_ms - _NEAR_MS, until_ms=at_ms + _NEAR_MS
        )
        found = self._newest(near, at_ms)
        if not _is_whole(found):
            found = self._newest(self._tables.read(row_layout.CYCLES, hours), at_ms)
        return found

    def _newest(self, rows: pa.Table | None, at_ms: int) -> dict[int, _Found]:
        """By shard, the newest cycle at or before the moment, among these rows of ``cycles``."""
        if rows is None:
            return {}
        rows = rows.sort_by([("shard", "ascending"), ("at", "ascending")])
        times = {name: times_of(rows.column(name)) for name in ("at", "previous_at", "listed_at")}
        shard, number = (rows.column(name).to_numpy() for name in ("shard", "cycle"))
        measured, shards = (rows.column(n).to_numpy() for n in ("is_measured", "shards"))
        filled = _filled(rows)
        cycles = {}
        for each in np.unique(shard).tolist():
            mine = np.flatnonzero(shard == each)
            at = times["at"][mine]
            i = int(np.searchsorted(at, at_ms, "right")) - 1
            if i < 0:
                continue
            here = mine[i]
            sampled = mine[: i + 1][measured[mine[: i + 1]]]
            cycle = ArchivedCycle(
                each, int(at[i]), int(number[here]), int(times["previous_at"][here]),
                int(times["listed_at"][here]), int(times["at"][sampled[-1]]) if len(sampled) else 0,
            )  # fmt: skip
            following = mine[i + 1 : i + 2]
            judged = self._judged(cycle, at_ms, following, times, number)
            cycles[each] = _Found(cycle, int(shards[here]), bool(filled[here]), *judged)
        return cycles

    def _judged(
        self, cycle: ArchivedCycle, at_ms: int, following: Array, times: Mapping[str, Array],
        number: Array,
    ) -> tuple[bool, int]:  # fmt: skip
        """Whether the moment is within the cycle, and until when cycles are missing."""
        late = at_ms - cycle.at_ms >= self._interval_ms
        if not len(following):
            # The newest of all: cycles after it may be archived soon.
            is_old = at_ms - cycle.at_ms >= _SHORT_CYCLES * self._interval_ms
            return not late, at_ms if is_old else UNKNOWN
        after = following[0]
        after_ms = int(times["at"][after])
        is_next = int(times["previous_at"][after]) == cycle.at_ms
        # A query that is late takes two cycles at once, and only the second has a snapshot.
        is_gap = not is_next and after_ms - cycle.at_ms > _SHORT_CYCLES * self._interval_ms
        if late and is_gap:
            return False, after_ms
        return not late or int(number[after]) == cycle.number + 1, UNKNOWN

    def _view(self, known: Mapping[int, _Found], shards: int) -> ClusterView:
        states = dict(self._states(known))
        own = states.pop(CLUSTER, None)
        if own is None:
            own = empty_cluster(self._catalog, self.cluster, shards)
        return view_of(
            self._catalog, [states[n] for n in sorted(states)], own, shards, self._interval_ms
        )

    def _states(self, known: Mapping[int, _Found]) -> Iterator[tuple[int, ShardState]]:
        if not known:
            return
        until_ms = max(each.cycle.at_ms for each in known.values())
        hours = sorted({hour_of(each.cycle.at_ms) for each in known.values()})
        begins = self._begins(known, hours, until_ms)
        if not begins:
            return
        first_ms = min(each.at_ms for each in begins.values())
        wanted = wanted_rows(first_ms, until_ms, begins)
        names = (row_layout.TABLES, row_layout.PARTITIONS, row_layout.REPLICAS)
        read = {name: self._rows(name, hours, wanted) for name in names}
        for shard, begin in begins.items():
            catalog, cycle = self._catalog, known[shard].cycle
            if shard == CLUSTER:
                catalog = catalog.cluster
            rows = {
                name: found.get(shard) or SparseRows.empty(row_layout.schemas(catalog)[name])
                for name, found in read.items()
            }
            between = {n: of.between(begin.at_ms, cycle.at_ms) for n, of in rows.items()}
            with suppress(InvalidFrame):
                yield shard, rebuilt(catalog, begin, cycle, between)

    def _begins(
        self, known: Mapping[int, _Found], hours: Sequence[str], until_ms: int
    ) -> dict[int, BaseState]:
        """The newest state of each shard that has one."""
        rows = base_state_rows(self._tables, self._catalog, hours, until_ms, known)
        begins = {n: base_state_of(rows[n], each.cycle.at_ms) for n, each in known.items()}
        return {n: begin for n, begin in begins.items() if begin is not None}

    def _rows(self, name: str, hours: Sequence[str], wanted: Expression) -> dict[int, SparseRows]:
        """The wanted rows of each shard."""
        names = [each for each in row_layout.schemas(self._catalog)[name].names if each != HOUR]
        # In tables, rows of a whole state have no topic.
        coded = () if name == row_layout.TABLES else ("topic", "change")
        sparse = sparse_columns(self._catalog, name)
        batches = self._tables.batches(name, hours, names, sparse, wanted, coded)
        return by_shard(batches, sparse)


def _filled(rows: pa.Table) -> Array:
    """[N] which cycles were computed from observations; older archives do not say so."""
    if "is_filled" not in rows.column_names:
        return np.zeros(rows.num_rows, bool)
    return pc.fill_null(rows.column("is_filled"), False).to_numpy()


def _is_whole(found: Mapping[int, _Found]) -> bool:
    """Whether each shard has a cycle, one with measurements up to it, and no missing cycle."""
    of_shards = [each for shard, each in found.items() if shard != CLUSTER]
    return bool(of_shards) and all(_is_sure(each, len(of_shards)) for each in of_shards)


def _is_sure(found: _Found, shards: int) -> bool:
    is_measured = found.cycle.measured_ms > 0
    return found.shards == shards and found.missing_until_ms < 0 and is_measured


def _gap(at_ms: int, found: Mapping[int, _Found]) -> str:
    if not found:
        return f"{time_text(at_ms)} is in a gap of the archive"
    since_ms = max(each.cycle.at_ms for each in found.values())
    until_ms = min(each.missing_until_ms for each in found.values())
    until = f" to {time_text(until_ms)}" if until_ms > at_ms else ""
    return f"{time_text(at_ms)} is in a gap of the archive, from {time_text(since_ms)}{until}"
