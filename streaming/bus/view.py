"""The newest snapshot of every shard, in memory.

Written by one thread that reads the bus, read by the web server's. What readers get is replaced as
a whole, never changed, so nobody waits for anybody.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import msgspec

from streaming.bus.parts import Parts, parts_of
from twin import fleet as fleets
from twin.fleet import Fleet
from twin.frames import FrameRefused
from twin.tables import UNKNOWN
from twin.totals import Totals, totals

STALE_AFTER_MS: Final = 60_000
"""Knowledge older than this is no longer called up, unless cycles are that rare."""

STALE_AFTER_CYCLES: Final = 3

_IDS_KEPT: Final = 100_000
"""Events are told at least once; ids of so many are remembered to count each once."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A shard and what was counted in it."""

    fleet: Fleet
    totals: Totals


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is known at one moment. ``pieces`` are in order of shard."""

    pieces: tuple[Piece, ...] = ()
    shards: int = 0  # how many there must be
    stale_after_ms: int = STALE_AFTER_MS
    snapshots_read: int = 0
    totals: Totals = field(default_factory=Totals)
    events: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    snapshots_refused: Counter[str] = field(default_factory=Counter)
    annotations: Counter[str] = field(default_factory=Counter)  # by what became of them
    state_bytes: int = 0  # of the newest snapshots: they are the query's state
    told_after_ms: int = UNKNOWN  # from the newest observations to their snapshots, the slowest

    @property
    def known_shards(self) -> int:
        """Shards that have told of themselves."""
        return len(self.pieces)

    @property
    def observed_at_ms(self) -> int:
        """The newest observation of the stalest shard, UNKNOWN before the first snapshot."""
        return min((piece.fleet.observed_at_ms for piece in self.pieces), default=UNKNOWN)

    @property
    def cycle_ms(self) -> int:
        """Between the two newest cycles, UNKNOWN before the second."""
        fleet = self.newest
        if fleet is None or fleet.before_at_ms == UNKNOWN:
            return UNKNOWN
        return fleet.observed_at_ms - fleet.before_at_ms

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
        if age_ms > self.stale_after_ms:
            return f"the newest observation is {age_ms // 1000} s old: is the collector running?"
        if -age_ms > self.stale_after_ms:
            # Nothing older is taken until then, from any collector: the twin may stand still.
            return (
                f"the newest observation is from {-age_ms // 1000} s ahead: "
                "compare the clocks of all collectors and this machine"
            )
        return ""


class View:
    """Takes messages, gives pictures."""

    def __init__(self, cluster: str, shards: int, interval_ms: int = 0) -> None:
        self._cluster, self._shards = cluster, shards
        self._stale_after_ms = max(STALE_AFTER_MS, STALE_AFTER_CYCLES * interval_ms)
        self._parts: defaultdict[int, Parts] = defaultdict(Parts)
        self._fresh: dict[int, Fleet] = {}
        self._pieces: dict[int, Piece] = {}
        self._events: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._snapshots_read = 0
        self._snapshots_refused: Counter[str] = Counter()
        self._seen: OrderedDict[str, None] = OrderedDict()
        # Of each message of a shard: size, when it was written, and what it observed.
        self._messages: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.annotations: Counter[str] = Counter()
        self.picture = Picture(shards=shards)

    def take_snapshot(self, key: bytes | None, value: bytes | None, at_ms: int = UNKNOWN) -> bool:
        """A message of the snapshots topic; true if it could be used. Other clusters' cannot.

        ``at_ms`` is when it was written, if that is known.
        """
        if key is None or value is None or not key.startswith(f"{self._cluster}/".encode()):
            return False
        try:
            fleet = fleets.decode(value)
            if fleet.shards != self._shards:
                raise FrameRefused("shards", f"{fleet.shards}, configured are {self._shards}")
            part, parts = parts_of(value)
            _check_key(key, fleet, part)
        except FrameRefused as refusal:
            self._snapshots_refused[refusal.reason] += 1
            return False
        self._snapshots_read += 1
        self._messages[fleet.shard, part] = len(value), at_ms, fleet.observed_at_ms
        whole = self._parts[fleet.shard].take(part, parts, fleet)
        if whole is not None:
            self._fresh[fleet.shard] = whole
            for gone in [m for m in self._messages if m[0] == fleet.shard and m[1] >= parts]:
                del self._messages[gone]
        return True

    def take_event(self, value: bytes | None) -> Event | None:
        """A message of the events topic, counted once however often it comes; None if it is old."""
        try:
            event = msgspec.json.decode(value or b"", type=Event)
        except msgspec.MsgspecError:
            self._snapshots_refused["event"] += 1
            return None
        if event.cluster != self._cluster or event.id in self._seen:
            return None
        self._seen[event.id] = None
        if len(self._seen) > _IDS_KEPT:
            self._seen.popitem(last=False)
        self._events[event.kind] += 1
        if event.kind == "observation_refused":
            self._refused[event.reason] += 1
        return event

    def publish(self) -> Picture:
        """Make what was taken visible. What a newer snapshot overtook is never counted through."""
        self._pieces |= {shard: Piece(fleet, totals(fleet)) for shard, fleet in self._fresh.items()}
        self._fresh = {}
        pieces = tuple(self._pieces[shard] for shard in sorted(self._pieces))
        self.picture = Picture(
            pieces=pieces,
            shards=self._shards,
            stale_after_ms=self._stale_after_ms,
            snapshots_read=self._snapshots_read,
            totals=reduce(Totals.__add__, (piece.totals for piece in pieces), Totals()),
            events=Counter(self._events),
            refused=Counter(self._refused),
            snapshots_refused=Counter(self._snapshots_refused),
            annotations=Counter(self.annotations),
            state_bytes=sum(size for size, *_ in self._messages.values()),
            told_after_ms=max(
                (at - seen for _, at, seen in self._messages.values() if at != UNKNOWN),
                default=UNKNOWN,
            ),
        )
        return self.picture


def _check_key(key: bytes, fleet: Fleet, part: int) -> None:
    """The key says where the message belongs; so does the message."""
    wanted = f"{fleet.cluster}/{fleet.shard}" + (f"/{part}" if part else "")
    if key != wanted.encode():
        raise FrameRefused("key", f"{wanted} came under the key {key!r}")


class Event(msgspec.Struct):
    """What is read of an event; kinds differ in the rest."""

    id: str
    kind: str
    cluster: str
    at_ms: int = UNKNOWN
    text: str = ""
    topic: str = ""
    broker: int = UNKNOWN
    reason: str = ""
    detail: Any = ""
