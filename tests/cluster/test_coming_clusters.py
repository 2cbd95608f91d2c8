"""Clusters that come, go, and change while the query runs, and buses that are away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafka import KafkaAdminClient

from streaming.bus import bus_topics
from streaming.bus.reader import Reader, Since
from streaming.bus.record import key
from streaming.bus.sender import Sender
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load_all
from streaming.runtime.deadline import Deadline
from tests.cluster.test_query import Query
from tests.simulator.shard import Shape, SimulatedShard
from tests.waiting import until
from tests.web import get
from twin.engine.frames import batch_messages, encode_parts, headers

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.losses]

SHAPE: Final = Shape(topics=3, partitions=4, replication=3, brokers=3)
WITHIN_S: Final = 120


class Fleet:
    """A folder of clusters, whose collectors are played."""

    def __init__(self, home: Path, bootstrap: str) -> None:
        self.file, self._folder, self._bootstrap = home / "twin.toml", home / "fleet", bootstrap
        self.port = free_base_port(span=1)
        self._shards: dict[str, SimulatedShard] = {}
        self._folder.mkdir()
        self.file.write_text(
            f"""
            [bus]
            bootstrap = "{bootstrap}"
            prefix = "{home.name}"
            shards = 1
            [query]
            checkpoint = "{home / "checkpoint"}"
            trigger_ms = 200
            [metrics]
            query_port = {self.port}
            [fleet]
            folder = "fleet"
            """
        )

    def add(self, name: str, bus: str = "") -> None:
        of_bus = f'[bus]\nbootstrap = "{bus}"' if bus else ""
        text = f'bootstrap = "{self._bootstrap}"\n{of_bus}'
        (self._folder / f"{name}.toml").write_text(text)

    def remove(self, name: str) -> None:
        (self._folder / f"{name}.toml").unlink()

    def config(self, name: str) -> Config:
        return load_all(self.file, {})[name]

    def observe(self, name: str) -> int:
        """Send a cycle of the cluster; its time."""
        config, at_ms = self.config(name), time.time_ns() // 1_000_000
        shard = self._shards.setdefault(name, SimulatedShard(SHAPE, 1, name, 0, 1))
        shard.traffic(1_000)
        frames = [part for frame in shard.observe(at_ms) for part in encode_parts(frame)]
        bus_topics.ensure_topics(config)
        with Sender(config) as sender:
            for message in batch_messages(frames):
                sender.send(bus_topics.topics(config).observations, key(name, 0), message)
            sender.flush(20_000)
        return at_ms

    def is_answered(self, name: str, at_ms: int) -> bool:
        """Whether there is a snapshot of that cycle."""
        config = self.config(name)
        with Reader(config, [bus_topics.topics(config).snapshots], Since(at_ms)) as reader:
            read = [record.value or b"" for record in reader.to_end(Deadline.after_s(20))]
        return any(headers(value)[0][0].observed_at_ms == at_ms for value in read)

    def is_watched(self, name: str) -> bool:
        at_ms = self.observe(name)
        deadline = Deadline.after_s(5)
        while not deadline.is_over:
            if self.is_answered(name, at_ms):
                return True
        return False


@pytest.fixture
def fleet(cluster: LocalCluster, tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, cluster.bootstrap)


@pytest.fixture
def query(fleet: Fleet) -> Iterator[Query]:
    started = Query(fleet.file)
    yield started
    if started.runs:
        started.end()


def test_clusters_come_and_go_and_their_topics_are_made_anew(
    fleet: Fleet, query: Query, cluster: LocalCluster
) -> None:
    fleet.add("orders")
    bus_topics.ensure_topics(fleet.config("orders"))
    query.start()
    until(lambda: fleet.is_watched("orders"), WITHIN_S)

    fleet.add("payments")
    until(lambda: fleet.is_watched("payments"), WITHIN_S)
    until(lambda: fleet.is_watched("orders"), WITHIN_S)

    gone = fleet.config("payments")
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topics([*bus_topics.topics(gone)], timeout_ms=20_000)
    until(lambda: fleet.is_watched("payments"), WITHIN_S)
    until(lambda: fleet.is_watched("orders"), WITHIN_S)

    fleet.remove("orders")
    until(lambda: "clusters=payments\n" in query.log.read_text(), WITHIN_S)
    until(lambda: fleet.is_watched("payments"), WITHIN_S)
    assert 'cluster="orders"' not in get(f"http://127.0.0.1:{fleet.port}/metrics")[1]
    assert query.runs
    assert query.end() == 0
    assert query.log.read_text().count("] running [query]") == 3, "one start for each change"


def test_a_bus_that_is_away_delays_no_other_and_each_has_a_checkpoint(
    fleet: Fleet, query: Query, cluster: LocalCluster, tmp_path: Path
) -> None:
    fleet.add("orders")
    fleet.add("payments", cluster.bootstrap.replace("127.0.0.1", "localhost"))
    fleet.add("stock", "127.0.0.1:1")
    query.start()
    for name in ("orders", "payments"):
        until(lambda name=name: fleet.is_watched(name), WITHIN_S)  # type: ignore[misc]
    log = query.log.read_text()
    assert log.count("what='bus 127.0.0.1:1'") == 1
    status, text = get(f"http://127.0.0.1:{fleet.port}/healthz")
    assert status == 503
    assert "127.0.0.1:1" in text
    [other] = (tmp_path / "checkpoint" / "buses").iterdir()
    assert other.name.startswith("localhost_")
    for checkpoint in (tmp_path / "checkpoint", other):
        assert [*(checkpoint / "commits").glob("[0-9]*")]

    fleet.remove("stock")
    until(lambda: get(f"http://127.0.0.1:{fleet.port}/healthz")[0] == 200, WITHIN_S)
    assert query.end() == 0
    done = query.repartition(3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("to 3 partitions") == 2
