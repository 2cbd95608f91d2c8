"""``kafka-twin whatif`` on a real bus: nothing there yet, snapshots in parts, old ones behind."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner, Result

from streaming.bus import bus_topics, record, snapshots
from streaming.bus.sender import Sender
from streaming.cli.main import main
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.builders import Partition, a_state
from tests.cluster.watching import environment_of
from tests.exporter.serving import served
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState

pytestmark = pytest.mark.cluster


@pytest.fixture
def config(cluster: LocalCluster, request: pytest.FixtureRequest) -> Config:
    """A bus of its own for each test."""
    return Config(
        cluster=ClusterConfig(name="c", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix=request.node.name, shards=1, replication_factor=1),
    )


def ask(config: Config, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["whatif", *arguments], env=environment_of(config))


def write(config: Config, state: ShardState, limit_bytes: int = 1 << 20) -> int:
    """A snapshot of the only shard, as the query writes it; returns how many parts it took."""
    parts = codec.encode_parts(state, limit_bytes)
    with Sender(config) as sender:
        for part, message in enumerate(parts):
            key = record.key(config.cluster.name, 0) + (f"/{part}".encode() if part else b"")
            sender.send(bus_topics.topics(config).snapshots, key, message)
        sender.flush(10_000)
    return len(parts)


def test_a_bus_that_does_not_exist_is_one_line(config: Config) -> None:
    done = ask(config, "lose", "--broker", "1")
    assert done.exit_code == 1
    assert f"there is no topic {config.bus.prefix}.snapshots" in done.output
    assert done.output.count("\n") == 1


def test_a_bus_without_a_snapshot_is_one_line(config: Config) -> None:
    bus_topics.ensure_topics(config)
    done = ask(config, "lose", "--broker", "1")
    assert done.exit_code == 1
    assert "snapshots of 0 of 1 shards of cluster c: do collector and query run?" in done.output
    assert done.output.count("\n") == 1


def test_the_newest_snapshot_is_asked_whole(config: Config) -> None:
    bus_topics.ensure_topics(config)
    write(config, a_state(Partition(), at_ms=1_000_000_000_000))
    now_ms = time.time_ns() // 1_000_000
    state = a_state(*(Partition("t", n) for n in range(50)), at_ms=now_ms)
    assert write(config, state, limit_bytes=10_000) > 1

    done = ask(config, "lose", "--broker", "1", "--json")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert len(json.loads(done.stdout)["partitions"]) == 50

    view = snapshots.newest(config)
    with served(application(ViewSource(CATALOG, "c", lambda: Exposition(view)))) as url:
        for question in (["lose", "--broker", "1"], ["lose", "--broker", "1", "--json"]):
            assert ask(config, *question, "--url", url).output == ask(config, *question).output

    write(config, a_state(Partition(), at_ms=now_ms + 1))  # a shard that has shrunk to one part
    done = ask(config, "lose", "--broker", "1", "--json")
    assert len(json.loads(done.stdout)["partitions"]) == 1


def test_an_old_snapshot_is_asked_and_said_to_be_old(config: Config) -> None:
    bus_topics.ensure_topics(config)
    write(config, a_state(Partition(), at_ms=1_000_000_000_000))
    done = ask(config, "bootstrap", "--broker", "2")
    assert done.exit_code == 0, done.output
    assert "s old: are the collector and the query running?" in done.stderr
    assert "Broker 2, empty" in done.stdout
