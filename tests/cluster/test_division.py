"""Two collectors divide clusters among themselves, and each takes over what the other leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.configuration.loading import load_all
from tests.cluster.programs import create, delete
from tests.scraping import scrape
from tests.waiting import until

pytestmark = pytest.mark.cluster

NAMES = {"east", "north", "south", "test", "west"}


class Collectors:
    """Collector processes with one configuration, in which each cluster is the same brokers."""

    def __init__(self, folder: Path, cluster: LocalCluster) -> None:
        self.path = folder / "twin.toml"
        self.path.write_text(
            f'[bus]\nbootstrap = "{cluster.bootstrap}"\nprefix = "divided"\nshards = 1\n'
            '[collector]\ninterval_ms = 1000\ninclude_topics = "d-.*"\n'
            '[fleet]\ncollector_group = "divided.collectors"\n'
            + "".join(f'[clusters.{n}]\nbootstrap = "{cluster.bootstrap}"\n' for n in NAMES)
        )

    @contextmanager
    def started(self) -> Iterator[Collector]:
        port = free_base_port(span=1)
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming", "--config", str(self.path), "collector"],
            env={**os.environ, "KAFKA_TWIN_METRICS_COLLECTOR_PORT": str(port)},
        )
        try:
            yield Collector(process, port)
        finally:
            process.kill()
            process.wait()

    def go_on(self, names: set[str]) -> None:
        """Wait until each of these clusters is observed twice more."""
        configs = load_all(self.path)
        with ExitStack() as stack:
            for name in names:
                topic = bus_topics.topics(configs[name]).observations
                reader = stack.enter_context(Reader(configs[name], [topic], "end"))
                seen: list[object] = []
                until(lambda r=reader, s=seen: (s.extend(r.poll(200)), len(s) >= 2)[1])


class Collector:
    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self._port = process, port

    def polls(self) -> set[str]:
        """The clusters that it polls; those that it gave away have no series any more."""
        try:
            scraped = scrape(self._port)
        except AssertionError:
            return set()
        return {labels["cluster"] for labels, _ in scraped.series("collector_cycles_total")}


@pytest.fixture
def collectors(cluster: LocalCluster, tmp_path: Path) -> Iterator[Collectors]:
    create(cluster, **{"d-orders": [[1, 2], [2, 3]]})
    yield Collectors(tmp_path, cluster)
    delete(cluster, "d-orders")


def test_each_cluster_is_polled_by_one_and_taken_over_from_one_that_dies(
    collectors: Collectors,
) -> None:
    with collectors.started() as first:
        until(lambda: first.polls() == NAMES)
        with collectors.started() as second:
            until(lambda: second.polls() and first.polls() == NAMES - second.polls())
            assert abs(len(first.polls()) - len(second.polls())) == 1
            collectors.go_on(NAMES)
            first.process.send_signal(signal.SIGKILL)
            until(lambda: second.polls() == NAMES)
            collectors.go_on(NAMES)
            with collectors.started() as third:
                until(lambda: third.polls() and second.polls() == NAMES - third.polls())
                second.process.terminate()
                until(lambda: third.polls() == NAMES)
                assert second.process.wait(60) == 0
                collectors.go_on(NAMES)
