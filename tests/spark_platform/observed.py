"""Snapshots and events that the query wrote, and those of one process for the same observations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.bus import bus_topics
from streaming.bus.chains import Chain
from streaming.bus.reader import Reader
from streaming.query.processor import Destination, TwinProcessor
from streaming.runtime.config import Config
from streaming.runtime.plugins import enabled_proposals
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.frames import headers
from twin.engine.shard_reports import CLUSTER
from twin.engine.updates import link_of

Snapshot = bytes  # the whole state as one message, however it was sent
Cycle = Sequence[tuple[int, bytes]]  # shard and message

SNAPSHOTS: Final = "snapshots"
EVENTS: Final = "events"


class Written:
    """Snapshots by shard and time, and events, repeats included."""

    def __init__(self) -> None:
        self._chains: dict[int, Chain] = defaultdict(Chain)
        self.snapshots: dict[int, dict[int, Snapshot]] = defaultdict(dict)
        self.events: list[bytes] = []

    def add_snapshot(self, message: bytes) -> None:
        """A whole state or a part of one, or an update."""
        header, _ = headers(message)[0]
        if header.shard == CLUSTER:  # stepped by the driver; replays of shards have none
            return
        chain, link = self._chains[header.shard], link_of(message)
        if link is None:
            chain.take_part(header.part, header.parts, codec.decode(message, CATALOG), message)
        else:
            chain.take_update(link, message)
        if chain.state is not None:
            self.snapshots[header.shard][chain.state.observed_at_ms] = codec.encode(chain.state)

    def whole(self, at_ms: int) -> set[int]:
        """The shards whose snapshot of that time is complete."""
        return {shard for shard, by_time in self.snapshots.items() if at_ms in by_time}

    def at(self, at_ms: int) -> dict[int, Snapshot]:
        """The snapshots of that time, by shard."""
        return {shard: by_time[at_ms] for shard, by_time in self.snapshots.items()}


class Following(Written):
    """Snapshots and events that a query writes while it runs."""

    def __init__(self, config: Config, reader: Reader) -> None:
        super().__init__()
        self._topics, self._reader = bus_topics.topics(config), reader

    def poll(self) -> None:
        """Read what has come."""
        for record in self._reader.poll(50):
            if record.topic == self._topics.snapshots:
                self.add_snapshot(record.value or b"")
            else:
                self.events.append(record.value or b"")


def replayed(config: Config, cycles: Sequence[Cycle]) -> Written:
    """The same from one process, a batch a cycle."""
    written = Written()
    testers = [
        TwsTester(
            TwinProcessor(
                {"": Destination(config.bus.shards, SNAPSHOTS, EVENTS)}, enabled_proposals(config)
            )
        )
        for _ in range(config.bus.shards)
    ]
    for cycle in cycles:
        for shard, tester in enumerate(testers):
            messages = [message for of_shard, message in cycle if of_shard == shard]
            key = f"{config.cluster.name}/{shard}"
            for row in tester.test(key, _rows(key, messages)):
                if row.topic == SNAPSHOTS:
                    written.add_snapshot(bytes(row.value))
                elif row.topic == EVENTS:
                    written.events.append(bytes(row.value))
    return written


def _rows(key: str, messages: Sequence[bytes]) -> list[Row]:
    return [
        Row(key=key, value=message, topic="", partition=0, offset=offset, timestamp_ms=0)
        for offset, message in enumerate(messages)
    ]
