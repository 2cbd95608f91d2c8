"""One query of several clusters: what it writes of each is what a query of its own would write."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from collections import defaultdict

import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.bus.connection import Bus
from streaming.query.buses.lanes import LARGE_FROM_SHARDS, Lane, by_lane
from streaming.query.buses.watched import used_by_query
from streaming.query.processor import Destination, TwinProcessor
from streaming.runtime.config import BusConfig, CapacityConfig, ClusterConfig, Config
from tests.simulator.shard import Shape, SimulatedShard
from twin.engine import frames

START_MS = 1_800_000_000_000
NAMES = ("orders", "payments")
OF = {name: Destination(1, f"{name}.snapshots", f"{name}.events") for name in NAMES}
Written = dict[str, list[tuple[str, bytes]]]


def observed(name: str, seed: int, cycles: int = 6) -> list[Row]:
    """The same topics with the same ids in each cluster, as in a restored copy."""
    shard = SimulatedShard(Shape(topics=2, partitions=3, tier=True), seed, name)
    return [
        Row(key=f"{name}/0", value=frames.join(map(frames.encode, sent)), topic=f"{name}.o",
            partition=0, offset=n, timestamp_ms=0)
        for n, sent in enumerate(shard.run(cycles, START_MS))
    ]  # fmt: skip


def written(tester: TwsTester, batches: list[list[Row]]) -> Written:
    found: Written = defaultdict(list)
    for batch in batches:
        for row in tester.test(batch[0].key, batch):
            found[row.topic].append((row.key, bytes(row.value)))
    return found


def a_tester(*names: str) -> TwsTester:
    return TwsTester(TwinProcessor({name: OF[name] for name in names}, ()))


def test_clusters_with_equal_topics_stay_apart():
    rows = {name: observed(name, seed) for seed, name in enumerate(NAMES)}
    in_turn = [[row] for pair in zip(*rows.values(), strict=True) for row in pair]
    both = written(a_tester(*NAMES), in_turn)
    for name in NAMES:
        alone = written(a_tester(name), [[row] for row in rows[name]])
        assert alone[f"{name}.snapshots"]
        for topic in (f"{name}.snapshots", f"{name}.events"):
            assert both[topic] == alone[topic]
            assert all(key.startswith(f"{name}/") for key, _ in both[topic])


def a_cluster(name: str, bus: str = "bus:9092", shards: int = 1, **client: str) -> Config:
    return Config(
        cluster=ClusterConfig(name=name, bootstrap=f"{name}:9092"),
        bus=BusConfig(bootstrap=bus, client=dict(client), shards=shards),
    )


def names(lanes: dict[Lane, list[Config]]) -> dict[str, list[str]]:
    return {
        str(lane): [config.cluster.name for config in configs] for lane, configs in lanes.items()
    }


def test_small_clusters_of_a_bus_share_a_query_and_large_ones_another():
    configs = [
        a_cluster("a"),
        a_cluster("b", "other:9092"),
        a_cluster("c", shards=LARGE_FROM_SHARDS - 1),
        a_cluster("d", shards=LARGE_FROM_SHARDS),
        a_cluster("e", shards=70),
    ]
    assert names(by_lane(configs, is_fleet=True)) == {
        "bus:9092": ["a", "c"],
        "other:9092": ["b"],
        "bus:9092, large clusters": ["d", "e"],
    }


def test_a_single_cluster_has_the_query_that_it_always_had():
    alone = a_cluster("d", shards=LARGE_FROM_SHARDS)
    assert names(by_lane([alone], is_fleet=False)) == {"bus:9092": ["d"]}


def test_clusters_with_other_logins_at_the_bus_share_no_query():
    lanes = by_lane(
        [a_cluster("a", sasl_plain_username="a"), a_cluster("b", sasl_plain_username="b")],
        is_fleet=True,
    )
    assert len(lanes) == len({lane.bus.folder for lane in lanes}) == 2


def test_the_folder_of_a_bus_stays_when_its_password_changes():
    before, after = (Bus.of(a_cluster("a", sasl_plain_password=text)) for text in ("one", "two"))
    assert before != after
    assert before.folder == after.folder


def test_only_what_a_query_uses_begins_it_anew():
    config = a_cluster("a")
    other = msgspec.structs.replace(config, capacity=CapacityConfig(bytes_in_per_s=5))
    assert used_by_query(other) == used_by_query(config)
    assert used_by_query(a_cluster("a", shards=2)) != used_by_query(config)
