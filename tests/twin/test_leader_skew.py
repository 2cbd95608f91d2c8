"""Brokers that lead far more than others: the same for any number of shards."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame
from tests.cycles import own_after
from twin.cluster_rules.leader_skew import LeaderShares
from twin.engine.cluster_risks import ClusterRisks

PREFERRED = (1, 2, 3)
PARTITIONS = 30


def after_a_roll(
    leads: dict[int, int], shards: int, minutes: int = 15, brokers: tuple[int, ...] = PREFERRED
) -> list[int] | None:
    """30 partitions, for as many of which each broker is preferred; ``leads`` has other leaders."""
    number = len(brokers)
    parts = [
        Partition(f"t{i}", 0, tuple(brokers[(i + n) % number] for n in range(number)),
                  leader=leads.get(i, brokers[i % number]))
        for i in range(PARTITIONS)
    ]  # fmt: skip
    cycles = [
        ([brokers_frame(brokers, at_ms), partitions_frame(parts, at_ms)], at_ms)
        for at_ms in (NOW_MS, NOW_MS + minutes * 60_000)
    ]
    state = own_after(cycles, [part.topic for part in parts], shards)
    assert state[LeaderShares].leaders.sum() == PARTITIONS
    return state[ClusterRisks].brokers("broker_leads_too_much")


ALL_BY_1 = dict.fromkeys(range(PARTITIONS), 1)


@pytest.mark.parametrize("shards", [1, 4])
def test_one_broker_leads_everything_after_a_roll(shards):
    """Strimzi 5564, koperator 239."""
    assert after_a_roll(ALL_BY_1, shards) == [1]
    assert after_a_roll({}, shards) == []
    assert after_a_roll(ALL_BY_1, shards, minutes=14) == []


@pytest.mark.parametrize(("moved", "brokers"), [(10, []), (11, [1])])
def test_twice_the_even_share_is_not_too_much(moved, brokers):
    others = [i for i in range(PARTITIONS) if i % 3]
    assert after_a_roll(dict.fromkeys(others[:moved], 1), 1) == brokers


@pytest.mark.parametrize(("moved", "expected"), [(15, [1]), (12, [1]), (7, [])])
def test_one_of_two_brokers_leads_much_more_than_the_other(moved, expected):
    leads = dict.fromkeys(range(1, 2 * moved, 2), 1)
    assert after_a_roll(leads, 1, brokers=(1, 2)) == expected
