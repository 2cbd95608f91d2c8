"""Questions over HTTP and MCP at growing sizes, and what a scrape takes while they are asked."""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from streaming.bus import record
from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime import logs
from streaming.runtime.config import ExporterConfig
from tests.bench import figure
from tests.exporter.serving import served
from tests.log_dir_frames import Directory, log_dirs_frame
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.step import step

START_MS: Final = 1_800_000_000_000
DISKS_MS: Final = 60_000
"""What logs will take is added up once a minute."""

BROKERS: Final = 30
SIZES: Final = ((300_000, 16, 0.02), (1_000_000, 25, 0.1))
"""Replicas, the shards that they are in, and the seconds in which ``lose`` is to be answered."""

TIMES: Final = 21
ASKING: Final = 8
"""Clients that ask all the time while scrapes are measured."""

QUESTIONS: Final = {
    "lose": "/api/v1/whatif/lose?broker=3&limit=100",
    "lose_two_and_a_rack": "/api/v1/whatif/lose?broker=3&broker=4&rack=az-a&limit=100",
    "pairs": "/api/v1/whatif/pairs?limit=100",
    "load": "/api/v1/whatif/load?limit=100",
    "load_of_one": "/api/v1/whatif/load?broker=3&limit=100",
    "restart": "/api/v1/brokers/3/restart",
    "retention": "/api/v1/whatif/retention?local_ms=1h",
    "tier_outage": "/api/v1/whatif/tier-outage",
    "tier_outage_without_one": "/api/v1/whatif/tier-outage?broker=3",
    "log_dirs": "/api/v1/brokers/log-dirs",
}

CALL: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "what_if_lose", "arguments": {"broker": [3], "limit": 100}},
    }
)
"""``lose`` as an agent asks it."""


def main(arguments: Sequence[str]) -> None:
    """Print the figures of each size; of the large one with ``--full``."""
    logs.configure()  # calls of agents are logged: not among the figures
    for replicas, shards, goal_s in SIZES if "--full" in arguments else SIZES[:1]:
        about = {"replicas": replicas, "brokers": BROKERS, "shards": shards}
        with _exporter(replicas, shards) as url:
            for name, path in QUESTIONS.items():
                more = {"goal_seconds": goal_s} if name == "lose" else {}
                _measure(f"question_{name}_seconds", url, path, **more, **about)
            _measure("question_lose_by_mcp_seconds", url, "/mcp", CALL, **about)
            _measure("scrape_seconds", url, "/metrics", asked_beside=0, **about)
            with _busy(url, QUESTIONS["lose"]):
                _measure("scrape_seconds", url, "/metrics", asked_beside=ASKING, **about)
            with _busy(url, "/mcp", CALL):
                _measure("scrape_seconds", url, "/metrics", called_beside=ASKING, **about)


def _measure(name: str, url: str, path: str, body: str | None = None, **about: Any) -> None:
    """The median of several answers; its CPU is that of all threads, the client's too."""
    worked = time.process_time()
    spent = [_ask(url, path, body) for _ in range(TIMES)]
    cpu = (time.process_time() - worked) / TIMES
    figure(name, statistics.median(spent), "s", slowest=round(max(spent), 4),
           cpu_seconds=round(cpu, 4), **about)  # fmt: skip


@contextmanager
def _exporter(replicas: int, shards: int) -> Iterator[str]:
    """The URL of an exporter of that many replicas, which serves the sums of the cluster."""
    shape = Shape(topics=10, partitions=replicas // 3 // shards // 10, replication=3,
                  brokers=BROKERS, cold_share=0.005)  # fmt: skip
    store = SnapshotStore(CATALOG, "sim", shards)
    disks = [Directory(broker, 0, 10 << 40, 5 << 40) for broker in range(BROKERS)]
    reported: list[Frame] = []
    for i in range(shards):
        shard = SimulatedShard(shape, 1, "sim", i, shards)
        held = ShardState.empty(CATALOG, "sim", i, shards)
        for cycle in range(2):
            at_ms = START_MS + cycle * DISKS_MS
            shard.traffic(DISKS_MS)
            frames = shard.observe(at_ms)
            of = {"cluster": "sim", "shard": i, "shards": shards, "cycle": frames[0].header.cycle}
            held, _ = step(held, [*frames, log_dirs_frame(disks, at_ms, **of)], at_ms)
        reported += reports(held)
        store.take_snapshot(f"sim/{i}".encode(), codec.encode(held))
    own, _ = step_cluster(empty_cluster(CATALOG, "sim", shards), reported)
    store.take_snapshot(record.key("sim", CLUSTER), codec.encode(own))
    exposition = Renderer(CATALOG, "sim", ExporterConfig(granularity="cluster")).render(
        store.publish()
    )
    source = ViewSource(CATALOG, "sim", lambda: exposition, lambda: START_MS + DISKS_MS + 1_000)
    with served(application(source)) as url:
        yield url


def _ask(url: str, path: str, body: str | None = None) -> float:
    """Seconds until the answer is there; with a body it is a call by MCP."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    began = time.perf_counter()
    if body is None:
        connection.request("GET", path)
    else:
        accept = "application/json, text/event-stream"
        headers = {"Content-Type": "application/json", "Accept": accept}
        connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    spent = time.perf_counter() - began
    connection.close()
    if answer.status != http.client.OK or b'"isError":true' in content:
        raise SystemExit(f"{path}: {answer.status} {content.decode()}")
    return spent


@contextmanager
def _busy(url: str, path: str, body: str | None = None) -> Iterator[None]:
    """Clients that ask all the time."""
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            _ask(url, path, body)

    threads = [threading.Thread(target=ask) for _ in range(ASKING)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
