"""A query that was away: how soon it has caught up with what waits on the bus, and its memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.query import twin_query as twin_query
from streaming.query.session import spark_session
from tests.bench import figure
from tests.bench.deployment import (
    START_MS,
    Simulated,
    brokers,
    configured,
    send,
    stopped_at_end,
    until_written,
)

REPLICAS = 300_000
SHARDS = 16
CYCLES = 240
MAX_OFFSETS = (1_000, 10_000)


def main() -> None:
    """The same backlog in batches of two sizes."""
    for max_offsets in MAX_OFFSETS:
        with (
            tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as home,
            brokers(None, Path(home)) as bootstrap,
        ):
            _caught_up(bootstrap, Path(home), max_offsets)


def _caught_up(bootstrap: str, home: Path, max_offsets: int) -> None:
    config = configured(bootstrap, home / "checkpoint", SHARDS, max_offsets_per_trigger=max_offsets)
    bus_topics.ensure_topics(config)
    simulated = Simulated(REPLICAS, SHARDS)
    waiting = 0
    with Sender(config, buffer_bytes=1 << 28) as sender:
        for cycle in range(CYCLES):
            messages = simulated.encoded(at_ms := START_MS + cycle * 5_000)
            waiting += sum(len(message) for _, message in messages)
            send(config, sender, messages)
    with (
        spark_session(config) as spark,
        Reader(config, [bus_topics.topics(config).snapshots], "end") as reader,
    ):
        began = time.monotonic()
        with stopped_at_end(twin_query.start(spark, [config])) as query:
            used = until_written(reader, query, SHARDS, at_ms)
            seconds = time.monotonic() - began
    about = {"replicas": simulated.replicas, "cycles": CYCLES, "bytes": waiting,
             "max_offsets_per_trigger": max_offsets}  # fmt: skip
    figure("backlog_seconds", seconds, "s", **about)
    figure("backlog_peak_memory_bytes", used.memory_bytes, "B", **about)


if __name__ == "__main__":
    main()
