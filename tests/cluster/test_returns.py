"""How long a broker that comes back needs, against what the twin said when it went.

``RETURNS="60 60 300 300 900"`` loses a broker for each of these seconds, and prints the table.
Brokers on one machine copy all that is written in a minute in no time, so the leaders are
throttled. (A broker that starts begins to copy before it applies a throttle of its own.) The rate
that the twin measures of a return of a minute or more is compared as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pytest
from kafka import TopicPartition

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.lab.node_logs import marks, since
from tests.asking import answered
from tests.cluster.broker_client import BROKER_RESOURCE, BrokerClient, await_in_sync
from tests.cluster.topics import steadily_written
from tests.cluster.watching import watching
from tests.waiting import patience, until
from twin.builtin import CATALOG
from twin.cluster_rules.copy_rates import CopyRates
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.questions.recovery import copied_per_s

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.losses]

AWAY_S: Final = tuple(float(each) for each in os.environ.get("RETURNS", "30").split())
BALANCE_S: Final = 30
"""Kafka's default is 300: nothing else would differ in the test."""

TOPIC: Final = "returns"
REPLICAS: Final = ([5, 1], [5, 2], [1, 5], [2, 5], [3, 1], [4, 3])
GONE: Final = 5
SENDERS: Final = (1, 2)
"""Each leads two partitions of the broker that goes while it is away, and one otherwise."""

RECORD_BYTES: Final = 5_000
RATE_BYTES_PER_S: Final = 1_000_000
MEASURED_S: Final = 60
"""A return that takes so long has a rate of its own, also if a cycle is slow."""

LOOKS: Final = 10
SETTINGS: Final = {
    "leader.imbalance.check.interval.seconds": str(BALANCE_S),
    # A quota over its defaults lets ten seconds of bytes pass at once.
    "replication.quota.window.num": "2",
    "replica.fetch.max.bytes": "65536",
    "replica.fetch.response.max.bytes": "262144",
}


@dataclass(frozen=True)
class Return:
    """A return: how long the broker was away, what the twin said, and how long it took."""

    away_s: float
    said: Mapping[str, Any]
    in_sync_s: float
    balanced_s: float

    @property
    def bytes_per_s(self) -> float:
        """It copied what it lacked and what was written until it was in sync."""
        written_bytes_per_s: float = self.said["written_bytes_per_s"]
        return self.said["from_leader_bytes"] / self.in_sync_s + written_bytes_per_s

    def __str__(self) -> str:
        return (
            f"| {self.away_s:.0f} | {self.said['from_leader_bytes'] / 1e6:.1f} "
            f"| {self.said['in_sync_s']:.0f} | {self.in_sync_s:.0f} "
            f"| {self.said['in_sync_s'] + BALANCE_S:.0f} | {self.balanced_s:.0f} |"
        )


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Five brokers, which balance leaders by themselves, and throttle what they send."""
    home = tmp_path_factory.mktemp("returns")
    cluster = LocalCluster(home, brokers=2, base_port=free_base_port(), settings=SETTINGS)
    try:
        cluster.start()
        client = BrokerClient(cluster)
        throttled = {"leader.replication.throttled.replicas": "*", "min.insync.replicas": "1"}
        client.create(TOPIC, [*REPLICAS], throttled)
        rate = {"leader_replication_throttled_rate": str(RATE_BYTES_PER_S // len(SENDERS))}
        for sender in SENDERS:
            client.configure(BROKER_RESOURCE, str(sender), **rate)
        await_in_sync(cluster)
        yield cluster
    finally:
        cluster.wipe()


def seconds_until(condition: Callable[[], bool], since_s: float, within_s: float) -> float:
    """Seconds from that time until the condition holds."""
    until(condition, within_s, pause_s=0.2)
    return time.time() - since_s


def first_fetch_s(log: str) -> float:
    """When a broker that was started begins to copy: it is unfenced seconds later."""
    at = next(line for line in log.splitlines() if "Added fetcher to broker" in line)
    return datetime.strptime(at[1:24], "%Y-%m-%d %H:%M:%S,%f").timestamp()


def test_a_broker_is_in_sync_again_when_the_twin_said(five: LocalCluster) -> None:
    client = BrokerClient(five)
    returns = []

    def is_in_sync() -> bool:
        return all(each.is_in_sync for each in client.partitions(1, [TOPIC]).values())

    def is_balanced() -> bool:
        leaders = {key: leader for key, leader in client.leaders().items() if key[0] == TOPIC}
        return list(leaders.values()) == [each[0] for each in REPLICAS]

    cluster = empty_cluster(CATALOG, "real", 1)
    records = dict.fromkeys((TopicPartition(TOPIC, n) for n in range(len(REPLICAS))), 1)
    with steadily_written(five.bootstrap, records, RECORD_BYTES), watching(five.bootstrap) as watch:
        for away_s in AWAY_S:
            until(is_balanced, BALANCE_S)
            for _ in range(LOOKS):
                time.sleep(1)
                before = watch.look()
            five.kill(GONE)
            gone_s = time.time()
            time.sleep(away_s)
            watch.look()  # it is silent
            logs = marks(five.layout.folder(GONE))
            five.start([GONE])
            back_s = first_fetch_s(since(logs))
            away_ms = round((back_s - gone_s) * 1_000)
            asked = {"broker": GONE, "away": away_ms, "rate": RATE_BYTES_PER_S}
            said = answered("recovery", before, **asked).data

            def is_seen_in_sync() -> bool:
                nonlocal cluster
                cluster, _ = step_cluster(cluster, reports(watch.look()))
                time.sleep(1)
                return is_in_sync()

            in_sync_s = seconds_until(is_seen_in_sync, back_s, said["in_sync_s"])
            balanced_s = seconds_until(is_balanced, back_s, BALANCE_S)
            returns.append(Return(away_ms / 1_000, said, in_sync_s, balanced_s))
            print(returns[-1], flush=True)

    print("| away s | copies MB | in sync s, said | in sync s | balanced by s, said | balanced s |")
    print("|---|---|---|---|---|---|", *returns, sep="\n")
    print(f"measured: {cluster[CopyRates]}", flush=True)
    if returns[-1].in_sync_s >= MEASURED_S:
        assert copied_per_s(cluster, GONE) == pytest.approx(returns[-1].bytes_per_s, rel=0.25)
    for each in returns:
        assert each.said["unknown"] == 0
        assert each.said["preferred"] >= 2  # Kafka places its own topic as it likes
        slack_s = 3 * patience()
        assert each.in_sync_s == pytest.approx(each.said["in_sync_s"], rel=0.15, abs=slack_s)
        assert each.balanced_s <= each.in_sync_s + BALANCE_S + slack_s
