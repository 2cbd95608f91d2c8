"""Counts over a fleet: the same as counting by hand, and the sum of its shards' counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Log, Partition, a_fleet
from tests.simulator.shard import Shape, SimulatedShard
from twin.fleet import Fleet, rearranged
from twin.rules.election import LossOutcome, effective_min_isr
from twin.step import step
from twin.tables import NO_BROKER, UNKNOWN, Coverage, Slot
from twin.totals import Totals, totals

NOW_MS = 1_800_000_000_000


def a_lively_fleet(seed: int) -> Fleet:
    """Two cycles of a small simulated shard that lost a broker in between."""
    from twin import fleet as fleets

    shard = SimulatedShard(Shape(topics=4, partitions=5, brokers=5, thin_share=0.3), seed)
    fleet, _ = step(fleets.empty("sim", 0, 1), shard.observe(NOW_MS), NOW_MS)
    shard.lose(1 + seed % 5)
    shard.traffic(5_000)
    return step(fleet, shard.observe(NOW_MS + 5_000), NOW_MS + 5_000)[0]


def by_hand(fleet: Fleet) -> dict[str, int]:
    """The cluster's counts, one partition after the other."""
    counts: Counter[str] = Counter()
    least = effective_min_isr(fleet)
    for p in range(len(fleet)):
        replicas = range(int(fleet.assigned[p]))
        marks = [int(fleet.slot[p, r]) for r in replicas]
        isr = sum(bool(mark & Slot.IN_ISR) for mark in marks)
        leader = int(fleet.leader[p])
        led_by = [r for r in replicas if fleet.broker[p, r] == leader]
        counts["partitions"] += 1
        counts["replicas"] += len(replicas)
        counts["partitions_offline"] += leader == NO_BROKER
        counts["partitions_under_replicated"] += isr < len(replicas)
        counts["partitions_under_min_isr"] += isr < least[p]
        counts["partitions_at_min_isr"] += isr == least[p]
        counts["partitions_leader_not_preferred"] += leader not in (NO_BROKER, fleet.broker[p, 0])
        counts["partitions_leader_thin"] += any(
            fleet.coverage[p, r] == Coverage.THIN for r in led_by
        )
        for r in replicas:
            counts["replicas_coverage_assumed"] += int(fleet.coverage[p, r] == Coverage.ASSUMED)
    return dict(counts)


@pytest.mark.parametrize("seed", range(6))
def test_the_clusters_counts_are_what_counting_by_hand_gives(seed):
    fleet = a_lively_fleet(seed)
    told = totals(fleet).cluster
    assert {name: told[name] for name in by_hand(fleet)} == by_hand(fleet)


@pytest.mark.parametrize("seed", range(6))
def test_a_brokers_counts_are_what_counting_by_hand_gives(seed):
    fleet = a_lively_fleet(seed)
    least = effective_min_isr(fleet)
    hand: Counter[tuple[str, int]] = Counter()
    for p in range(len(fleet)):
        hand["leaders", int(fleet.leader[p])] += 1
        isr = [
            int(fleet.broker[p, r])
            for r in range(int(fleet.assigned[p]))
            if fleet.slot[p, r] & Slot.IN_ISR
        ]
        for r in range(int(fleet.assigned[p])):
            broker = int(fleet.broker[p, r])
            hand["replicas", broker] += 1
            hand["thin_replicas", broker] += int(fleet.coverage[p, r] == Coverage.THIN)
            if fleet.local_log_bytes[p, r] != UNKNOWN:
                hand["local_log_bytes", broker] += int(fleet.local_log_bytes[p, r])
        for broker in isr:
            hand["loss_under_min_isr_partitions", broker] += len(isr) - 1 < least[p]
    told = totals(fleet).broker
    del hand["leaders", NO_BROKER]
    counted = {name for name, _ in hand}
    assert +Counter({k: n for k, n in told.items() if k[0] in counted}) == +hand


@pytest.mark.parametrize("seed", range(6))
def test_what_losing_a_broker_does_covers_every_partition_it_leads_once(seed):
    fleet = a_lively_fleet(seed)
    told = totals(fleet)
    for broker in fleet.brokers.broker.tolist():
        for rule in ("kafka", "kip1303"):
            outcomes = [told.loss[broker, rule, outcome.name.lower()] for outcome in LossOutcome]
            assert sum(outcomes) == told.broker["leaders", broker]


@given(cut=st.lists(st.booleans(), min_size=20, max_size=20), seed=st.integers(0, 20))
@settings(max_examples=40)
def test_counts_of_shards_add_up_to_the_counts_of_all(cut, seed):
    fleet = a_lively_fleet(seed)
    # Whole topics, as a shard has them: min ISR follows a topic's first partition.
    here = np.array(cut)[fleet.topic_index]
    one, other = (
        totals(replace(fleet, **rearranged(fleet, np.flatnonzero(rows)))) for rows in (here, ~here)
    )
    assert one + other == other + one == totals(fleet)
    assert totals(fleet) + Totals() == totals(fleet)


def test_adding_changes_neither_side():
    one, other = totals(a_fleet()), totals(a_fleet(Partition("u")))
    before = replace(one, cluster=Counter(one.cluster))
    assert (one + other).cluster["partitions"] == 2
    assert one == before


def test_a_size_nobody_told_is_left_out_and_counted():
    fleet = a_fleet(Partition(log=Log(size_bytes=100), logs={2: Log(size_bytes=UNKNOWN)}))
    told = totals(fleet)
    assert [told.broker["local_log_bytes", b] for b in (1, 2, 3)] == [100, 0, 100]
    assert told.cluster["replicas_local_log_unknown"] == 1
    assert told.topic["local_log_bytes", "t"] == 200


def test_large_sizes_add_up_exactly():
    size = (1 << 53) + 1  # no float holds it
    fleet = a_fleet(*(Partition("t", n, log=Log(size_bytes=size)) for n in range(3)))
    assert totals(fleet).broker["local_log_bytes", 1] == 3 * size


def test_an_outcome_nobody_worked_out_is_charged_to_no_broker():
    fleet = a_fleet(Partition("a"), Partition("b", replicas=(2, 3, 1)))
    fleet = replace(fleet, next_outcome_kafka=np.array([UNKNOWN, 0], np.int8))
    loss = {key: n for key, n in totals(fleet).loss.items() if n and key[1] == "kafka"}
    assert loss == {(2, "kafka", "clean_warm"): 1}


def test_a_replica_that_is_being_added_makes_no_partition_under_replicated():
    fleet = a_fleet(Partition(replicas=(1, 2, 3), isr=(1, 2)))
    assert totals(fleet).cluster["partitions_under_replicated"] == 1
    slot = fleet.slot.copy()
    slot[0, 2] |= Slot.ADDING
    assert totals(replace(fleet, slot=slot)).cluster["partitions_under_replicated"] == 0


def test_every_listed_broker_has_its_zeros():
    told = totals(a_fleet(brokers=(1, 2, 3, 4)))
    for name in ("leaders", "replicas", "thin_replicas", "loss_under_min_isr_partitions"):
        assert (name, 4) in told.broker
    assert (4, "kafka", "none") in told.loss


def test_an_empty_fleet_counts_nothing():
    from twin import fleet as fleets

    told = totals(fleets.empty("c", 0, 1))
    assert set(told.cluster.values()) == {0}
    assert not told.broker


def test_leaders_are_counted_by_rack_now_and_after_balancing_under_both_rules():
    """Replica 0 of both is broker 1 in az-a; it is thin in the first, which 2 in az-b leads."""
    mib = 1 << 20
    warm = Log(size_bytes=2 * mib)
    thin_first = Partition("a", leader=2, logs={1: Log(size_bytes=1)}, log=warm)
    fleet = a_fleet(thin_first, Partition("b", log=warm), eligible_local_log_bytes=mib)
    told = totals(fleet)
    by_rack = {
        name: [told.rack[name, rack] for rack in ("az-a", "az-b", "az-c")]
        for name in ("leaders_now", "leaders_kafka", "leaders_kip1303", "preferred_thin")
    }
    assert by_rack == {
        "leaders_now": [1, 1, 0],
        "leaders_kafka": [2, 0, 0],
        "leaders_kip1303": [1, 1, 0],
        "preferred_thin": [1, 0, 0],
    }
    assert told.rack["preferred_eligible_unknown", "az-a"] == 1  # no rate is known yet
    assert told.cluster["partitions_balancer_noop"] == 1


def test_a_rack_is_balanced_when_its_last_thin_preferred_replica_is_eligible():
    def young(age_ms: int) -> Log:
        return Log(started_ms=NOW_MS - age_ms)

    parts = [
        Partition("a", logs={1: young(30_000)}),
        Partition("b", logs={1: young(10_000)}),
        Partition("c", replicas=(2, 1), logs={2: young(45_000)}),
    ]
    one = totals(a_fleet(*parts[:2], eligible_local_log_ms=60_000))
    other = totals(a_fleet(*parts[1:], eligible_local_log_ms=60_000))
    assert (one + other).seconds_to_balance == {"az-a": 50.0, "az-b": 15.0, "az-c": 0.0}
