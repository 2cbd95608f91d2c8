"""The newest snapshot of every shard, in memory.

One thread reads the bus and writes the snapshots; the threads of the web server read them. A view
is replaced as a whole and never changed, so no thread waits for another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from streaming.bus import record
from streaming.bus.chains import Chain
from streaming.bus.freshness import BusState, Rhythm
from streaming.bus.late import late_totals
from streaming.bus.record import key as bus_key
from streaming.bus.snapshot_parts import parts_of
from streaming.runtime.config import CollectorConfig
from streaming.runtime.lru_cache import LruCache
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.engine import codec, updates
from twin.engine.catalog import Catalog
from twin.engine.frames import FrameHeader, InvalidFrame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.engine.updates import Link
from twin.questions.whatif import Loss, lose
from twin.rules.partitions.staleness import STALE_MS
from twin.tables.state import ProblemListing
from twin.totals import Totals, cluster_sums, shard_sums

_AHEAD_MS: Final = 60_000
"""An observation that is as far in the future is not believed."""

_IDS_KEPT: Final = 100_000
"""Ids of events that are remembered: events are delivered at least once, and each counts once."""


QUERY_KINDS: Final = ("observation_refused", "state_discarded", "state_table_discarded")
"""Kinds of events that the query reports about itself; the others are changes of the cluster."""


LOSSES_KEPT: Final = 8
"""Losses that are kept for a snapshot: enough for those on a user's screen and all racks."""


@dataclass(frozen=True, slots=True)
class ShardView:
    """A shard, its totals, and the losses that were computed for it."""

    state: ShardState
    totals: Totals
    _losses: LruCache[frozenset[int], Loss] = field(
        default_factory=lambda: LruCache(LOSSES_KEPT), compare=False, repr=False
    )

    def lose(self, brokers: Collection[int]) -> Loss:
        """The loss of those brokers, computed once while this is the newest snapshot."""
        return self._losses.get(frozenset(brokers), lambda: lose(self.state, brokers))


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything observed at one moment. ``shards`` are in order of their numbers."""

    shards: tuple[ShardView, ...] = ()
    # The cluster's own shard, which has no partitions; None while its findings are unknown.
    cluster: ShardState | None = None
    shards_expected: int = 0
    rhythm: Rhythm = field(default_factory=lambda: Rhythm(CollectorConfig().interval_ms))
    bus: BusState = field(default_factory=BusState)
    snapshots_read: int = 0
    totals: Totals = field(default_factory=Totals)
    events: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    snapshots_refused: Counter[str] = field(default_factory=Counter)
    annotations: Counter[str] = field(default_factory=Counter)  # by result
    state_bytes: int = 0  # of the newest snapshots, which are the query's state
    shards_behind: int = 0  # which lack a message, and wait for a whole state
    # From the newest observations to their snapshots, of the slowest shard.
    end_to_end_latency_ms: int = UNKNOWN

    @property
    def states(self) -> list[ShardState]:
        """The state of every shard."""
        return [shard.state for shard in self.shards]

    def lose(self, brokers: Collection[int]) -> list[Loss]:
        """The loss of those brokers in every shard, computed once for all questions about it."""
        return [shard.lose(brokers) for shard in self.shards]

    @property
    def observed_at_ms(self) -> int:
        """The newest observation of the stalest shard, UNKNOWN before the first snapshot."""
        return min((shard.state.observed_at_ms for shard in self.shards), default=UNKNOWN)

    @property
    def cycle_ms(self) -> int:
        """The time between the two newest cycles, UNKNOWN before the second."""
        state = self.newest
        if state is None or state.prev_observed_at_ms == UNKNOWN:
            return UNKNOWN
        return state.observed_at_ms - state.prev_observed_at_ms

    @property
    def newest(self) -> ShardState | None:
        """The shard that was observed last; its brokers are the most recent."""
        states = [shard.state for shard in self.shards]
        return max(states, key=lambda state: state.observed_at_ms, default=None)

    @property
    def with_problems(self) -> ShardState | None:
        """The shard with the newest list of problems; None if no collector has sent one."""
        states = [shard.state for shard in self.shards if len(shard.state[ProblemListing].at_ms)]
        return max(states, key=lambda state: int(state[ProblemListing].at_ms[0]), default=None)

    def is_late(self, now_ms: int) -> bool:
        """Whether nothing was read yet, or an observation should have arrived a cycle ago."""
        age_ms = now_ms - self.observed_at_ms
        return len(self.shards) < self.shards_expected or self.rhythm.is_late(age_ms)

    def why_not_up(self, now_ms: int) -> str:
        """Why the twin is not up, in one sentence; empty while the view is complete and fresh."""
        if not self.shards:
            return self.bus.why_empty()
        if len(self.shards) < self.shards_expected:
            return f"snapshots of {len(self.shards)} of {self.shards_expected} shards were read"
        age_ms = now_ms - self.observed_at_ms
        if age_ms > self.rhythm.stale_after_ms:
            why_old = self.bus.why_old(max(age_ms, age_ms - self.rhythm.lag_ms))
            if not self.shards_behind:
                return why_old
            missed = counted(self.shards_behind, "shard lacks", "shards lack")
            return f"{why_old}; {missed} a message and waits for the next whole state"
        if -age_ms > _AHEAD_MS:
            # Until then, older observations of any collector are ignored: the twin may stand still.
            return (
                f"the newest observation is from {-age_ms // 1000} s ahead: "
                "compare the clocks of all collectors and this machine"
            )
        return ""


class SnapshotStore:
    """Takes messages of the bus and gives views."""

    def __init__(
        self,
        catalog: Catalog,
        cluster: str,
        shards: int,
        interval_ms: int = CollectorConfig().interval_ms,
        became: Callable[[ShardState], None] = lambda _: None,
    ) -> None:
        """``became`` is called with each state of each shard, published or not."""
        self._catalog, self._cluster, self._shards = catalog, cluster, shards
        self._chains: defaultdict[int, Chain] = defaultdict(lambda: Chain(became))
        self._fresh: dict[int, ShardState] = {}
        self._views: dict[int, ShardView] = {}
        self._events: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._snapshots_read = 0
        self._snapshots_refused: Counter[str] = Counter()
        self._ids: LruCache[str, None] = LruCache(_IDS_KEPT)
        self._sizes: dict[int, dict[int, int]] = {}  # by shard and place: parts, updates below 0
        # By shard: the time that its newest messages observed, and their latency.
        self._latencies: dict[int, tuple[int, int]] = {}
        self.annotations: Counter[str] = Counter()
        self.view = ClusterView(shards_expected=shards, rhythm=Rhythm(interval_ms))

    def expect(self, shards: int) -> None:
        """Expect that many shards, where the number was not known when the program started."""
        self._shards = shards
        self.view = replace(self.view, shards_expected=shards)

    def take_snapshot(self, key: bytes | None, value: bytes | None, at_ms: int = UNKNOWN) -> bool:
        """Take a message of the snapshots topic; true if it is usable. Other clusters' are not.

        ``at_ms`` is when it was written, if that is known.
        """
        if key is None or value is None or not key.startswith(f"{self._cluster}/".encode()):
            return False
        try:
            link = updates.link_of(value)
            if link is None:
                self._take_part(key, value, at_ms)
            else:
                self._take_update(key, value, link, at_ms)
        except InvalidFrame as error:
            self._snapshots_refused[error.reason] += 1
            return False
        self._snapshots_read += 1
        return True

    def _take_part(self, key: bytes, message: bytes, written_at_ms: int) -> None:
        of_cluster = record.is_of_cluster(key, self._cluster)
        decoded = codec.decode(message, self._catalog.cluster if of_cluster else self._catalog)
        state = decoded.state
        part, parts = parts_of(message)
        self._check(key, state, updates.place(0, part))
        sizes = self._sizes.setdefault(state.shard, {})
        sizes[part] = len(message)
        with self._chain(state, written_at_ms) as chain:
            before = chain.state
            chain.take_part(part, parts, decoded, message)
            if chain.state is not before:
                self._sizes[state.shard] = {n: sizes[n] for n in range(parts) if n in sizes}

    def _take_update(self, key: bytes, message: bytes, link: Link, written_at_ms: int) -> None:
        self._check(key, link.header, updates.place(link.number, 0))
        with self._chain(link.header, written_at_ms) as chain:
            chain.take_update(link, message)
            self._sizes.setdefault(link.header.shard, {})[-link.number] = len(message)

    @contextmanager
    def _chain(self, of: ShardState | FrameHeader, written_at_ms: int) -> Iterator[Chain]:
        """The chain of a shard, whose state is published if a message has changed it."""
        chain = self._chains[of.shard]
        before = chain.state
        try:
            yield chain
        finally:  # of several updates that waited, the last may be unusable
            if chain.state is not None and chain.state is not before:
                self._fresh[of.shard] = chain.state
        newest_ms, latency_ms = self._latencies.get(of.shard, (UNKNOWN, UNKNOWN))
        if written_at_ms != UNKNOWN and of.observed_at_ms >= newest_ms:
            latest_ms = written_at_ms - of.observed_at_ms
            if of.observed_at_ms == newest_ms:
                latest_ms = max(latest_ms, latency_ms)
            self._latencies[of.shard] = of.observed_at_ms, latest_ms

    def _check(self, key: bytes, of: ShardState | FrameHeader, place: str) -> None:
        """The message must be of this deployment, and its key must name its shard and place."""
        if of.shards != self._shards:
            raise InvalidFrame("shards", f"{of.shards}, configured are {self._shards}")
        expected = bus_key(of.cluster, of.shard).decode() + place
        if key != expected.encode():
            raise InvalidFrame("key", f"{expected} came under the key {key!r}")

    def take_event(self, value: bytes | None) -> Event | None:
        """Take a message of the events topic and count it once; None for repeats."""
        try:
            event = msgspec.json.decode(value or b"", type=Event)
        except msgspec.MsgspecError:
            self._snapshots_refused["event"] += 1
            return None
        if event.cluster != self._cluster or event.id in self._ids:
            return None
        self._ids.put(event.id, None)
        self._events[event.kind] += 1
        if event.kind == "observation_refused":
            self._refused[event.reason] += 1
        return event

    def note_bus(self, state: BusState) -> ClusterView:
        """Add to the view what is known of the bus."""
        if self.view.bus != state:
            self.view = replace(self.view, bus=state)
        return self.view

    def publish(self, now_ms: int = UNKNOWN) -> ClusterView:
        """Publish the messages taken so far. Snapshots that were replaced meanwhile are not
        counted.

        Args:
            now_ms: when they arrived, for a reader that goes on reading; UNKNOWN for others.
        """
        self._views |= {shard: _shard_view(state) for shard, state in self._fresh.items()}
        self._fresh = {}
        shards = tuple(self._views[n] for n in sorted(self._views) if n != CLUSTER)
        own = self._views.get(CLUSTER)
        if own is not None and _is_behind(own, shards):
            own = None
        latencies = [ms for shard, (_, ms) in self._latencies.items() if shard != CLUSTER]
        before = self.view
        self.view = ClusterView(
            shards=shards,
            shards_expected=self._shards,
            rhythm=before.rhythm,
            bus=before.bus,
            snapshots_read=self._snapshots_read,
            cluster=None if own is None else own.state,
            totals=_totals(self._catalog, shards, own),
            events=Counter(self._events),
            refused=Counter(self._refused),
            snapshots_refused=Counter(self._snapshots_refused),
            annotations=Counter(self.annotations),
            state_bytes=sum(sum(sizes.values()) for sizes in self._sizes.values()),
            shards_behind=sum(chain.is_behind for chain in self._chains.values()),
            end_to_end_latency_ms=max(latencies, default=UNKNOWN),
        )
        observed_at_ms = self.view.observed_at_ms
        if now_ms != UNKNOWN and observed_at_ms > before.observed_at_ms:
            rhythm = before.rhythm.arrived(observed_at_ms, before.observed_at_ms, now_ms)
            self.view = replace(self.view, rhythm=rhythm)
        return self.view


def view_of(
    catalog: Catalog, states: Iterable[ShardState], cluster: ShardState, shards: int,
    interval_ms: int,
) -> ClusterView:  # fmt: skip
    """The view of states that are not read from the bus, in order of their shards' numbers.

    Args:
        catalog: the rules that made them.
        states: those shards that were observed.
        cluster: the cluster's own shard.
        shards: how many there should be.
        interval_ms: the time between two cycles.
    """
    views = tuple(_shard_view(state) for state in states)
    own = None if cluster.observed_at_ms == UNKNOWN else _shard_view(cluster)
    if own is not None and _is_behind(own, views):
        own = None
    return ClusterView(
        shards=views,
        cluster=None if own is None else own.state,
        shards_expected=shards,
        rhythm=Rhythm(interval_ms, lag_ms=0),
        totals=_totals(catalog, views, own),
    )


def _shard_view(state: ShardState) -> ShardView:
    return ShardView(state, late_totals(state.observed_at_ms, lambda: shard_sums(state)))


def _totals(catalog: Catalog, shards: Sequence[ShardView], own: ShardView | None) -> Totals:
    """The totals of a view; those of shards that stay the same are not computed again."""
    if not shards:
        return Totals()
    of_shards, of_cluster = [each.totals for each in shards], None if own is None else own.totals
    newest_ms = max(each.observed_at_ms for each in of_shards)
    return late_totals(newest_ms, lambda: cluster_sums(catalog, of_shards, of_cluster))


def _is_behind(own: ShardView, shards: Collection[ShardView]) -> bool:
    """Whether the cluster's own shard was not written for a minute, while others were."""
    newest_ms = max((shard.state.observed_at_ms for shard in shards), default=UNKNOWN)
    return newest_ms - own.state.observed_at_ms > STALE_MS


class Event(msgspec.Struct):
    """The fields of an event that are used; the other fields depend on the kind."""

    id: str
    kind: str
    cluster: str
    at_ms: int = UNKNOWN
    text: str = ""
    topic: str = ""
    broker: int = UNKNOWN
    reason: str = ""
    detail: Any = ""
