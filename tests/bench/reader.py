"""A reader of snapshots, as the exporter is one: CPU time of a cycle, and of its first picture.

Of each build: the messages of all shards are taken and published cycle by cycle, and scraped once a
cycle; then a new reader takes what a compacted topic has.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.runtime.config import ExporterConfig
from tests.bench import figure
from tests.bench.deployment import REPLICATION, START_MS
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import updates
from twin.engine.codec import DecodedState
from twin.engine.state import ShardState
from twin.step import step

SHARDS: Final = 16
SHAPE: Final = Shape(
    topics=10, partitions=625, replication=REPLICATION, brokers=200, written_share=0.6
)
CYCLES: Final = 2 * updates.WHOLE_EVERY_CYCLES + 1

Messages = list[tuple[bytes, bytes]]  # key and value


def main() -> None:
    """Print the figures of 300 000 replicas."""
    replicas = SHARDS * SHAPE.topics * SHAPE.partitions * SHAPE.replication
    cycles = _messages()
    store = SnapshotStore(CATALOG, "sim", SHARDS)
    renderer = Renderer(CATALOG, "sim", ExporterConfig(granularity="topic"))
    taken_s, scraped_s = [], []
    for messages in cycles:
        taken_s.append(_take(store, messages))
        began = time.process_time()
        renderer.render(store.view)
        scraped_s.append(time.process_time() - began)
    steady = slice(-updates.WHOLE_EVERY_CYCLES, None)  # a whole state of every shard
    sizes = [sum(len(value) for _, value in messages) for messages in cycles]
    newest = {key: value for messages in cycles for key, value in messages}
    for name, value, unit in (
        ("reader_cycle_cpu_milliseconds", statistics.mean(taken_s[steady]) * 1e3, "ms"),
        ("reader_scrape_cpu_milliseconds", statistics.mean(scraped_s[steady]) * 1e3, "ms"),
        ("reader_cycle_bytes_per_replica", statistics.mean(sizes[steady]) / replicas, "B"),
        ("new_reader_cpu_milliseconds", _first_picture_s(list(newest.items())) * 1e3, "ms"),
    ):
        figure(name, value, unit, replicas=replicas)


def _take(store: SnapshotStore, messages: Messages) -> float:
    """CPU seconds until those messages are in the view."""
    began = time.process_time()
    for key, value in messages:
        assert store.take_snapshot(key, value)
    store.publish()
    return time.process_time() - began


def _first_picture_s(messages: Messages) -> float:
    """CPU seconds of a reader that has nothing yet: the median of three."""
    spent = []
    for _ in range(3):
        store = SnapshotStore(CATALOG, "sim", SHARDS)
        spent.append(_take(store, messages))
        assert len(store.view.shards) == SHARDS
    return statistics.median(spent)


def _messages() -> list[Messages]:
    """What the query writes in each cycle, for all shards."""
    cycles: list[Messages] = [[] for _ in range(CYCLES)]
    for number in range(SHARDS):
        shard = SimulatedShard(SHAPE, 1, "sim", number, SHARDS)
        known, version = DecodedState(ShardState.empty(CATALOG, "sim", number, SHARDS)), None
        for cycle, observed in enumerate(shard.run(CYCLES, START_MS)):
            state, _ = step(known.state, observed, observed[0].header.observed_at_ms)
            version, messages = updates.messages_for(state, version, known)
            known = DecodedState(state.as_sent())
            for part, message in enumerate(messages):
                key = f"sim/{number}{updates.place(version.number, part)}"
                cycles[cycle].append((key.encode(), message))
    return cycles


if __name__ == "__main__":
    main()
