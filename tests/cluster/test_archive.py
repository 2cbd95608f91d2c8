"""``kafka-twin archive`` on real brokers: killed in the middle of commits, and started again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.bus import bus_topics
from streaming.bus.sender import Sender
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import CYCLES, EVENTS, PARTITIONS, REPLICAS
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.archive.bus import CLUSTER, SHARDS, Program, SimulatedBus
from tests.archive.test_feed import assert_equal, rows_by_key
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.alone, pytest.mark.losses]

KILLS: Final = 2
STARTS_WITHIN_S: Final = 60


class Running:
    """The program, which is started again and again, and the bus that it reads."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.bus, self.folder = SimulatedBus(), folder / "archive"
        self._topics, self._sender = bus_topics.topics(config), Sender(config)
        self._sent = self._events_sent = 0
        self._log = folder / "archive.log"
        path = str(folder / "twin.toml")
        self._command = [sys.executable, "-m", "streaming", "--config", path, "archive"]
        self._process: subprocess.Popen[bytes] | None = None

    def cycle(self) -> None:
        number = len(self.bus.states)
        self.bus.cycle()
        self.bus.event(f"event-{number}", self.bus.at_ms(number))
        for record in self.bus.records[self._sent :]:
            self._sender.send(self._topics.snapshots, record.key, record.value)
        for record in self.bus.events[self._events_sent :]:
            self._sender.send(self._topics.events, record.key, record.value)
        self._sent, self._events_sent = len(self.bus.records), len(self.bus.events)
        self._sender.flush(60_000)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(120)

    def newest_ms(self) -> int:
        """The newest cycle of all shards. A program that has ended is started, as ``run`` does."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.start()
        return min(ArchiveTables(str(self.folder)).newest_cycles().values(), default=0)

    def archived(self, cycle: int) -> None:
        """Wait until that cycle is archived."""
        at_ms = self.bus.at_ms(cycle)
        until(lambda: self.newest_ms() >= at_ms, STARTS_WITHIN_S, pause_s=2)


@pytest.fixture
def running(cluster: LocalCluster, tmp_path: Path) -> Iterator[Running]:
    path = tmp_path / "twin.toml"
    path.write_text(
        f"""
        [cluster]
        name = "{CLUSTER}"
        bootstrap = "{cluster.bootstrap}"
        [bus]
        prefix = "{tmp_path.name}"
        shards = {SHARDS}
        [archive]
        path = "{tmp_path / "archive"}"
        measurements_ms = 30000
        trigger_ms = 1000
        """
    )
    config = load(path, {})
    bus_topics.ensure_topics(config)
    started = Running(config, tmp_path)
    yield started
    started.end(signal.SIGKILL)


def test_kills_in_the_middle_of_commits_leave_nothing_twice_and_nothing_missing(running: Running):
    chance = random.Random(1)
    for _ in range(10):
        running.cycle()
    for _ in range(KILLS):
        running.start()
        running.archived(len(running.bus.states) - 2)
        for _ in range(12):  # batches are being committed when it is killed
            running.cycle()
            time.sleep(chance.uniform(0.1, 0.5))
        running.end(signal.SIGKILL)
    running.start()
    running.cycle()
    cycles = len(running.bus.states) - 1
    running.archived(cycles - 1)
    running.end(signal.SIGTERM)
    for name in (CYCLES, PARTITIONS, REPLICAS):
        assert set(rows_by_key(running.folder, name).values()) == {1}
    events = ArchiveTables(str(running.folder)).read(EVENTS)
    assert events is not None
    assert sorted(events.column("id").to_pylist()) == sorted(
        f"event-{n}" for n in range(cycles + 1)
    )
    past = Program(running.bus, running.folder).past()
    for cycle in range(cycles):
        assert_equal(past, running.bus, cycle)
