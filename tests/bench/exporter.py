"""The exporter: a render and a scrape of 20 000 partitions with every series, and its memory."""

from __future__ import annotations

import http.client
import resource
import time

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime.config import ExporterConfig
from tests.bench import figure
from tests.exporter.serving import served
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.step import step

START_MS = 1_800_000_000_000
SHARDS = 16
SCRAPES = 5
MAX_SCRAPE_CPU_S = 1.0
"""Longest time of a scrape of all series, the client's reading included."""


def main() -> None:
    """Render a third cycle, when labels are known, and scrape it over HTTP."""
    shape = Shape(topics=5, partitions=250, replication=3, brokers=30)
    shards = [SimulatedShard(shape, 1, "sim", i, SHARDS) for i in range(SHARDS)]
    held = [ShardState.empty(CATALOG, "sim", i, SHARDS) for i in range(SHARDS)]
    store = SnapshotStore(CATALOG, "sim", SHARDS)
    renderer = Renderer(CATALOG, "sim", ExporterConfig(max_series=10**9))
    for cycle in range(3):
        at_ms = START_MS + cycle * 5_000
        for i, shard in enumerate(shards):
            shard.traffic(5_000)
            held[i], _ = step(held[i], shard.observe(at_ms), at_ms)
            store.take_snapshot(f"sim/{i}".encode(), codec.encode(held[i]))
        view = store.publish()
        began, worked = time.perf_counter(), time.process_time()
        exposition = renderer.render(view)
        rendered, cpu = time.perf_counter() - began, time.process_time() - worked
    lines = sum(block.count(b"\n") for block in exposition.blocks)
    about = {"partitions": SHARDS * shape.topics * shape.partitions, "lines": lines}
    figure("exporter_render_seconds", rendered, "s", cpu_seconds=round(cpu, 3), **about)
    app = application(ViewSource(CATALOG, "sim", lambda: exposition, lambda: START_MS))
    with served(app) as url:
        for encoding in ("identity", "gzip"):
            worked = time.process_time()
            spent = sorted(_scrape(url, encoding) for _ in range(SCRAPES))
            cpu = (time.process_time() - worked) / SCRAPES
            seconds, size = spent[SCRAPES // 2]
            figure("exporter_scrape_seconds", seconds, "s", encoding=encoding, bytes=size,
                   cpu_seconds=round(cpu, 3), **about)  # fmt: skip
            if cpu >= MAX_SCRAPE_CPU_S:
                raise SystemExit(f"a scrape takes {cpu:.2f} s of CPU, {MAX_SCRAPE_CPU_S} s at most")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figure("exporter_peak_memory_bytes", memory, "B", **about)


def _scrape(url: str, encoding: str) -> tuple[float, int]:
    """Seconds until the last byte, and how many came."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": encoding})
    answer = connection.getresponse()
    size = 0
    while part := answer.read(1 << 20):
        size += len(part)
    connection.close()
    return time.perf_counter() - began, size


if __name__ == "__main__":
    main()
