"""A reader of snapshots, as the exporter is one: CPU time of a cycle, and of its first picture.

A reader takes and publishes the messages of all shards, cycle by cycle, with a scrape after each
cycle. Then a new reader takes what a compacted topic has.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.runtime.config import ExporterConfig
from tests.bench import figure
from tests.bench.deployment import REPLICATION, messages_of
from tests.simulator.shard import Shape
from twin.builtin import CATALOG
from twin.engine import updates

SHARDS: Final = 16
SHAPE: Final = Shape(
    topics=10, partitions=625, replication=REPLICATION, brokers=200, written_share=0.6
)
CYCLES: Final = 2 * updates.WHOLE_EVERY_CYCLES + 1

Messages = list[tuple[bytes, bytes]]  # key and value


def main() -> None:
    """Print the figures of 300 000 replicas."""
    replicas = SHARDS * SHAPE.topics * SHAPE.partitions * SHAPE.replication
    cycles: list[Messages] = [[] for _ in range(CYCLES)]
    for number in range(SHARDS):
        for cycle, messages in enumerate(messages_of(SHAPE, number, SHARDS, CYCLES)):
            cycles[cycle] += [(key.encode(), message) for key, message in messages]
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


if __name__ == "__main__":
    main()
