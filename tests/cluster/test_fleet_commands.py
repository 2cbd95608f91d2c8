"""Commands about one of several clusters, on a real bus that all of them share."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient

from streaming.bus import bus_topics, record
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.cli.main import main
from streaming.history.capsules.opening import Capsule
from streaming.history.moment import time_text
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load_all
from streaming.runtime.deadline import Deadline
from tests.history.recorded import INTERVAL_MS, a_recording
from tests.tap.lines import SHRINK, SHRUNK, stamped
from tests.waiting import until

pytestmark = pytest.mark.cluster

SHARDS, CYCLES = 2, 8


@pytest.fixture
def file(cluster: LocalCluster, tmp_path: Path) -> Path:
    """Two clusters that are in fact one: topics, brokers and Kafka's id are equal."""
    path = tmp_path / "twin.toml"
    path.write_text(
        f"""
        [bus]
        bootstrap = "{cluster.bootstrap}"
        prefix = "{tmp_path.name}"
        shards = {SHARDS}
        [clusters.sim]
        bootstrap = "{cluster.bootstrap}"
        [clusters.copy]
        bootstrap = "{cluster.bootstrap}"
        """
    )
    for config in load_all(path, {}).values():
        bus_topics.ensure_topics(config)
    return path


def observed(config: Config) -> list[bytes]:
    """The keys of all observations on the bus."""
    with Reader(config, [bus_topics.topics(config).observations], "beginning") as reader:
        return [each.key or b"" for each in reader.to_end(Deadline.after_s(60))]


def test_a_tap_writes_to_the_bus_topics_of_its_cluster_alone(file: Path):
    configs = load_all(file, {})
    with closing(KafkaAdminClient(bootstrap_servers=configs["copy"].cluster.bootstrap)) as admin:
        admin.create_topics(
            {"orders-eu": {"num_partitions": 4, "replication_factor": 1}}, wait_for_metadata=True
        )
    server, at_ms = file.with_name("server.log"), time.time_ns() // 1_000_000
    server.write_bytes(b"".join(stamped(at_ms, line) + b"\n" for line in (SHRINK, SHRUNK)))
    command = ["--config", str(file), "tap", "--cluster", "copy", "--from-beginning",
               "--zone", "UTC", f"4={server}"]  # fmt: skip
    with file.with_name("tap.log").open("wb") as out:
        tap = subprocess.Popen([sys.executable, "-m", "streaming", *command], stderr=out)
    try:
        until(lambda: observed(configs["copy"]), 60, pause_s=1)
    finally:
        tap.send_signal(signal.SIGTERM)
        tap.wait(60)
    assert all(key.startswith(b"copy/") for key in observed(configs["copy"]))
    assert observed(configs["sim"]) == []


def test_a_capsule_has_the_past_of_its_cluster_alone(file: Path, tmp_path: Path):
    configs = load_all(file, {})
    start_ms = time.time_ns() // 1_000_000 - CYCLES * INTERVAL_MS
    recording = a_recording(CYCLES, SHARDS, start_ms=start_ms)
    with Sender(configs["sim"]) as sender:
        for shard, observation in recording.messages:
            topic = bus_topics.topics(configs["sim"]).observations
            sender.send(topic, record.key("sim", shard), observation)
        sender.flush(20_000)
    saved = ["--config", str(file), "capsule", "save", "--from", time_text(start_ms)]
    capsule = tmp_path / "sim.capsule"
    of_sim = CliRunner().invoke(main, [*saved, "--cluster", "sim", str(capsule)])
    assert of_sim.exit_code == 0, of_sim.output
    with closing(Capsule(capsule)) as opened:
        assert opened.manifest.cluster == "sim"
    of_copy = CliRunner().invoke(main, [*saved, "--cluster", "copy", str(tmp_path / "copy")])
    assert of_copy.exit_code == 1
    assert of_copy.output.count("\n") == 1
    unnamed = CliRunner().invoke(main, [*saved, str(tmp_path / "x")])
    assert "say which by --cluster: copy, sim" in unnamed.output
