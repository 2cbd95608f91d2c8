"""The snapshots and events of a simulated twin, as they are on the bus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from streaming.bus.record import Record, key
from streaming.history.archive.archive_past import ArchivePast
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.feed import Feed
from streaming.history.archive.gap_filling import Filler
from tests.history.archive.archived import INTERVAL_MS, MEASURED_MS, START_MS
from tests.history.recorded import message
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec, updates
from twin.engine.codec import DecodedState
from twin.engine.shard_state import ShardState
from twin.engine.updates import Version
from twin.step import step

SHARDS = 2
CLUSTER = "sim"
SHAPE = Shape(topics=2, partitions=3, brokers=4)


class Cycle(NamedTuple):
    """The messages that one cycle sends to the bus, and the state of each shard after it."""

    messages: list[tuple[bytes, bytes]]  # key and value of each record
    observations: list[tuple[int, bytes]]  # shard and frames
    states: dict[int, ShardState]


class SimulatedTwin:
    """Simulated shards and the twin's states of them. The same calls give the same cycles."""

    def __init__(self, start_ms: int, cluster: str = CLUSTER, seed: int = 7) -> None:
        self._start_ms, self._cluster = start_ms, cluster
        self._simulated = [SimulatedShard(SHAPE, seed, cluster, n, SHARDS) for n in range(SHARDS)]
        self._states = {n: ShardState.empty(CATALOG, cluster, n, SHARDS) for n in range(SHARDS)}
        self._sent: dict[int, tuple[Version, DecodedState]] = {}
        self._own = empty_cluster(CATALOG, cluster, SHARDS)
        self.cycles: list[Cycle] = []

    def cycle(self, of: Sequence[int] = range(SHARDS), is_sent: bool = True) -> Cycle:
        """The next cycle, as ``SimulatedBus.cycle`` says."""
        at_ms = self._start_ms + len(self.cycles) * INTERVAL_MS
        messages: list[tuple[bytes, bytes]] = []
        observations, reported = [], []
        for n, simulated in enumerate(self._simulated):
            simulated.traffic(INTERVAL_MS)
            simulated._mishap()
            sent = simulated.observe(at_ms)
            if n in of:
                observations.append((n, message(sent)))
                self._states[n], _ = step(self._states[n], sent, at_ms)
                reported += reports(self._states[n])
                messages += self._messages(self._states[n]) if is_sent else ()
        self._own, _ = step_cluster(self._own, reported)
        if is_sent:
            for n, part in enumerate(codec.encode_parts(self._own)):
                messages.append((key(self._cluster, -1) + updates.place(0, n).encode(), part))
        self.cycles.append(Cycle(messages, observations, {**self._states, -1: self._own}))
        return self.cycles[-1]

    def _messages(self, state: ShardState) -> Iterator[tuple[bytes, bytes]]:
        version, before = self._sent.get(state.shard, (None, None))
        version, messages = updates.messages_for(state, version, before)
        for part, sent in enumerate(messages):
            yield (
                key(self._cluster, state.shard) + updates.place(version.number, part).encode(),
                sent,
            )
        kept = replace(state, judged_at_ms=state.observed_at_ms)
        self._sent[state.shard] = version, DecodedState(kept)


@cache
def shared_twin(start_ms: int) -> SimulatedTwin:
    """A twin whose every cycle has all shards and is sent. Tests share it, so it runs once."""
    return SimulatedTwin(start_ms)


@dataclass
class SimulatedBus:
    """The records that a collector and a twin have written, and the states after each cycle."""

    start_ms: int = START_MS
    records: list[Record] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    observations: list[tuple[int, int, bytes]] = field(default_factory=list)  # time, shard, frames
    states: list[dict[int, ShardState]] = field(default_factory=list)
    own_twin: SimulatedTwin | None = None
    cluster: str = CLUSTER

    def at_ms(self, cycle: int) -> int:
        return self.start_ms + cycle * INTERVAL_MS

    def cycle(self, of: Sequence[int] = range(SHARDS), is_sent: bool = True) -> None:
        """A cycle of those shards and of the cluster's own.

        One that is not sent was taken together with the next one, by a query that was late.
        """
        at_ms, number = self.at_ms(len(self.states)), len(self.states)
        if self.own_twin is None and (len(of) < SHARDS or not is_sent):
            self.own_twin = SimulatedTwin(self.start_ms)
            for _ in range(number):
                self.own_twin.cycle()
        if self.own_twin is not None:
            done = self.own_twin.cycle(of, is_sent)
        else:
            twin = shared_twin(self.start_ms)
            done = twin.cycles[number] if number < len(twin.cycles) else twin.cycle()
        self.observations += [(at_ms, n, frames) for n, frames in done.observations]
        for its_key, value in done.messages:
            self._record(self.records, its_key, value, at_ms)
        self.states.append(done.states)

    def event(self, event_id: str, at_ms: int, kind: str = "leader_moved", **more: object) -> None:
        """An event; ``more`` are further fields of it."""
        event = {"id": event_id, "kind": kind, "cluster": self.cluster, "at_ms": at_ms,
                 "text": "it is", "topic": "orders", "partition": 3, "broker": 2}  # fmt: skip
        event |= more
        self._record(self.events, b"orders", json.dumps(event).encode(), at_ms)

    def _record(self, records: list[Record], its_key: bytes, value: bytes, at_ms: int) -> None:
        records.append(Record("topic", len(records) % 3, len(records), its_key, value, at_ms))


@dataclass
class Program:
    """What the archive's program does with batches, without Spark."""

    bus: SimulatedBus
    folder: Path
    batch: int = 0
    taken: int = 0
    events_taken: int = 0
    seeded_from: int = 0
    feed: Feed | None = None
    appended: dict[str, int] = field(default_factory=dict)
    read_from_ms: list[int] = field(default_factory=list)  # where spans of observations began

    def run(self, until: int | None = None, only: int = 99) -> None:
        """A batch with all records up to that one; ``only`` so many tables are committed."""
        tables = ArchiveTables(str(self.folder))
        if self.feed is None:
            self.feed = Feed(
                CATALOG, self.bus.cluster, SHARDS, MEASURED_MS, tables.newest_cycles(),
                tables.newest_events(),
                Filler(CATALOG, self.bus.cluster, SHARDS, tables, self._observations),
                tables.events_known_from(),
            )  # fmt: skip
            self.feed.seed(self.bus.records[self.seeded_from : self.taken])
        records = self.bus.records[self.taken : until]
        rows = self.feed.take(records, self.bus.events[self.events_taken :])
        for name, added in list(rows.items())[:only]:
            tables.append(name, added, "query", self.batch)
        if only > len(rows):
            self.batch += 1
            self.taken += len(records)
            self.events_taken = len(self.bus.events)

    def _observations(self, from_ms: int, to_ms: int) -> list[tuple[int, bytes]]:
        self.read_from_ms.append(from_ms)
        kept = self.bus.observations
        return [(n, sent) for at_ms, n, sent in kept if from_ms <= at_ms <= to_ms]

    def not_filled(self) -> str:
        """Why a gap was not filled."""
        assert self.feed is not None
        return self.feed.not_filled

    def gaps(self) -> int:
        """Cycles before which others are missing."""
        assert self.feed is not None
        return self.feed.gaps

    def killed(self) -> None:
        """The next batch begins with nothing in memory."""
        self.feed = None

    def past(self) -> ArchivePast:
        """What can be asked about."""
        tables = ArchiveTables(str(self.folder))
        past = ArchivePast(tables, CATALOG, self.bus.cluster, INTERVAL_MS)
        past.look()
        return past
