"""The exporter on a real bus: parts in several Kafka partitions, garbage, restarts, deletions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from streaming.bus import bus_topics, record
from streaming.bus.sender import Sender
from streaming.lab.local_cluster import LocalCluster
from streaming.lab.processes import free_base_port
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.simulator.shard import Shape, SimulatedShard
from tests.waiting import until
from tests.web import get
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.step import step

pytestmark = pytest.mark.cluster

SHARDS = 2
SHAPE = Shape(topics=3, partitions=20)
WITHIN_S = 60


@pytest.fixture
def configured(cluster: LocalCluster, tmp_path: Path) -> Path:
    """A bus of its own on the shared cluster."""
    path = tmp_path / "twin.toml"
    path.write_text(
        f'[cluster]\nname = "sim"\nbootstrap = "{cluster.bootstrap}"\n'
        f'[bus]\nprefix = "exporter-{os.getpid()}-{tmp_path.name}"\nshards = {SHARDS}\n'
        f"[exporter]\nport = {free_base_port(1)}\n"
        "[collector]\ninterval_ms = 600000\n"  # what is sent once is fresh for three of these
    )
    return path


@contextmanager
def exporting(path: Path) -> Iterator[Callable[[str], str]]:
    """A running exporter, as a function that gets a path; it must end cleanly."""
    config = load(path, {})
    process = subprocess.Popen([sys.executable, "-m", "streaming", "-c", str(path), "exporter"])

    try:
        yield lambda path: get(f"http://127.0.0.1:{config.exporter.port}{path}")[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0
    finally:
        process.kill()
        process.wait()


def send(config: Config, state: ShardState, *, in_parts: bool = False) -> None:
    whole = codec.encode(state)
    messages = codec.encode_parts(state, len(whole) // 2) if in_parts else [whole]
    with Sender(config) as sender:
        for part, message in enumerate(messages):
            key = record.key("sim", state.shard) + (f"/{part}".encode() if part else b"")
            sender.send(bus_topics.topics(config).snapshots, key, message)
        sender.flush(10_000)


def send_event(config: Config, **event: str) -> None:
    with Sender(config) as sender:
        message = msgspec.json.encode({"cluster": "sim", **event})
        sender.send(bus_topics.topics(config).events, b"sim/refused", message)
        sender.flush(10_000)


def first_event(config: Config) -> Any:
    """The first event of the bus, for a client that names the beginning of its topic."""
    beginning = ",".join(f"{partition}:0" for partition in range(config.bus_partitions))
    url = f"http://127.0.0.1:{config.exporter.port}/api/v1/events"
    headers = {"Last-Event-ID": beginning}
    with httpx2.stream("GET", url, headers=headers, timeout=WITHIN_S) as response:
        data = (line for line in response.iter_lines() if line.startswith("data: "))
        return msgspec.json.decode(next(data).removeprefix("data: "))


def test_what_is_on_the_bus_is_served_and_served_again_after_a_restart(configured: Path) -> None:
    config = load(configured, {})
    bus_topics.ensure_topics(config)
    shards = [SimulatedShard(SHAPE, 1, "sim", n, SHARDS) for n in range(SHARDS)]

    def observed(shard: SimulatedShard, before: ShardState | None = None) -> ShardState:
        now_ms = time.time_ns() // 1_000_000
        state = before or ShardState.empty(CATALOG, "sim", shard.shard, SHARDS)
        return step(state, shard.observe(now_ms), now_ms)[0]

    def total(get: Callable[[str], str]) -> int:
        summary = served("/api/v1/summary")
        return int(msgspec.json.decode(summary)["partitions"] or 0) if summary else 0

    everything = SHARDS * SHAPE.topics * SHAPE.partitions
    first, second = (observed(shard) for shard in shards)
    with exporting(configured) as served:
        send(config, first)
        until(lambda: "1 of 2 shards" in served("/healthz"), WITHIN_S)
        send(config, second, in_parts=True)
        until(lambda: served("/healthz") == "ok\n", WITHIN_S)
        assert total(served) == everything
        assert 'kafka_twin_up{cluster="sim"} 1' in served("/metrics")
        with Sender(config) as sender:
            sender.send(bus_topics.topics(config).snapshots, b"sim/0", b"garbage")
            sender.flush(10_000)
        for _ in range(2):  # sent twice, counted once
            send_event(config, id="1", kind="observation_refused", reason="bytes")
        refused = 'kafka_twin_observations_refused_total{cluster="sim",reason="bytes"} 1'
        until(lambda: refused in served("/metrics"), WITHIN_S)
        garbage = 'kafka_twin_snapshots_refused_total{cluster="sim",reason="bytes"} 1'
        until(lambda: garbage in served("/metrics"), WITHIN_S)
        assert total(served) == everything

    with exporting(configured) as served:
        # The garbage is the newest of its key; what came before it is still there and is used.
        until(lambda: total(served) == everything, WITHIN_S)
        assert first_event(config)["reason"] == "bytes"
        until(lambda: refused in served("/metrics"), WITHIN_S)
        name = shards[1].topics[0][0]
        assert f'topic="{name}"' in served("/metrics")
        shards[1].delete_topic(name)
        send(config, observed(shards[1], second))
        until(lambda: f'topic="{name}"' not in served("/metrics"), WITHIN_S)
        assert total(served) == everything - SHAPE.partitions
