"""Helpers for tests of collector, query and exporter: topics, leaders, events and processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Final

from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster
from streaming.lab.processes import Processes
from tests.cluster.broker_client import BrokerClient, Key
from tests.cluster.pipeline import Pipeline
from tests.waiting import until

STEADY: Final = "pipeline-steady"
LED_BY_3: Final = "pipeline-led-by-3"
ONLY_ON_3: Final = "pipeline-only-on-3"

TOPICS: Final = {
    STEADY: [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
    LED_BY_3: [[3, 1], [3, 2]],
    ONLY_ON_3: [[3]],
}
"""Replicas of their partitions."""


def create(cluster: LocalCluster, **topics: list[list[int]]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics(
        {name: {"assignments": dict(enumerate(places))} for name, places in topics.items()},
        timeout_ms=20_000,
        wait_for_metadata=True,
    )
    admin.close()


def delete(cluster: LocalCluster, *topics: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.delete_topics(list(topics), timeout_ms=20_000)
    admin.close()
    client = BrokerClient(cluster)
    until(lambda: not {*topics} & {*client.topics(1)}, 20, "it is still there")


def leaders(cluster: LocalCluster) -> dict[Key, int]:
    return BrokerClient(cluster).leaders()


def cycle_from_now(pipeline: Pipeline) -> Callable[[], bool]:
    """A condition: what is served was observed after this call."""
    now_s = time.time()
    return lambda: pipeline.observed_since(now_s)


def helpers(pid: int) -> list[int]:
    """Processes that a process has started, and those they have."""
    listed = subprocess.run(
        ["ps", "-axo", "pid=,ppid="], capture_output=True, check=True, text=True
    )
    parent = dict(map(int, line.split()) for line in listed.stdout.splitlines())
    family = [pid]
    for member in family:  # grows as it is gone through
        family += [child for child, its_parent in parent.items() if its_parent == member]
    return family[1:]


def are_gone(pids: list[int]) -> bool:
    running = Processes()
    return all(running.state(pid, ()) == "stopped" for pid in pids)


def unique_events(pipeline: Pipeline) -> list[dict]:
    """Every event once; repeats under one id must say the same."""
    by_id: dict[str, dict] = {}
    for event in pipeline.events():
        assert by_id.setdefault(event["id"], event) == event
    return list(by_id.values())
