"""Fleets to look at: three clusters, and 150 of which some are in trouble and most are quiet.

All are seen at one moment, so that a picture is the same whenever it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from starlette.types import ASGIApp

from streaming.bus.freshness import BusState
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from tests.exporter.serving import served
from tests.log_dir_frames import Directory, log_dirs_frame
from tests.simulator.shard import Shape, SimulatedShard
from tests.twin.disks.stage import NOW_MS, PLAIN, TIERED, Growing, cycles, one_shard, volumes
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.step import step

MOMENT_MS: Final = NOW_MS + 1_800_000
"""When all of them were observed last."""

CYCLE_MS: Final = 60_000
CYCLES: Final = 7
SMALL: Final = Shape(topics=43, partitions=10, brokers=5, min_isr=2, cold_share=0)
"""Nearly as large as the cluster of 431 partitions that the bench calls small."""

DISK_BYTES: Final = 1 << 41

Happens = Callable[[SimulatedShard], object]
Simulated = tuple[ShardState, ShardState]
"""The one shard of a cluster, and the cluster's own."""


@cache
def simulated(happens: Happens | None = None, seed: int = 1, shape: Shape = SMALL) -> Simulated:
    """Two quiet minutes, what happens, and some more."""
    shard = SimulatedShard(shape, seed, "c")
    begin_ms = MOMENT_MS - (CYCLES - 1) * CYCLE_MS
    state, own = ShardState.empty(CATALOG, "c", 0, 1), empty_cluster(CATALOG, "c", 1)
    for cycle in range(CYCLES):
        if cycle == 2 and happens is not None:
            happens(shard)
        at_ms = begin_ms + cycle * CYCLE_MS
        shard.traffic(CYCLE_MS)
        disks = [
            Directory(broker, 0, DISK_BYTES, DISK_BYTES // 2, replicas=DISK_BYTES // 2)
            for broker in range(1, shape.brokers + 1)
        ]
        state, _ = step(state, [*shard.observe(at_ms), log_dirs_frame(disks, at_ms)], at_ms)
        own, _ = step_cluster(own, reports(state))
    return state, own


@cache
def filling(free_gb: float, **of_log: float) -> Simulated:
    """Two brokers whose disks fill; ``uploaded_until_s`` says when remote storage went away."""
    tiered = "uploaded_until_s" in of_log
    part = Growing(**of_log)  # type: ignore[arg-type]
    configs = {part.topic: TIERED if tiered else PLAIN}
    seconds = [0, 10, *range(60, 1_801, 60)]
    frames: Iterable[tuple[list[Frame], int]] = cycles([part], volumes(free_gb), configs, seconds)
    return one_shard(frames)


@cache
def lost(*brokers: int) -> Happens:
    """Those are lost, one after the other."""
    return lambda shard: [shard.lose(broker) for broker in brokers]


@cache
def silent(*brokers: int) -> Happens:
    """Those answer no more, and nobody has noticed."""
    return lambda shard: [shard.silence(broker) for broker in brokers]


def behind(shard: SimulatedShard) -> None:
    """Two brokers are upgraded, and a follower of some partitions is out of sync."""
    shard.upgrade(1)
    shard.upgrade(2)
    for row in range(0, 40, 4):
        shard.shrink(row, 1)


def view_of(cluster: str, state: Simulated | None) -> ClusterView:
    """The view of a cluster of that name; without a state, of a bus on which nothing is."""
    store = SnapshotStore(CATALOG, cluster, 1)
    if state is None:
        return store.note_bus(BusState(observations_arrive=False))
    for key, each in zip(("0", "cluster"), state, strict=True):
        message = codec.encode(replace(each, cluster=cluster))
        assert store.take_snapshot(f"{cluster}/{key}".encode(), message)
    return store.publish()


@dataclass
class ShownFleet:
    """What an exporter of several serves; tests change it while a page is open."""

    clusters: ServedClusters = field(default_factory=ServedClusters)
    ahead_ms: dict[str, int] = field(default_factory=dict)
    """By cluster, how long ago it was observed, where that is not a moment ago."""

    def show(
        self, states: Mapping[str, Simulated | None], labels: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Serve those clusters from now on."""
        self.clusters.serve(
            self.source_of(view_of(name, state), name, labels.get(name, {}))
            for name, state in states.items()
        )

    def source_of(
        self, view: ClusterView, name: str = "c", labels: Mapping[str, str] | None = None
    ) -> ViewSource:
        """The source of a view."""
        return ViewSource(
            CATALOG, name, lambda: Exposition(view),
            lambda: MOMENT_MS + self.ahead_ms.get(name, 1_000), labels=labels or {},
        )  # fmt: skip

    def app(self) -> ASGIApp:
        """The application."""
        return fleet_application(self.clusters, CATALOG)


@contextmanager
def serving_fleet(shown: ShownFleet) -> Iterator[str]:
    """The URL of an exporter that serves it."""
    with served(shown.app()) as url:
        yield url


def three() -> ShownFleet:
    """A quiet one, one that has lost too much, and one of which nothing is known."""
    shown = ShownFleet()
    shown.show(
        {"orders-eu": simulated(), "orders-us": simulated(lost(1, 2, 3)), "payments-eu": None},
        {
            "orders-eu": {"env": "prod", "region": "eu"},
            "orders-us": {"env": "prod", "region": "us"},
            "payments-eu": {"env": "test", "region": "eu"},
        },
    )
    return shown


ENVS: Final = ("prod", "prod", "prod", "staging", "test")
REGIONS: Final = ("eu-west-1", "us-east-1", "ap-south-1")
TEAMS: Final = (
    "orders", "payments", "ledger", "search", "clickstream", "billing", "fraud", "logs", "catalog",
    "shipping", "iot", "metrics", "accounts", "pricing", "mail", "warehouse", "sessions", "ads",
    "inventory", "support", "audit", "identity", "risk", "reports", "media", "geo", "stock",
    "returns", "chat", "vouchers",
)  # fmt: skip


def many(count: int = 150) -> ShownFleet:
    """Clusters of three regions and environments; about one of eight has something to say."""
    quiet = [simulated(seed=1), simulated(seed=2), filling(30_000)]
    cold = simulated(shape=replace(SMALL, cold_share=0.05))
    troubles: list[Simulated | None] = [
        simulated(lost(1, 2, 3)), None, simulated(lost(4)), simulated(behind),
        filling(40), filling(12, uploaded_until_s=600), cold,
        simulated(silent(3)), simulated(lost(2, 3)),
        simulated(shape=replace(SMALL, brokers=4, racks=2)), filling(400),
        simulated(shape=replace(SMALL, replication=2, min_isr=1)),
        simulated(silent(1, 2, 3, 4, 5)),
    ]  # fmt: skip
    states: dict[str, Simulated | None] = {}
    labels: dict[str, Mapping[str, str]] = {}
    shown = ShownFleet()
    for i in range(count):
        env, region = ENVS[i % 5], REGIONS[(i // 5) % 3]
        name = f"{TEAMS[(7 * i) % len(TEAMS)]}-{env}-{i:03}"
        states[name] = troubles[i // 8 % len(troubles)] if i % 8 == 3 else quiet[i % 3]
        labels[name] = {"env": env, "region": region}
        if i % 50 == 7:
            shown.ahead_ms[name] = 200_000
    shown.show(states, labels)
    return shown
