"""One query of several clusters: what it writes of each is what a query of its own would write."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from collections import defaultdict

from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.query.processor import Destination, TwinProcessor
from streaming.query.watched import Watched
from streaming.runtime.config import BusConfig, ClusterConfig, Config, ConfigError
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


def test_clusters_of_one_query_share_a_bus():
    configs = [
        Config(cluster=ClusterConfig(name=name), bus=BusConfig(bootstrap=f"{name}:9092"))
        for name in NAMES
    ]
    with pytest.raises(ConfigError) as refused:
        Watched(configs)
    assert str(refused.value) == (
        "bus.bootstrap: clusters of one query share a bus, not orders:9092 for orders, "
        "payments:9092 for payments"
    )
