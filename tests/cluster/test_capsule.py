"""``kafka-twin capsule save`` on a real bus, and the capsule that it writes."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streaming.bus import bus_topics, record
from streaming.bus.sender import Sender
from streaming.cli.main import main
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import Recorded
from streaming.history.moment import time_text
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.cluster.watching import environment_of
from tests.history.recorded import INTERVAL_MS, a_recording, message
from twin.engine import codec

pytestmark = pytest.mark.cluster

CYCLES, SHARDS = 8, 2


@pytest.fixture
def config(cluster: LocalCluster, request: pytest.FixtureRequest) -> Config:
    """A bus of its own for each test."""
    return Config(
        cluster=ClusterConfig(name="sim", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix=request.node.name[:40], shards=SHARDS, replication_factor=1),
    )


def save(config: Config, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["capsule", "save", *arguments], env=environment_of(config))


def write(config: Config, recorded: Recorded) -> None:
    """The observations and events, as collector and query write them, and those of another."""
    names = bus_topics.topics(config)
    with Sender(config) as sender:
        for shard, observation in recorded.messages:
            sender.send(names.observations, record.key("sim", shard), observation)
            sender.send(names.observations, record.key("other", shard), message([]))
        for event in recorded.events:
            sender.send(names.events, b"sim/topic-0-0-1", event)
            sender.send(names.events, b"other/topic-0-0-1", event)
        sender.flush(20_000)


def test_what_the_bus_keeps_becomes_a_capsule(config: Config, tmp_path: Path) -> None:
    start_ms = time.time_ns() // 1_000_000 - CYCLES * INTERVAL_MS
    recorded = a_recording(CYCLES, SHARDS, start_ms=start_ms)
    bus_topics.ensure_topics(config)
    write(config, recorded)
    begin, end = time_text(start_ms + 2 * INTERVAL_MS), time_text(start_ms + 6 * INTERVAL_MS)
    span = ("--from", begin, "--to", end)

    done = save(config, *span, str(tmp_path / "plain"))
    assert done.exit_code == 0, done.output
    assert done.output == (
        f"{tmp_path / 'plain'}: sim from {begin} to {end}, 5 cycles, 5 events; the state before "
        f"is made of observations since {time_text(start_ms)}\n"
    )
    with closing(Capsule(tmp_path / "plain")) as opened:
        found = opened.replay.view(start_ms + 5 * INTERVAL_MS)
        assert found.complete
        plain = [state.partitions for state in found.view.states]
        assert opened.manifest.own_topics == tuple(bus_topics.topics(config))
        assert b"topic-0-0" in b"".join(map(codec.encode, found.view.states))

    done = save(config, *span, "--anonymize", str(tmp_path / "other"))
    assert done.exit_code == 0, done.output
    with closing(Capsule(tmp_path / "other")) as opened:
        found = opened.replay.view(start_ms + 5 * INTERVAL_MS)
        assert [state.partitions for state in found.view.states] == plain
        assert len(opened.events) == 5

    done = save(config, "--from", "-2h", str(tmp_path / "early"))
    assert done.exit_code == 1
    assert f"the bus keeps observations since {time_text(start_ms)}" in done.output
    assert done.output.count("\n") == 1


def test_a_bus_without_observations_is_one_line(config: Config, tmp_path: Path) -> None:
    bus_topics.ensure_topics(config)
    done = save(config, "--from", "-1m", str(tmp_path / "c"))
    assert done.exit_code == 1
    assert "the bus keeps no observation of all shards: does the collector run?" in done.output
    assert done.output.count("\n") == 1
