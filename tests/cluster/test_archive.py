"""``kafka-twin archive`` on real brokers: killed in the middle of commits, and started again."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import CYCLES, EVENTS, PARTITIONS, REPLICAS
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.archive.bus import CLUSTER, SHARDS, SimulatedBus
from tests.archive.bus import Program as Archived
from tests.archive.running import Program, Written
from tests.archive.test_feed import assert_equal, rows_by_key
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.alone, pytest.mark.losses]

KILLS: Final = 2
STARTS_WITHIN_S: Final = 60


class Running(Program):
    """The program, and a twin that writes to the bus."""

    def __init__(self, config: Config, path: Path) -> None:
        super().__init__(path)
        self.written = Written(config, SimulatedBus())
        self.bus, self.folder = self.written.bus, self.written.folder

    def archived(self, cycle: int) -> None:
        """Wait until that cycle is archived. A program that has ended is started again."""
        at_ms = self.bus.at_ms(cycle)

        def is_there() -> bool:
            self.restart_if_ended()
            return self.written.has(at_ms)

        until(is_there, STARTS_WITHIN_S, pause_s=2)


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
    started = Running(load(path, {}), path)
    yield started
    started.end(signal.SIGKILL)


def test_kills_in_the_middle_of_commits_leave_nothing_twice_and_nothing_missing(running: Running):
    chance = random.Random(1)
    for _ in range(10):
        running.written.cycle()
    for _ in range(KILLS):
        running.start()
        running.archived(len(running.bus.states) - 2)
        for _ in range(12):  # batches are being committed when it is killed
            running.written.cycle()
            time.sleep(chance.uniform(0.1, 0.5))
        running.end(signal.SIGKILL)
    running.start()
    running.written.cycle()
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
    past = Archived(running.bus, running.folder).past()
    for cycle in range(cycles):
        assert_equal(past, running.bus, cycle)
