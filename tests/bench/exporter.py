"""The exporter: a render and a scrape of 20 000 partitions with every series, and its memory."""

from __future__ import annotations

import resource
import time

from starlette.testclient import TestClient

from streaming.config import Exporter
from streaming.exporter.api import application
from streaming.exporter.metrics import Renderer
from streaming.exporter.view import View
from tests.bench import figure
from twin import fleet as fleets
from twin.simulate import Shape, SimulatedShard
from twin.step import step

START_MS = 1_800_000_000_000
SHARDS = 16
SCRAPES = 5


def main() -> None:
    """Render a second cycle, when labels are known, and scrape it."""
    shape = Shape(topics=5, partitions=250, replication=3, brokers=30)
    shards = [SimulatedShard(shape, 1, "sim", i, SHARDS) for i in range(SHARDS)]
    held = [fleets.empty("sim", i, SHARDS) for i in range(SHARDS)]
    view = View("sim", SHARDS)
    renderer = Renderer("sim", Exporter(max_series=10**9))
    for cycle in range(3):
        at_ms = START_MS + cycle * 5_000
        for i, shard in enumerate(shards):
            shard.traffic(5_000)
            held[i], _ = step(held[i], shard.observe(at_ms), at_ms)
            view.take_snapshot(f"sim/{i}".encode(), fleets.encode(held[i]))
        picture = view.publish()
        began = time.perf_counter()
        exposition = renderer.render(picture)
        rendered = time.perf_counter() - began
    series = exposition.body.count(b"\n")
    about = {"partitions": SHARDS * shape.topics * shape.partitions, "lines": series}
    figure("exporter_render_seconds", rendered, "s", **about)
    client = TestClient(application("sim", lambda: exposition, lambda: START_MS))
    for encoding in ("identity", "gzip"):
        spent = []
        for _ in range(SCRAPES):
            began = time.perf_counter()
            with client.stream("GET", "/metrics", headers={"accept-encoding": encoding}) as answer:
                size = sum(len(part) for part in answer.iter_raw())
            spent.append(time.perf_counter() - began)
        seconds = sorted(spent)[SCRAPES // 2]
        figure("exporter_scrape_seconds", seconds, "s", encoding=encoding, bytes=size, **about)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figure("exporter_peak_memory_bytes", memory, "B", **about)


if __name__ == "__main__":
    main()
