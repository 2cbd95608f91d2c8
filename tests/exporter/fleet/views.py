"""Simulated clusters as an exporter of several has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.testclient import TestClient

from streaming.bus.view import ClusterView, SnapshotStore
from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.runtime.config import AccessConfig, ExporterConfig
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.step import step

START_MS = 1_800_000_000_000
INTERVAL_MS = 5_000
SMALL = Shape(topics=2, partitions=3, brokers=3, replication=3)


def a_view(cluster: str, seed: int = 1, shape: Shape = SMALL, cycles: int = 3) -> ClusterView:
    """What a reader of the bus has of a simulated cluster after some cycles."""
    state, own = ShardState.empty(CATALOG, cluster, 0, 1), empty_cluster(CATALOG, cluster, 1)
    at_ms = START_MS
    for cycle, frames in enumerate(
        SimulatedShard(shape, seed, cluster, 0, 1).run(cycles, START_MS, INTERVAL_MS)
    ):
        at_ms = START_MS + cycle * INTERVAL_MS
        state, _ = step(state, frames, at_ms)
        own, _ = step_cluster(own, reports(state))
    store = SnapshotStore(CATALOG, cluster, 1)
    for key, each in (("0", state), ("cluster", own)):
        assert store.take_snapshot(f"{cluster}/{key}".encode(), codec.encode(each), at_ms + 700)
    return store.publish(at_ms + 800)


def a_source(
    cluster: str, seed: int = 1, labels: Mapping[str, str] | None = None, **of_view: Any
) -> ViewSource:
    """A source one second after its newest observation."""
    view = a_view(cluster, seed, **of_view)
    rendered = Renderer(CATALOG, cluster, ExporterConfig()).render(view)
    return ViewSource(
        CATALOG, cluster, lambda: rendered, lambda: view.observed_at_ms + 1_000,
        labels=labels or {},
    )  # fmt: skip


def a_fleet(
    *sources: ViewSource, access: AccessConfig = AccessConfig(), **config: Any
) -> TestClient:
    """A client of an exporter of those clusters."""
    clusters = ServedClusters(sources)
    return TestClient(fleet_application(clusters, CATALOG, ExporterConfig(**config), access))
