"""Programs killed with SIGKILL at random moments: each snapshot equals a replay in one process.

The snapshots of the whole test are compared, byte for byte, with the states that the observations
on the bus lead to: what was lost with a program would differ, and what was done twice as well.
``KILLS`` sets how many programs are killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.view import SnapshotStore
from streaming.history.capsules.recording import recorded
from streaming.history.stepping import nothing_yet, stepped
from streaming.history.timeline import timeline_of
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.plugins import catalog_of
from tests.cluster.broker_client import await_in_sync
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.waiting import until
from twin.engine import codec
from twin.engine.catalog import Catalog

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.alone, pytest.mark.losses]

KILLS: Final = int(os.environ.get("KILLS", "3"))
SEED: Final = 28
WORKER: Final = "worker"
"""Spark runs the tasks of a local query in a thread; what can be killed alone is their Python."""

At = tuple[int, int]
"""A shard, and the time of an observation in ms."""


@pytest.fixture
def pipeline(cluster: LocalCluster, tmp_path: Path) -> Iterator[Pipeline]:
    """The three programs on three brokers, with a bus that has seen no others."""
    await_in_sync(cluster)
    programs = Pipeline(cluster, tmp_path, prefix="killed-bus")
    programs.create_bus()
    try:
        programs.start("collector", "query", "exporter")
        yield programs
    finally:
        programs.end()


def workers(pipeline: Pipeline) -> list[int]:
    """The Python workers of the query's tasks: children of the daemon that Spark forks them of."""
    table = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,sid=,args="], capture_output=True, text=True, check=True
    ).stdout
    session = pipeline.process("query").pid  # each program is the leader of one
    rows = [line.split(None, 3) for line in table.splitlines()]
    python = [(int(pid), int(of)) for pid, of, sid, args in rows
              if int(sid) == session and "pyspark" in args and "daemon" in args]  # fmt: skip
    daemons = {pid for pid, _ in python}
    return [pid for pid, parent in python if parent in daemons]


def observed_since(pipeline: Pipeline, at_s: float) -> Callable[[], bool]:
    """A condition: the programs run again, and all shards that are served are newer than that."""
    return lambda: pipeline.is_live() and pipeline.observed_since(at_s)


def kill(pipeline: Pipeline, victim: str, rng: random.Random) -> None:
    """End a program, or one Python worker of the query, as the kernel does without memory."""
    if victim == WORKER:
        os.kill(rng.choice(until(lambda: workers(pipeline), 30, "no worker")), signal.SIGKILL)
    else:
        pipeline.kill(victim)


def replayed(config: Config, catalog: Catalog) -> Mapping[At, bytes]:
    """The state of every shard after every cycle whose observations are on the bus."""
    kept = recorded(config, to_ms=time.time_ns() // 1_000_000)
    timeline = timeline_of(kept.messages, kept.cluster, kept.shards, catalog.observations)
    states, encoded = nothing_yet(catalog, kept.cluster, kept.shards), {}
    for messages in timeline.messages:
        states = stepped(catalog, kept.cluster, states, messages)
        for number, shard in states.shards.items():
            if shard.state is not None:
                encoded[number, shard.state.observed_at_ms] = codec.encode(shard.state)
    return encoded


def served(config: Config, catalog: Catalog) -> Mapping[At, bytes]:
    """The state of every shard, as a reader of the bus has it after each message."""
    store, encoded = SnapshotStore(catalog, config.cluster.name, config.bus.shards), {}
    with Reader(config, [bus_topics.topics(config).snapshots], "beginning") as reader:
        for record in reader.to_end(Deadline.after_s(300)):
            store.take_snapshot(record.key, record.value)
            for state in store.publish().states:
                at = state.shard, state.observed_at_ms
                if at not in encoded:
                    encoded[at] = codec.encode(state)
    return encoded


def test_whichever_program_is_killed_every_snapshot_equals_a_replay(pipeline: Pipeline) -> None:
    rng = random.Random(SEED)
    victims = [("query", WORKER, "exporter")[n % 3] for n in range(KILLS)]
    rng.shuffle(victims)
    killed = Counter(victims)
    catalog, snapshots = catalog_of(pipeline.config), dict[At, bytes]()
    for victim in victims:
        until(pipeline.is_live, STARTS_WITHIN_S, "the pipeline is not live")
        time.sleep(rng.uniform(0, 3))  # into another part of a cycle each time
        kill(pipeline, victim, rng)
        until(observed_since(pipeline, time.time()), STARTS_WITHIN_S, f"{victim} did not recover")
        snapshots |= served(pipeline.config, catalog)  # before Kafka compacts them
    assert pipeline.term("collector") == 0  # so that the newest observation is the last
    snapshots |= served(pipeline.config, catalog)
    replay = replayed(pipeline.config, catalog)
    assert {shard for shard, _ in snapshots} == {*range(pipeline.config.bus.shards)}
    assert len(snapshots) > 2 * KILLS
    print(f"killed {dict(killed)}: {len(snapshots)} snapshots, {len(replay)} states of the replay")
    assert [at for at, state in snapshots.items() if state != replay[at]] == []
