"""Messages of the bus in order → rows of the archive.

A cycle of a shard is written once the next one is there: until then, taps may add to it. So after a
restart the newest state before a batch is the one that was not written yet, and a batch that is
repeated gives the same cycles.

Cycles without a snapshot are a gap. It is filled from the observations, if the bus keeps them all.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa

from streaming.bus.connection import BusError
from streaming.bus.record import Record
from streaming.bus.view import Event, SnapshotStore
from streaming.history.archive.differences import ShardArchive
from streaming.history.archive.gap_filling import Filler, NotFilledError
from streaming.history.archive.row_layout import EVENTS, WRITTEN_IN_ORDER, hour_of, schemas
from streaming.history.archive.writing import Rows
from streaming.runtime.lru_cache import LruCache
from twin.declarations.table import UNKNOWN
from twin.engine.catalog import Catalog
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState

_IDS_KEPT: Final = 100_000
"""Ids of events that are remembered: events are delivered at least once, and each is written once.
"""

_BEGIN_ANEW: Final = 2
"""Batches that begin with whole states after a start. The first may be one that was interrupted: of
its tables some have rows that were compared with what only the killed program knew."""


class Feed:
    """Takes messages, and gives the rows of all cycles that they complete."""

    def __init__(
        self, catalog: Catalog, cluster: str, shards: int, measurements_ms: int,
        archived: Mapping[int, int], events: Iterable[str] = (), filler: Filler | None = None,
        events_known_from: str = "",
    ) -> None:  # fmt: skip
        """
        Args:
            catalog: the rules that made the states.
            cluster: its name.
            shards: how many there are.
            measurements_ms: how often measurements are written.
            archived: the newest cycle of each shard in the archive.
            events: ids of the newest events in it.
            filler: computes the states of cycles that are missing; without one gaps stay.
            events_known_from: the hour before which events are archived whose ids are not given:
                the bus may be read again from its beginning.
        """
        self._catalog, self._cluster, self._measurements_ms = catalog, cluster, measurements_ms
        self._archived = dict(archived)
        self._shards: dict[int, ShardArchive] = {}
        self._store = SnapshotStore(catalog, cluster, shards, became=self._became)
        self._newest: dict[int, ShardState] = {}
        self._together: dict[int, ShardState] = {}  # all states of one cycle, the newest such
        self._all = shards + 1  # with the cluster's own
        self._ended: list[ShardState] = []
        self._batches = 0
        self._ids: LruCache[str, None] = LruCache(_IDS_KEPT)
        for each in events:
            self._ids.put(each, None)
        self._events_known_from = events_known_from
        self._filler = filler
        # By shard, the cycle up to which gaps were to be filled, and why they were not.
        self._tried: dict[int, tuple[int, str]] = {}
        self.gaps = 0  # cycles that follow others which are missing
        self.filled = 0  # cycles of shards that were computed from observations
        self.not_filled = ""  # why the newest gap of the last batch stays one

    @property
    def archived(self) -> Mapping[int, int]:
        """The newest cycle of each shard that was given out."""
        return self._archived

    def seed(self, records: Iterable[Record]) -> None:
        """Take the snapshots before those that are to be archived."""
        for record in _in_order(records):
            self._store.take_snapshot(record.key, record.value)
        self._ended = []

    def take(self, snapshots: Iterable[Record], events: Iterable[Record]) -> dict[str, pa.Table]:
        """The rows that messages add, by table of the archive; tables without rows are left out.

        Rows of a shard follow each other, so that a reader of one shard skips those of others.
        """
        self.not_filled = ""
        rows: dict[int, Rows] = defaultdict(lambda: defaultdict(list))
        if self._batches < _BEGIN_ANEW:
            self._shards = {}
        self._batches += 1
        for record in _in_order(snapshots):
            self._store.take_snapshot(record.key, record.value)
            for state in self._ended:
                for filled in self._missing_before(state):
                    _add(rows[filled.shard], self._step(filled, is_filled=True))
                _add(rows[state.shard], self._step(state))
            self._ended = []
        self._store.publish()  # forgets what nobody looks at
        tables: Rows = defaultdict(list)
        for _, of_shard in sorted(rows.items()):
            for name, added in of_shard.items():
                tables[name] += added
        if (changes := self._events(events)) is not None:
            tables[EVENTS].append(changes)
        return {name: pa.concat_tables(tables[name]) for name in WRITTEN_IN_ORDER if tables[name]}

    def _became(self, state: ShardState) -> None:
        before = self._newest.get(state.shard)
        if before is not None and state.observed_at_ms > before.observed_at_ms:
            self._ended.append(before)
        self._newest[state.shard] = state

    def _missing_before(self, state: ShardState) -> Iterator[ShardState]:
        """The states of all shards in a gap that ends with this state, if it can be filled."""
        last_ms, until_ms = self._archived.get(state.shard, UNKNOWN), state.prev_observed_at_ms
        is_gap = UNKNOWN != last_ms < until_ms
        if self._filler is None or not is_gap:
            return
        tried_ms, why_not = self._tried.get(state.shard, (UNKNOWN, ""))
        if until_ms <= tried_ms:
            self.not_filled = why_not
            return
        shards, why_not = {state.shard}, ""
        try:
            begins = self._written_at(last_ms)
            if len(begins) < self._all:  # the cluster's own state follows from those of all shards
                begins.pop(CLUSTER, None)
            if state.shard not in begins:
                # The newest cycle with all of them in memory is some cycles back, and the newest
                # one in the archive up to an hour.
                begins = self._together or self._filler.archived(self._archived)
            shards |= begins.keys()
            for states in self._filler.states(begins, until_ms):
                yield from states
        except (NotFilledError, BusError) as error:
            self.not_filled = why_not = str(error)
            return
        finally:
            self._tried |= dict.fromkeys(shards, (until_ms, why_not))
        if self._batches <= _BEGIN_ANEW:
            # A batch that is repeated after a kill begins here, whatever is filled then.
            for shard in begins.keys() & self._shards.keys():
                self._shards[shard].begin_anew()

    def _written_at(self, at_ms: int) -> dict[int, ShardState]:
        """The states of that cycle that are in memory."""
        written = ((n, each.before) for n, each in self._shards.items())
        return {n: it for n, it in written if it is not None and it.observed_at_ms == at_ms}

    def _step(self, state: ShardState, is_filled: bool = False) -> Rows:
        last_ms = self._archived.get(state.shard, UNKNOWN)
        if state.observed_at_ms <= last_ms:
            return {}
        is_missing = last_ms not in (UNKNOWN, state.prev_observed_at_ms)
        self.gaps += is_missing
        self.filled += is_filled
        shard = self._shards.setdefault(state.shard, ShardArchive(self._measurements_ms))
        self._archived[state.shard] = state.observed_at_ms
        rows = shard.step(state, last_ms if is_missing else UNKNOWN, is_filled)
        written = self._written_at(state.observed_at_ms)
        if len(written) == self._all:
            self._together = written
        return rows

    def _events(self, records: Iterable[Record]) -> pa.Table | None:
        rows = []
        for record in records:
            try:
                event = msgspec.json.decode(record.value or b"", type=Event)
            except msgspec.MsgspecError:
                continue
            if event.cluster != self._cluster or event.id in self._ids or event.at_ms < 0:
                continue
            if hour_of(event.at_ms) < self._events_known_from:
                continue
            self._ids.put(event.id, None)
            text = (record.value or b"").decode()
            rows.append({
                "hour": hour_of(event.at_ms), "at": event.at_ms * 1_000, "id": event.id,
                "kind": event.kind, "topic": event.topic or None, "text": event.text,
                "partition": _number(json.loads(text).get("partition")),
                "broker": _number(event.broker), "event": text,
            })  # fmt: skip
        return pa.Table.from_pylist(rows, schemas(self._catalog)[EVENTS]) if rows else None


def _add(rows: Rows, more: Rows) -> None:
    for name, added in more.items():
        rows[name] += added


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _in_order(records: Iterable[Record]) -> list[Record]:
    """In the order of what they observed, whatever their partitions."""
    return sorted(records, key=_place)


def _place(record: Record) -> tuple[int, int, int, int]:
    """The cycle of a message, and its place in the chain; what cannot be read is refused later."""
    observed_ms, number = record.timestamp_ms, 0
    with suppress(pa.ArrowException, OSError, ValueError, KeyError):
        with pa.ipc.open_stream(record.value or b"") as reader:
            metadata = reader.schema.metadata or {}
        observed_ms, number = int(metadata[b"observed_at_ms"]), int(metadata.get(b"number", b"0"))
    return observed_ms, number, record.partition, record.offset
