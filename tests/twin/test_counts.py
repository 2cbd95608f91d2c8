"""Counts of metrics: the same as counting by hand, and the sum of what shards count."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Log, Partition, a_state, empty
from tests.reading import by_broker, by_rack, by_topic, computed, number
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.rules.coverage import Coverage, ReplicaCoverage
from twin.rules.next_leader import LossOutcome, NextLeaders
from twin.rules.topic_configs import MinIsr
from twin.state import ShardState
from twin.step import step
from twin.table import NO_BROKER, UNKNOWN
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Brokers, PartitionIndex, Partitions, Replicas

NOW_MS = 1_800_000_000_000
LOSS = "kafka_twin_broker_loss_partitions"


def a_lively_state(seed: int) -> ShardState:
    """Two cycles of a small simulated shard that lost a broker in between."""
    shard = SimulatedShard(Shape(topics=4, partitions=5, brokers=5, thin_share=0.3), seed)
    state, _ = step(empty("sim"), shard.observe(NOW_MS), NOW_MS)
    shard.lose(1 + seed % 5)
    shard.traffic(5_000)
    return step(state, shard.observe(NOW_MS + 5_000), NOW_MS + 5_000)[0]


def by_hand(state: ShardState) -> dict[str, int]:
    """The cluster's counts, one partition after the other."""
    counts: Counter[str] = Counter()
    least, partitions = state[MinIsr].min_isr, state[Partitions]
    broker, coverage = state[Assignment].broker, state[ReplicaCoverage].coverage
    for p in range(state.partitions):
        replicas = range(int(partitions.assigned[p]))
        flags = [int(state[Replicas].replica_flags[p, r]) for r in replicas]
        isr = sum(bool(each & ReplicaFlags.IN_ISR) for each in flags)
        leader = int(partitions.leader[p])
        led_by = [r for r in replicas if broker[p, r] == leader]
        counts["partitions"] += 1
        counts["replicas"] += len(replicas)
        counts["partitions_offline"] += leader == NO_BROKER
        counts["partitions_under_replicated"] += isr < len(replicas)
        counts["partitions_under_min_isr"] += isr < least[p]
        counts["partitions_at_min_isr"] += isr == least[p]
        counts["partitions_leader_not_preferred"] += leader not in (NO_BROKER, broker[p, 0])
        counts["partitions_leader_cold"] += any(coverage[p, r] == Coverage.COLD for r in led_by)
        for r in replicas:
            counts["replicas_coverage_assumed"] += int(coverage[p, r] == Coverage.ASSUMED)
    return dict(counts)


@pytest.mark.parametrize("seed", range(6))
def test_the_clusters_counts_are_what_counting_by_hand_gives(seed):
    state = a_lively_state(seed)
    expected = by_hand(state)
    assert {name: number(state, f"kafka_twin_{name}") for name in expected} == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_brokers_counts_are_what_counting_by_hand_gives(seed):
    state = a_lively_state(seed)
    least, partitions = state[MinIsr].min_isr, state[Partitions]
    replicas, coverage = state[Replicas], state[ReplicaCoverage].coverage
    hand: Counter[tuple[str, int]] = Counter()
    for p in range(state.partitions):
        hand["leaders", int(partitions.leader[p])] += 1
        brokers = state[Assignment].broker[p, : int(partitions.assigned[p])].tolist()
        isr = [
            broker
            for r, broker in enumerate(brokers)
            if replicas.replica_flags[p, r] & ReplicaFlags.IN_ISR
        ]
        for r, broker in enumerate(brokers):
            hand["replicas", broker] += 1
            hand["cold_replicas", broker] += int(coverage[p, r] == Coverage.COLD)
            if replicas.local_log_bytes[p, r] != UNKNOWN:
                hand["local_log_bytes", broker] += int(replicas.local_log_bytes[p, r])
        for broker in isr:
            hand["loss_under_min_isr_partitions", broker] += len(isr) - 1 < least[p]
    del hand["leaders", NO_BROKER]
    found = {
        (name, broker): value
        for name in {name for name, _ in hand}
        for broker, value in by_broker(state, f"kafka_twin_broker_{name}").items()
    }
    assert +Counter(found) == +hand


@pytest.mark.parametrize("seed", range(6))
def test_what_losing_a_broker_does_covers_every_partition_it_leads_once(seed):
    state = a_lively_state(seed)
    leaders, loss = by_broker(state, "kafka_twin_broker_leaders"), by_broker(state, LOSS)
    assert leaders
    for broker in state[Brokers].broker.tolist():
        for rule in ("kafka", "kip1303"):
            outcomes = [loss[rule, outcome.name.lower(), broker] for outcome in LossOutcome]
            assert sum(outcomes) == leaders[broker]


@given(cut=st.lists(st.booleans(), min_size=20, max_size=20), seed=st.integers(0, 20))
@settings(max_examples=40)
def test_counts_of_shards_add_up_to_the_counts_of_all(cut, seed):
    state = a_lively_state(seed)
    # Whole topics, as a shard has them: min ISR follows a topic's first partition.
    here = np.array(cut)[state[PartitionIndex].topic_index]
    one, other = (samples(state.take(np.flatnonzero(rows))) for rows in (here, ~here))
    assert one.keys() == other.keys() == samples(state).keys()
    for name, whole in samples(state).items():
        combine = CATALOG.metric(name).combine
        keys = one[name].keys() | other[name].keys()
        pairs = {key: (one[name].get(key, 0), other[name].get(key, 0)) for key in keys}
        joined = {key: max(pair) if combine == "max" else sum(pair) for key, pair in pairs.items()}
        assert without_zeros(joined) == without_zeros(whole), name


def samples(state: ShardState) -> dict[str, dict[Any, Any]]:
    """Of every metric that counts over partitions: each of its labels with its number."""
    read = {"broker": by_broker, "rack": by_rack, "topic": by_topic}
    found = {}
    for metric in CATALOG.metrics:
        if metric.compute is None or metric.combine == "newest":
            continue
        if metric.level == "cluster":
            values = computed(state, metric.series_name)
            found[metric.series_name] = values if metric.labels else {(): values}
        elif metric.level in read:
            found[metric.series_name] = dict(read[metric.level](state, metric.series_name))
    return found


def without_zeros(values: dict[Any, Any]) -> dict[Any, Any]:
    """Numbers that say something: no zeros, nothing unknown."""
    return {key: value for key, value in values.items() if value > 0}


def test_a_size_that_no_broker_reported_is_left_out_and_counted():
    state = a_state(Partition(log=Log(size_bytes=100), logs={2: Log(size_bytes=UNKNOWN)}))
    sizes = by_broker(state, "kafka_twin_broker_local_log_bytes")
    assert [sizes[broker] for broker in (1, 2, 3)] == [100, 0, 100]
    assert number(state, "kafka_twin_replicas_local_log_unknown") == 1
    assert by_topic(state, "kafka_twin_topic_local_log_bytes") == {"t": 200}


def test_large_sizes_add_up_exactly():
    size = (1 << 53) + 1  # no float holds it
    state = a_state(*(Partition("t", n, log=Log(size_bytes=size)) for n in range(3)))
    assert by_broker(state, "kafka_twin_broker_local_log_bytes")[1] == 3 * size


def test_an_unknown_outcome_is_charged_to_no_broker():
    state = a_state(Partition("a"), Partition("b", replicas=(2, 3, 1)))
    outcome = np.array([UNKNOWN, LossOutcome.CLEAN_WARM], np.int8)
    state = state.with_tables(replace(state[NextLeaders], outcome=outcome))
    loss = {key: n for key, n in by_broker(state, LOSS).items() if n and key[0] == "kafka"}
    assert loss == {("kafka", "clean_warm", 2): 1}


def test_a_replica_that_is_being_added_makes_no_partition_under_replicated():
    state = a_state(Partition(replicas=(1, 2, 3), isr=(1, 2)))
    assert number(state, "kafka_twin_partitions_under_replicated") == 1
    flags = state[Replicas].replica_flags.copy()
    flags[0, 2] |= ReplicaFlags.ADDING
    state = state.with_tables(replace(state[Replicas], replica_flags=flags))
    assert number(state, "kafka_twin_partitions_under_replicated") == 0


def test_an_empty_state_counts_nothing():
    found = samples(empty())
    assert math.isnan(found.pop("kafka_twin_caught_up_error_seconds")[()])
    for name, values in found.items():
        assert set(values.values()) <= {0}, name
        if CATALOG.metric(name).level == "broker":
            assert not values, name


def test_leaders_are_counted_by_rack_now_and_after_balancing_under_both_rules():
    """Replica 0 of both is broker 1 in az-a; it is cold in the first, which 2 in az-b leads."""
    mib = 1 << 20
    warm = Log(size_bytes=2 * mib)
    cold_first = Partition("a", leader=2, logs={1: Log(size_bytes=1)}, log=warm)
    state = a_state(cold_first, Partition("b", log=warm), eligible_local_log_bytes=mib)
    leaders = by_rack(state, "kafka_twin_rack_leaders")
    racks = ("az-a", "az-b", "az-c")
    assert {rule: [leaders[rule, rack] for rack in racks] for rule, _ in leaders} == {
        "now": [1, 1, 0],
        "kafka": [2, 0, 0],
        "kip1303": [1, 1, 0],
    }
    cold = by_rack(state, "kafka_twin_rack_preferred_cold")
    assert [cold[rack] for rack in racks] == [1, 0, 0]
    # No rate is known yet.
    assert by_rack(state, "kafka_twin_rack_preferred_eta_unknown")["az-a"] == 1
    assert number(state, "kafka_twin_partitions_balancer_noop") == 1


def test_a_rack_is_balanced_when_its_last_cold_preferred_replica_is_warm():
    def young(age_ms: int) -> Log:
        return Log(started_ms=NOW_MS - age_ms)

    parts = [
        Partition("a", logs={1: young(30_000)}),
        Partition("b", logs={1: young(10_000)}),
        Partition("c", replicas=(2, 1), logs={2: young(45_000)}),
    ]
    one, other = (
        by_rack(
            a_state(*chosen, eligible_local_log_ms=60_000),
            "kafka_twin_rack_time_to_balance_seconds",
        )
        for chosen in (parts[:2], parts[1:])
    )
    highest = {rack: max(one[rack], other[rack]) for rack in one}
    assert highest == {"az-a": 50.0, "az-b": 15.0, "az-c": 0.0}
