"""The newest snapshot of every shard, in memory.

Written by one thread that reads the bus, read by the web server's. What readers get is replaced as
a whole, never changed, so nobody waits for anybody.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import msgspec

from twin import fleet as fleets
from twin.fleet import Fleet
from twin.frames import FrameRefused
from twin.tables import UNKNOWN
from twin.totals import Totals, totals

STALE_AFTER_MS: Final = 60_000
"""Knowledge older than this is no longer called up: twelve cycles of the default interval."""

_IDS_KEPT: Final = 100_000
"""Events are told at least once; ids of so many are remembered to count each once."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a shard's snapshot and what was counted in it."""

    fleet: Fleet
    part: int
    totals: Totals


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is known at one moment. ``pieces`` are in order of shard and part."""

    pieces: tuple[Piece, ...] = ()
    shards: int = 0  # how many there must be
    totals: Totals = field(default_factory=Totals)
    events: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    snapshots_refused: Counter[str] = field(default_factory=Counter)

    @property
    def known_shards(self) -> int:
        """Shards that have told of themselves."""
        return len({piece.fleet.shard for piece in self.pieces})

    @property
    def observed_at_ms(self) -> int:
        """The newest observation of the stalest shard, UNKNOWN before the first snapshot."""
        return min((piece.fleet.observed_at_ms for piece in self.pieces), default=UNKNOWN)

    @property
    def newest(self) -> Fleet | None:
        """The shard that was told of last; it knows the brokers best."""
        known = [piece.fleet for piece in self.pieces]
        return max(known, key=lambda fleet: fleet.observed_at_ms, default=None)

    def why_not_up(self, now_ms: int) -> str:
        """One sentence, empty while knowledge is complete and fresh."""
        if not self.pieces:
            return "no snapshot has been read yet"
        if self.known_shards < self.shards:
            return f"{self.known_shards} of {self.shards} shards have told of themselves"
        age_ms = now_ms - self.observed_at_ms
        if age_ms > STALE_AFTER_MS:
            return f"the newest observation is {age_ms // 1000} s old: is the collector running?"
        return ""


class View:
    """Takes messages, gives pictures."""

    def __init__(self, cluster: str, shards: int) -> None:
        self._cluster, self._shards = cluster, shards
        self._pieces: dict[tuple[int, int], Piece] = {}
        self._events: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._snapshots_refused: Counter[str] = Counter()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self.picture = Picture(shards=shards)

    def take_snapshot(self, key: bytes | None, value: bytes | None) -> None:
        """A message of the snapshots topic; other clusters' are passed over."""
        if key is None or value is None or not key.startswith(f"{self._cluster}/".encode()):
            return
        try:
            part = int(key.split(b"/")[2]) if key.count(b"/") == 2 else 0
            fleet = fleets.decode(value)
            if fleet.shards != self._shards:
                raise FrameRefused("shards", f"{fleet.shards}, configured are {self._shards}")
        except FrameRefused as refusal:
            self._snapshots_refused[refusal.reason] += 1
            return
        except ValueError:  # the part is no number
            self._snapshots_refused["key"] += 1
            return
        place = (fleet.shard, part)
        before = self._pieces.get(place)
        if before is not None and before.fleet.observed_at_ms > fleet.observed_at_ms:
            return
        self._pieces[place] = Piece(fleet, part, totals(fleet))

    def take_event(self, value: bytes | None) -> None:
        """A message of the events topic, counted once however often it comes."""
        try:
            event = msgspec.json.decode(value or b"", type=_Event)
        except msgspec.MsgspecError:
            self._refused["event"] += 1
            return
        if event.cluster != self._cluster or event.id in self._seen:
            return
        self._seen[event.id] = None
        if len(self._seen) > _IDS_KEPT:
            self._seen.popitem(last=False)
        self._events[event.kind] += 1
        if event.kind == "observation_refused":
            self._refused[event.reason] += 1

    def publish(self) -> Picture:
        """Make what was taken visible; parts that a shrunken shard left behind are dropped."""
        newest = {shard: 0 for shard, _ in self._pieces}
        for (shard, _), piece in self._pieces.items():
            newest[shard] = max(newest[shard], piece.fleet.observed_at_ms)
        first = {shard for (shard, part), piece in self._pieces.items()
                 if part == 0 and piece.fleet.observed_at_ms == newest[shard]}  # fmt: skip
        whole = {
            place: piece
            for place, piece in self._pieces.items()
            # Parts of one snapshot come one by one: old ones go once the new first part is there.
            if place[0] not in first or piece.fleet.observed_at_ms == newest[place[0]]
        }
        self._pieces = whole
        pieces = tuple(piece for _, piece in sorted(whole.items(), key=lambda item: item[0]))
        self.picture = Picture(
            pieces=pieces,
            shards=self._shards,
            totals=reduce(Totals.__add__, (piece.totals for piece in pieces), Totals()),
            events=Counter(self._events),
            refused=Counter(self._refused),
            snapshots_refused=Counter(self._snapshots_refused),
        )
        return self.picture


class _Event(msgspec.Struct):
    id: str
    kind: str
    cluster: str
    reason: str = ""
    detail: Any = ""
