"""Brokers that do not answer, and a cluster of which none does."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame
from tests.cycles import each_own
from twin.cluster_rules.silent_brokers import SilentBrokers
from twin.declarations.table import NO_BROKER
from twin.engine.cluster_risks import ClusterRisks

TOPICS = ("a", "b", "c")


def each_after(seconds: int, shards: int = 1, **brokers):
    """The cluster's own shard after a cycle with answers, and after each of those without.

    They are of 5 s each, until so many seconds have passed.
    """
    parts = [Partition(topic) for topic in TOPICS]
    cycles = []
    for at_ms in range(NOW_MS, NOW_MS + seconds * 1_000 + 1, 5_000):
        told = brokers if at_ms > NOW_MS else {}
        frames = [brokers_frame(at_ms=at_ms, **told), partitions_frame(parts, at_ms)]
        cycles.append((frames, at_ms))
    return list(each_own(cycles, TOPICS, shards))


@pytest.mark.parametrize("shards", [1, 4, 25])
def test_a_broker_that_has_been_silent_for_a_minute_is_at_risk(shards):
    *_, early, late = each_after(65, shards, silent=(3,))
    assert early[ClusterRisks].brokers("broker_silent") == []
    assert late[ClusterRisks].brokers("broker_silent") == [3]
    assert late[SilentBrokers].silent_since_ms.tolist() == [-1, -1, NOW_MS]


@pytest.mark.parametrize("shards", [1, 4, 25])
def test_a_cluster_is_silent_once_no_broker_has_answered_for_a_few_cycles(shards):
    def opened(seconds: int, silent: tuple[int, ...]) -> list[list[int] | None]:
        states = each_after(seconds, shards, silent=silent)
        return [state[ClusterRisks].brokers("cluster_silent") for state in states]

    assert opened(15, (1, 2, 3)) == [[], [], [], [NO_BROKER]]
    assert opened(30, (1, 2)) == [[]] * 7


def test_a_broker_that_was_removed_is_not_expected_to_answer():
    *_, gone = each_after(90, unlisted=(4,), ids=(1, 2, 3, 4))
    assert gone[SilentBrokers].broker.tolist() == [1, 2, 3]
