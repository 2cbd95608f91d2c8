"""``whatif pairs`` on real brokers: two at once are killed, and what Kafka does is counted.

``PAIRS=12`` loses every pair of five brokers and both racks that have two of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

import pytest

from streaming.bus import record
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.questions.pairs import pairs
from tests.cluster.broker_client import BrokerClient, PartitionState, await_agreement, await_in_sync
from tests.cluster.conftest import STILL
from tests.cluster.watching import watching
from twin.builtin import CATALOG
from twin.engine import codec

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

LOST: Final = int(os.environ.get("PAIRS", "3"))
BROKERS: Final = (1, 2, 3, 4, 5)
RACKS: Final = {"az-a": (1, 4), "az-b": (2, 5)}
"""Of these, two brokers are in each; broker 3 is alone in the third."""

MIN_ISR: Final = {
    "one": 1, "two": 1, "two-strict": 2, "three": 1, "three-strict": 2, "__remote_log_metadata": 1,
}  # fmt: skip
"""Kafka makes the last one itself."""

PLACES: Final[dict[str, list[list[int]]]] = {
    "one": [[broker] for broker in BROKERS],
    "two": [list(pair) for pair in combinations(BROKERS, 2)],
    "two-strict": [[b, a] for a, b in combinations(BROKERS, 2)],
    "three": [list(three) for three in combinations(BROKERS, 3)],
    "three-strict": [[c, a, b] for a, b, c in combinations(BROKERS, 3)],
}


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Five nodes, each broker and controller: any two may be lost."""
    home = tmp_path_factory.mktemp("pairs")
    with LocalCluster(home, 5, 0, free_base_port(40), settings=STILL, racks=3) as cluster:
        client = BrokerClient(cluster)
        for topic, places in PLACES.items():
            client.create(topic, places, {"min.insync.replicas": str(MIN_ISR[topic])})
        yield cluster


def seen(cluster: LocalCluster) -> ClusterView:
    """The view that an exporter of the cluster has now."""
    with watching(cluster.bootstrap) as twin:
        twin.look()
        state = twin.look()
    store = SnapshotStore(CATALOG, state.cluster, 1)
    assert store.take_snapshot(record.key(state.cluster, 0), codec.encode(state))
    return store.publish()


def counted(partitions: dict[Any, PartitionState]) -> dict[str, int]:
    """Partitions of all topics that are offline and under min ISR, by Kafka's metadata."""
    assert {topic for topic, _ in partitions} == {*MIN_ISR}
    return {
        "offline": sum(state.leader < 0 for state in partitions.values()),
        "under_min_isr": sum(
            len(state.isr) < min(MIN_ISR[topic], len(state.replicas))
            for (topic, _), state in partitions.items()
        ),
    }


def losses() -> list[tuple[str | None, tuple[int, ...]]]:
    """The racks, and pairs from all over the list."""
    racks: list[tuple[str | None, tuple[int, ...]]] = [*RACKS.items()]
    each = [(None, pair) for pair in combinations(BROKERS, 2)]
    every = max(1, len(each) // max(LOST - len(racks), 1))
    return [*racks, *each[::every]][:LOST]


@pytest.mark.parametrize(("rack", "lost"), losses(), ids=str)
def test_what_two_brokers_take_with_them_was_said(
    five: LocalCluster, rack: str | None, lost: tuple[int, int]
) -> None:
    before = await_in_sync(five)
    assert counted(before) == {"offline": 0, "under_min_isr": 0}
    answer = pairs.data(seen(five), {"limit": 100})
    listed = answer["pairs"] if rack is None else answer["racks"]
    [said] = [each for each in listed if (each["rack"], each["brokers"]) == (rack, [*lost])]
    assert said["elects"] is not False
    try:
        for broker in lost:
            five.kill(broker)
        after = await_agreement(five, lost)
    finally:
        five.start()
    happened = counted(after)
    print(f"lost {lost}: said {said}, happened {happened}")
    assert said["by_rule"]["kafka"]["offline"] == happened["offline"]
    assert said["under_min_isr"] == happened["under_min_isr"]
