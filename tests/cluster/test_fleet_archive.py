"""One ``kafka-twin archive`` for several clusters: none loses or delays what another archives."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import CYCLES, EVENTS, PARTITIONS, REPLICAS
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.configuration.loading import load
from tests.archive.bus import SHARDS, SimulatedBus, SimulatedTwin
from tests.archive.bus import Program as Archived
from tests.archive.running import Program, Written
from tests.archive.test_feed import assert_equal, rows_by_key
from tests.history.archive.archived import START_MS
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.alone, pytest.mark.losses]

WITHIN_S: Final = 90


class Fleet:
    """The configuration, its program, and the twins that write to the bus."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.path, self.twins = folder / "twin.toml", dict[str, Written]()
        self._bootstrap = bootstrap
        self.program = Program(self.path)

    def configure(self, *names: str) -> None:
        """The clusters that the file names; they have equal topics with equal ids."""
        folder = self.path.parent
        clusters = "\n".join(
            f'[clusters.{name}]\nbootstrap = "nowhere-{name}:9092"' for name in names
        )
        written = self.path.with_suffix(".new")
        written.write_text(
            f"""
            [bus]
            bootstrap = "{self._bootstrap}"
            prefix = "{folder.name}"
            shards = {SHARDS}
            [archive]
            path = "{folder / "archive"}"
            measurements_ms = 30000
            trigger_ms = 1000
            {clusters}
            """
        )
        written.replace(self.path)
        for seed, name in enumerate(names):
            if name not in self.twins:
                bus = SimulatedBus(own_twin=SimulatedTwin(START_MS, name, seed), cluster=name)
                self.twins[name] = Written(load(self.path, {}, name), bus)

    def cycles(self, number: int, *names: str) -> None:
        for _ in range(number):
            for name in names or self.twins:
                self.twins[name].cycle()

    def archived(self, *names: str) -> None:
        """Wait until all but the newest cycle of these are archived."""
        for name in names:
            twin = self.twins[name]
            last_ms = twin.bus.at_ms(len(twin.bus.states) - 2)
            until(partial(twin.has, last_ms), WITHIN_S, pause_s=1)

    def runs_with(self, names: str) -> None:
        """Wait until the query has these clusters."""
        until(lambda: f"clusters='{names}'" in self.program.log.read_text(), WITHIN_S)

    def assert_whole(self, name: str) -> None:
        """Each cycle and event is archived once, and is that of this cluster."""
        twin = self.twins[name]
        for table in (CYCLES, PARTITIONS, REPLICAS):
            assert set(rows_by_key(twin.folder, table).values()) == {1}
        events = ArchiveTables(str(twin.folder)).read(EVENTS)
        assert events is not None
        assert sorted(events.column("id").to_pylist()) == sorted(
            f"event-{n}" for n in range(len(twin.bus.states))
        )
        past = Archived(twin.bus, twin.folder).past()
        for cycle in range(len(twin.bus.states) - 1):
            assert_equal(past, twin.bus, cycle)


@pytest.fixture
def fleet(cluster: LocalCluster, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(cluster.bootstrap, tmp_path)
    yield made
    made.program.end(signal.SIGKILL)


def test_a_cluster_whose_tables_cannot_be_written_takes_later_what_it_owes(fleet: Fleet):
    fleet.configure("orders", "payments")
    fleet.cycles(6)
    refused = fleet.twins["payments"].folder
    refused.parent.mkdir()
    refused.write_text("a file where a folder has to be")
    fleet.program.start()
    fleet.archived("orders")
    fleet.cycles(4)
    fleet.archived("orders")
    fleet.program.end(signal.SIGKILL)
    fleet.program.start()
    fleet.cycles(4)
    fleet.archived("orders")
    assert refused.is_file()
    refused.unlink()
    fleet.cycles(4)
    fleet.archived("orders", "payments")
    fleet.program.end(signal.SIGTERM)
    for name in fleet.twins:
        fleet.assert_whole(name)
    said = fleet.program.log.read_text()
    assert said.count("not archived yet") == 2  # one for each start
    assert "archived again" in said


def test_clusters_come_and_go_while_it_runs_and_what_is_archived_stays(fleet: Fleet):
    fleet.configure("orders", "payments")
    fleet.cycles(4)
    fleet.program.start()
    fleet.archived("orders", "payments")
    fleet.configure("orders", "stock")
    fleet.cycles(1, "stock")
    fleet.runs_with("orders, stock")
    gone = fleet.twins["payments"]
    newest_ms = gone.newest_ms()
    fleet.cycles(4)
    fleet.archived("orders", "stock")
    assert gone.newest_ms() == newest_ms
    fleet.configure("orders", "stock", "payments")
    fleet.cycles(4)
    fleet.archived(*fleet.twins)
    fleet.program.end(signal.SIGTERM)
    for name in fleet.twins:
        fleet.assert_whole(name)
