"""The exporter on a real bus: parts in several Kafka partitions, garbage, restarts, deletions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from streaming import bus
from streaming.lab.cluster import LocalCluster
from streaming.runtime.config import Config, load
from tests.exporter.test_server import a_free_port
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin.fleet import Fleet
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
        f"[exporter]\nport = {a_free_port()}\n"
    )
    return path


@contextmanager
def exporting(path: Path) -> Iterator[Callable[[str], str]]:
    """A running exporter, as a function that gets a path; it must end cleanly."""
    config = load(path, {})
    process = subprocess.Popen([sys.executable, "-m", "streaming", "-c", str(path), "exporter"])

    def get(path: str) -> str:
        url = f"http://127.0.0.1:{config.exporter.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    try:
        yield get
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0
    finally:
        process.kill()
        process.wait()


def send(config: Config, fleet: Fleet, *, in_parts: bool = False) -> None:
    whole = fleets.encode(fleet)
    messages = fleets.encode_parts(fleet, len(whole) // 2) if in_parts else [whole]
    with bus.Sender(config) as sender:
        for part, message in enumerate(messages):
            key = bus.key("sim", fleet.shard) + (f"/{part}".encode() if part else b"")
            sender.send(bus.topics(config).snapshots, key, message)
        sender.flush(10_000)


def send_event(config: Config, **event: str) -> None:
    with bus.Sender(config) as sender:
        told = msgspec.json.encode({"cluster": "sim", **event})
        sender.send(bus.topics(config).events, b"sim/refused", told)
        sender.flush(10_000)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_is_on_the_bus_is_served_and_served_again_after_a_restart(configured: Path) -> None:
    config = load(configured, {})
    bus.ensure_topics(config)
    shards = [SimulatedShard(SHAPE, 1, "sim", n, SHARDS) for n in range(SHARDS)]

    def observed(shard: SimulatedShard, before: Fleet | None = None) -> Fleet:
        now_ms = time.time_ns() // 1_000_000
        known = before or fleets.empty("sim", shard.shard, SHARDS)
        return step(known, shard.observe(now_ms), now_ms)[0]

    def total(get: Callable[[str], str]) -> int:
        summary = get("/api/v1/summary")
        return int(msgspec.json.decode(summary)["partitions"] or 0) if summary else 0

    everything = SHARDS * SHAPE.topics * SHAPE.partitions
    first, second = (observed(shard) for shard in shards)
    with exporting(configured) as get:
        send(config, first)
        until(lambda: "1 of 2 shards" in get("/healthz"))
        send(config, second, in_parts=True)
        until(lambda: get("/healthz") == "ok\n")
        assert total(get) == everything
        assert 'kafka_twin_up{cluster="sim"} 1' in get("/metrics")
        with bus.Sender(config) as sender:
            sender.send(bus.topics(config).snapshots, b"sim/0", b"garbage")
            sender.flush(10_000)
        for _ in range(2):  # told twice, counted once
            send_event(config, id="1", kind="observation_refused", reason="bytes")
        refused = 'kafka_twin_observations_refused_total{cluster="sim",reason="bytes"} 1'
        until(lambda: refused in get("/metrics"))
        garbage = 'kafka_twin_snapshots_refused_total{cluster="sim",reason="bytes"} 1'
        until(lambda: garbage in get("/metrics"))
        assert total(get) == everything

    with exporting(configured) as get:
        # The garbage is the newest of its key; what came before it is still there and is used.
        until(lambda: total(get) == everything)
        until(lambda: refused in get("/metrics"))
        name = shards[1].topics[0][0]
        assert f'topic="{name}"' in get("/metrics")
        shards[1].delete_topic(name)
        send(config, observed(shards[1], second))
        until(lambda: f'topic="{name}"' not in get("/metrics"))
        assert total(get) == everything - SHAPE.partitions
