"""The query on real brokers: repartitioned between two runs, and in a session that was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.bench.deployment import START_MS, Simulated, send
from tests.spark_platform.observed import Following, replayed
from tests.spark_platform.story import Story
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.losses]

REPLICAS: Final = 12_000
SHARDS: Final = 4
ENDS_WITHIN_S: Final = 120


class Query:
    """``kafka-twin query`` and its commands, with a configuration."""

    def __init__(self, config: Path) -> None:
        self.log = config.with_name("query.log")
        self._command = [sys.executable, "-m", "streaming", "--config", str(config), "query"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end(self) -> int:
        """Ask it to end, as an orchestrator does; its exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(ENDS_WITHIN_S)

    def repartition(self, partitions: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, "repartition", str(partitions)],
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
        )


@pytest.fixture
def config(cluster: LocalCluster, tmp_path: Path) -> Config:
    """With a bus of its own; written to twin.toml."""
    path = tmp_path / "twin.toml"
    path.write_text(
        f"""
        [cluster]
        name = "sim"
        bootstrap = "{cluster.bootstrap}"
        [bus]
        prefix = "{tmp_path.name}"
        shards = {SHARDS}
        [query]
        checkpoint = "{tmp_path / "checkpoint"}"
        state_partitions = 2
        trigger_ms = 200
        """
    )
    return load(path, {})


@pytest.fixture
def query(config: Config, tmp_path: Path) -> Iterator[Query]:
    started = Query(tmp_path / "twin.toml")
    yield started
    if started.runs:
        started.end()


def test_a_repartitioned_query_writes_what_one_without_a_stop_does(
    config: Config, query: Query, tmp_path: Path
) -> None:
    bus_topics.ensure_topics(config)
    query.start()
    names = bus_topics.topics(config)
    with (
        Sender(config) as sender,
        Reader(config, [names.snapshots, names.events], "beginning") as reader,
    ):
        following = Following(config, reader)
        story = Story(Simulated(REPLICAS, SHARDS), config, sender, following, query)
        story.cycle()
        story.until_written()
        story.simulated.lose(7)
        story.cycle()
        story.until_written()

        refused = query.repartition(3)  # it has nothing to do now, and begins no batch
        assert refused.returncode == 1
        assert "a query (process" in refused.stderr
        assert query.runs
        assert query.end() == 0

        story.cycle()  # while there is none
        done = query.repartition(3)
        assert done.returncode == 0, done.stderr
        assert f"the state of file://{tmp_path}/checkpoint from 2 to 3 partitions" in done.stdout
        query.start()
        story.until_written()
        story.simulated.restore(7)
        story.cycle()
        story.until_written()

        expected = replayed(config, story.cycles)
        assert following.snapshots == expected.snapshots
        assert len(expected.events) > 100
        until(lambda: following.poll() or len(following.events) >= len(expected.events))
        assert sorted(following.events) == sorted(expected.events)  # none is missing, none twice


IN_A_SESSION: Final = """
import sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from streaming.query.program import run
from streaming.query.twin_query import QueryError
from streaming.runtime import jars, logs
from streaming.runtime.configuration.following import Followed
logs.configure()
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars", ",".join(map(str, jars.ensure("spark")))).getOrCreate()
def end_one():
    while True:
        time.sleep(0.2)
        active = {query.name: query for query in spark.streams.active}
        batch = "kafka-twin" in active and active["kafka-twin"].lastProgress
        if batch and batch["numInputRows"]:
            print(*sorted(active))
            return active["kafka-twin"].stop()
threading.Thread(target=end_one, daemon=True).start()
try:
    run(Followed(Path(sys.argv[1])))
except QueryError as error:
    print(error)
print(len(spark.streams.active), "active;", spark.range(3).count(), "rows")
"""


@pytest.mark.losses
def test_of_a_query_that_is_ended_in_a_session_that_was_there_nothing_is_left(
    config: Config, tmp_path: Path
) -> None:
    bus_topics.ensure_topics(config)
    with Sender(config) as sender:
        send(config, sender, Simulated(REPLICAS, SHARDS).encoded(START_MS))
    done = subprocess.run(
        [sys.executable, "-c", IN_A_SESSION, str(tmp_path / "twin.toml")],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "kafka-twin",
        "it ended without a reason",
        "0 active; 3 rows",
    ]
    with Reader(config, [bus_topics.topics(config).snapshots], "beginning") as reader:
        following = Following(config, reader)
        until(lambda: following.poll() or len(following.whole(START_MS)) == SHARDS)
    assert not (tmp_path / "checkpoint" / "heartbeat").exists()
