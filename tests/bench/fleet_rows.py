"""Rows of a fleet over HTTP, 150 clusters of 431 partitions: all views are new, a tenth, none."""

from __future__ import annotations

import http.client
import time
from typing import Final

from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from tests.bench import figure
from tests.console.fleet import MOMENT_MS, simulated, view_of
from tests.exporter.serving import served
from tests.simulator.shard import Shape
from twin.builtin import CATALOG

CLUSTERS: Final = 150
SMALL: Final = Shape(topics=431, partitions=1, brokers=5)
NEW_VIEWS: Final = (150, 150, 150, 15, 15, 15, 0, 0, 0)
"""Before each call; of equal ones the last is the figure."""


def main() -> None:
    """Ask again and again while views change."""
    state, names = simulated(shape=SMALL), [f"c{number:03}" for number in range(CLUSTERS)]
    views = {name: view_of(name, state) for name in names}

    def source(name: str) -> ViewSource:
        return ViewSource(
            CATALOG, name, lambda: Exposition(views[name]), lambda: MOMENT_MS + 1_000,
            newest=lambda: views[name],
        )  # fmt: skip

    figures = {}
    with served(fleet_application(ServedClusters(map(source, names)), CATALOG)) as url:
        for new in NEW_VIEWS:
            views |= {name: view_of(name, state) for name in names[:new]}
            began, worked = time.perf_counter(), time.process_time()
            size = _asked(url)
            cpu = time.process_time() - worked
            figures[new] = time.perf_counter() - began, cpu, size
    for new, (seconds, cpu, size) in figures.items():
        about = {"clusters": CLUSTERS, "partitions_each": state[0].partitions, "new_views": new}
        figure("fleet_rows_seconds", seconds, "s", cpu_seconds=round(cpu, 4), bytes=size, **about)


def _asked(url: str) -> int:
    """Bytes of the answer, compressed."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request("GET", "/api/v1/fleet", headers={"Accept-Encoding": "gzip"})
    size = len(connection.getresponse().read())
    connection.close()
    return size


if __name__ == "__main__":
    main()
