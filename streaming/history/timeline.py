"""Recorded observations in the order of a replay: which messages bring each shard to each cycle.

The messages of a shard are in the order of the bus. A cycle has those up to the last one with
frames of it. So what came between two cycles, such as events of a tap, belongs to the later one, as
in a batch of the query, and the state of a cycle has nothing that came after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Generic, TypeVar

from twin.declarations.table import UNKNOWN
from twin.engine import frames
from twin.engine.frames import FrameHeader, InvalidFrame, Kinds
from twin.remote_log import segment_store
from twin.tables.observations import BrokersFrame, PartitionsFrame, ReplicasFrame

M = TypeVar("M")  # a message, or where it is


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A cycle of the collector: when it was, its number, and the shards that have all of it."""

    at_ms: int
    number: int
    whole_shards: frozenset[int]


@dataclass(frozen=True, slots=True)
class Timeline(Generic[M]):
    """Cycles in order, and the messages of each: shard and message, in the order of the bus."""

    cycles: Sequence[RecordedCycle]
    messages: Sequence[Sequence[tuple[int, M]]]

    @property
    def resolution_ms(self) -> int:
        """The usual time between two cycles; 0 if there is one cycle only."""
        pairs = zip(self.cycles, self.cycles[1:], strict=False)
        return median_low([later.at_ms - earlier.at_ms for earlier, later in pairs] or [0])

    def between(self, first: int, last: int) -> Timeline[M]:
        """The cycles from one index to another, both included."""
        return Timeline(self.cycles[first : last + 1], self.messages[first : last + 1])


@dataclass(slots=True)
class _Seen:
    """Which frames and parts of a cycle one or more messages contain."""

    number: int = UNKNOWN
    parts: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    expected: dict[str, int] = field(default_factory=dict)
    has_partitions: bool = False
    has_answers: bool = False

    def add(self, other: _Seen) -> None:
        self.number = max(self.number, other.number)
        for kind, parts in other.parts.items():
            self.parts[kind] |= parts
        self.expected |= other.expected
        self.has_partitions |= other.has_partitions
        self.has_answers |= other.has_answers

    @property
    def is_whole(self) -> bool:
        """Whether all parts of all frames are there, and the frames that every cycle has."""
        needed = {BrokersFrame.kind, PartitionsFrame.kind}
        if self.has_partitions and self.has_answers:
            needed.add(ReplicasFrame.kind)
        return needed <= self.parts.keys() and all(
            len(self.parts[kind]) == expected for kind, expected in self.expected.items()
        )


def timeline_of(
    messages: Iterable[tuple[int, bytes]], cluster: str, shards: int, kinds: Kinds
) -> Timeline[bytes]:
    """The timeline of messages: shard and message, those of a shard in the order of the bus.

    Messages that cannot be read belong to no cycle; a replay passes over them as well.
    """
    by_shard: dict[int, list[tuple[bytes, int]]] = {shard: [] for shard in range(shards)}
    seen: dict[int, dict[int, _Seen]] = defaultdict(lambda: defaultdict(_Seen))
    newest: dict[int, int] = defaultdict(lambda: UNKNOWN)
    for shard, message in messages:
        if shard not in by_shard:
            continue
        cycle_ms = UNKNOWN
        for at_ms, part in _cycles_of(message, cluster, shard, shards, kinds).items():
            if at_ms >= newest[shard]:  # else it is late, and changes nothing
                newest[shard] = cycle_ms = at_ms
                seen[at_ms][shard].add(part)
        by_shard[shard].append((message, cycle_ms))
    times = sorted(seen)
    place = {at_ms: index for index, at_ms in enumerate(times)}
    of_cycles: list[list[tuple[int, bytes]]] = [[] for _ in times]
    for shard, recorded in by_shard.items():
        _sort_in(shard, recorded, place, of_cycles)
    cycles = [
        RecordedCycle(
            at_ms,
            max(part.number for part in seen[at_ms].values()),
            frozenset(shard for shard, part in seen[at_ms].items() if part.is_whole),
        )
        for at_ms in times
    ]
    return Timeline(cycles, of_cycles)


def _sort_in(
    shard: int,
    recorded: Sequence[tuple[bytes, int]],
    place: Mapping[int, int],
    of_cycles: Sequence[list[tuple[int, bytes]]],
) -> None:
    """Assign each message to the first cycle that is complete at that message or later."""
    last = {cycle_ms: n for n, (_, cycle_ms) in enumerate(recorded) if cycle_ms != UNKNOWN}
    ends = sorted((n, place[cycle_ms]) for cycle_ms, n in last.items())
    begin = 0
    for end, index in ends:
        of_cycles[index] += [(shard, message) for message, _ in recorded[begin : end + 1]]
        begin = end + 1


def _cycles_of(
    message: bytes, cluster: str, shard: int, shards: int, kinds: Kinds
) -> dict[int, _Seen]:
    """What a message contains of each cycle; empty for events alone and for unreadable messages."""
    cycles: dict[int, _Seen] = defaultdict(_Seen)
    try:
        for metadata, rows in frames.streams(message):
            header = frames.header_of(metadata)
            if not _is_sample(header, kinds):
                continue
            if (header.cluster, header.shard, header.shards) != (cluster, shard, shards):
                continue
            part = cycles[header.observed_at_ms]
            part.number = max(part.number, header.cycle)
            part.parts[header.kind].add(header.part)
            part.expected[header.kind] = header.parts
            if header.kind == PartitionsFrame.kind:
                part.has_partitions = rows.num_rows > 0
            if header.kind == BrokersFrame.kind and "answered" in rows.column_names:
                part.has_answers = any(rows.column("answered").to_pylist())
    except InvalidFrame:
        return {}
    return cycles


def _is_sample(header: FrameHeader, kinds: Kinds) -> bool:
    """Whether the frame is of a kind that begins a cycle."""
    kind = kinds.get(header.kind)
    return kind is not None and not kind.event and header.kind not in segment_store.KINDS
