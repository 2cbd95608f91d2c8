"""A Spark cluster of machines that have nothing of the project, a checkpoint on HDFS, and faults.

The query is started by the very line that ``kafka-twin spark-package`` prints.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.packing.submit_lines import SCRIPT
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.bench.deployment import Simulated
from tests.spark_platform import hdfs, machines
from tests.spark_platform.hdfs import Hdfs
from tests.spark_platform.observed import Following, replayed
from tests.spark_platform.standalone import CORES, MACHINES, PORTS, Platform, Twin
from tests.spark_platform.story import Story
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.containers]

REPLICAS: Final = 300_000
SHARDS: Final = 16
KAFKA_PORTS: Final = 40


def configured(path: Path, bootstrap: str, files: str) -> Config:
    """The configuration of a twin that keeps its checkpoint there; written to the path."""
    path.write_text(
        f"""
        [cluster]
        name = "sim"
        bootstrap = "{bootstrap}"
        [bus]
        shards = {SHARDS}
        replication_factor = 1
        [query]
        checkpoint = "{files}/kafka-twin"
        state_partitions = {MACHINES * CORES}
        trigger_ms = 200
        """
    )
    return load(path, {})


def packaged(folder: Path, config: Path, master: str) -> str:
    """The line that starts the query."""
    command = [sys.executable, "-m", "streaming", "--config", str(config), "spark-package"]
    done = subprocess.run(
        [*command, "--master", master, str(folder)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_executors_and_the_driver_are_killed_and_nothing_is_lost(
    namespaces: None, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    port = free_base_port(KAFKA_PORTS + hdfs.PORTS + PORTS)
    broker = LocalCluster(tmp_path / "kafka", nodes=1, base_port=port, heap="512m")
    files = Hdfs(tmp_path / "hdfs", port + KAFKA_PORTS)
    platform = Platform(tmp_path, port + KAFKA_PORTS + hdfs.PORTS, hidden=package)
    path = tmp_path / "twin.toml"
    config = configured(path, broker.bootstrap, files.url)
    with ExitStack() as ended:
        for end in (broker.stop, files.kill, platform.kill):
            ended.callback(end)
        with ThreadPoolExecutor() as pool:
            packing = pool.submit(packaged, package, path, platform.url)
            starting = [pool.submit(each.start) for each in (broker, files, platform)]
        for each in starting:
            each.result()
        bus_topics.ensure_topics(config)
        twin = Twin(tmp_path, packing.result(), platform)
        ended.callback(twin.machine.kill)
        twin.start()
        names = bus_topics.topics(config)
        sender = ended.enter_context(Sender(config, buffer_bytes=1 << 28))
        reader = Reader(config, [names.snapshots, names.events], "beginning")
        following = Following(config, ended.enter_context(reader))
        story = Story(Simulated(REPLICAS, SHARDS), config, sender, following, twin.machine)

        story.cycle()
        story.until_written()
        story.simulated.lose(7)
        story.cycle()
        story.until_written()
        executors = twin.executors()
        assert len(executors) == MACHINES
        for pid in executors.values():
            root = Path(f"/proc/{pid}/root")
            assert (root / str(twin.machine.spark / "bin")[1:]).exists()
            assert not (root / str(machines.ROOT / "pyproject.toml")[1:]).exists()
            assert not (root / str(package / SCRIPT)[1:]).exists()

        story.batch_that_runs()
        lost = max(executors)
        machines.kill(executors[lost])
        story.until_written()
        # It runs no task before the next cycle, if the other executor was quicker.
        until(lambda: twin.started() - set(executors), 60, "no executor in its place")

        story.simulated.lose(9)
        story.batch_that_runs()
        twin.machine.kill()
        story.cycle()  # while there is no driver
        twin.start()
        story.until_written()
        story.simulated.restore(7)
        story.cycle()
        story.until_written()

        expected = replayed(config, story.cycles)
        assert following.at(story.at_ms) == expected.at(story.at_ms)
        assert len(expected.events) > 1_000
        until(lambda: following.poll() or set(following.events) >= set(expected.events), 30)
        assert set(following.events) == set(expected.events)
