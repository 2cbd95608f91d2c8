"""When the snapshots of each cluster's cycles could be read."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from streaming.bus.record import Record
from twin.engine.frames import FrameHeader, header_of
from twin.engine.shard_reports import CLUSTER


class Written:
    """Of each cycle of each cluster, when all shards had a snapshot of it or of a later one.

    A batch that has several cycles of a shard writes the last state.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._parts: defaultdict[tuple[str, int, int], set[int]] = defaultdict(set)
        self._newest: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._answered: defaultdict[str, int] = defaultdict(int)
        self.read_s: dict[tuple[str, int], float] = {}
        """By name and number of the cycle, from 1, by the clock of ``time.monotonic``."""
        self.bytes = 0

    def take(self, records: Iterable[Record]) -> None:
        """Take messages of snapshots."""
        for record in records:
            self.bytes += len(record.value or b"")
            of = header(record.value or b"")
            if of.shard != CLUSTER:
                self._take(of)

    def _take(self, of: FrameHeader) -> None:
        parts = self._parts[of.cluster, of.shard, of.cycle]
        parts.add(of.part)
        newest = self._newest[of.cluster]
        if len(parts) == of.parts and of.cycle > newest.get(of.shard, 0):
            newest[of.shard] = of.cycle
            if len(newest) == self._shards:
                self._answer(of.cluster, min(newest.values()))

    def _answer(self, cluster: str, cycle: int) -> None:
        for each in range(self._answered[cluster] + 1, cycle + 1):
            self.read_s[cluster, each] = time.monotonic()
        self._answered[cluster] = cycle


def header(message: bytes) -> FrameHeader:
    """The header of a message's first frame; no rows are read."""
    with pa.ipc.open_stream(message) as stream:
        metadata = stream.schema.metadata or {}
    return header_of({name.decode(): value.decode() for name, value in metadata.items()})
