"""Counts over a shard: the same as counting by hand, and the sum of what its parts count."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Log, Partition, a_state, empty
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.rows import without
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.prediction_reports import PredictionCounts
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.step import step
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Brokers, PartitionIndex, Partitions, Replicas
from twin.totals import Totals, cluster_totals, shard_totals

NOW_MS = 1_800_000_000_000
LOSS = "kafka_twin_broker_loss_partitions"
LEADERS = "kafka_twin_broker_leaders"


def a_lively_state(seed: int) -> ShardState:
    """Two cycles of a small simulated shard that lost a broker in between."""
    shard = SimulatedShard(Shape(topics=4, partitions=5, brokers=5, cold_share=0.3), seed)
    state, _ = step(empty("sim"), shard.observe(NOW_MS), NOW_MS)
    shard.lose(1 + seed % 5)
    shard.traffic(5_000)
    return step(state, shard.observe(NOW_MS + 5_000), NOW_MS + 5_000)[0]


@pytest.mark.parametrize("ids", [(1, 2, 3, 4, 5), (0, 1_001, 2, 2**31 - 1, 7)])
def test_leaders_are_counted_whatever_the_ids_of_brokers_are(ids):
    parts = [Partition(number=n, replicas=ids[n : n + 2], leader=ids[n]) for n in range(3)]
    counts = shard_totals(a_state(*parts, brokers=ids))[LEADERS]
    expected = {(str(broker),): int(broker in ids[:3]) for broker in ids}
    assert counts == expected


def by_hand(state: ShardState) -> dict[str, int]:
    """The cluster's counts, one partition after the other."""
    counts: Counter[str] = Counter()
    least, partitions = state[LeaderMinIsr].min_isr, state[Partitions]
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
        counts["partitions_under_min_isr"] += leader != NO_BROKER and isr < least[p]
        counts["partitions_at_min_isr"] += leader != NO_BROKER and isr == least[p]
        counts["partitions_leader_not_preferred"] += leader not in (NO_BROKER, broker[p, 0])
        counts["partitions_leader_cold"] += any(coverage[p, r] == Coverage.COLD for r in led_by)
        for r in replicas:
            counts["replicas_coverage_assumed"] += int(coverage[p, r] == Coverage.ASSUMED)
    return dict(counts)


@pytest.mark.parametrize("seed", range(6))
def test_the_clusters_counts_are_what_counting_by_hand_gives(seed):
    state = a_lively_state(seed)
    totals, expected = shard_totals(state), by_hand(state)
    assert {name: totals.value(f"kafka_twin_{name}") for name in expected} == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_brokers_counts_are_what_counting_by_hand_gives(seed):
    state = a_lively_state(seed)
    least, partitions = state[LeaderMinIsr].min_isr, state[Partitions]
    replicas, coverage = state[Replicas], state[ReplicaCoverage].coverage
    hand: Counter[tuple[str, str]] = Counter()
    for p in range(state.partitions):
        hand["leaders", str(partitions.leader[p])] += 1
        brokers = [str(b) for b in state[Assignment].broker[p, : int(partitions.assigned[p])]]
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
    del hand["leaders", str(NO_BROKER)]
    totals = shard_totals(state)
    counted = {
        (name, broker): value
        for name in {name for name, _ in hand}
        for (broker,), value in totals[f"kafka_twin_broker_{name}"].items()
    }
    assert +Counter(counted) == +hand


@pytest.mark.parametrize("seed", range(6))
def test_what_losing_a_broker_does_covers_every_partition_it_leads_once(seed):
    state = a_lively_state(seed)
    totals = shard_totals(state)
    for broker in map(str, state[Brokers].broker):
        for rule in ("kafka", "kip1303"):
            losses = {key[2:]: n for key, n in totals[LOSS].items() if key[:2] == (broker, rule)}
            assert {outcome for outcome, _ in losses} == {each.name.lower() for each in Outcome}
            assert sum(losses.values()) == totals[LEADERS][broker,]
    assert any(totals[LEADERS].values())


@given(cut=st.lists(st.booleans(), min_size=20, max_size=20), seed=st.integers(0, 20))
@examples(40)
def test_counts_of_shards_add_up_to_the_counts_of_all(cut, seed):
    state = a_lively_state(seed)
    # Whole topics, as a shard has them: min ISR follows a topic's first partition.
    here = np.array(cut)[state[PartitionIndex].topic_index]
    # One shard counted the events before the cut.
    uncounted = state.with_tables(PredictionCounts.empty())
    one, other = shard_totals(without(state, here)), shard_totals(without(uncounted, ~here))
    whole = cluster_totals(CATALOG, [shard_totals(state)])
    assert cluster_totals(CATALOG, [one, other]) == cluster_totals(CATALOG, [other, one]) == whole


def test_adding_changes_neither_side():
    one, other = shard_totals(a_state()), shard_totals(a_state(Partition("u")))
    before = copy.deepcopy(one)
    assert cluster_totals(CATALOG, [one, other]).value("kafka_twin_partitions") == 2
    assert one == before


def test_a_size_that_no_broker_reported_is_left_out_and_counted():
    part = Partition(log=Log(size_bytes=100), logs={2: Log(size_bytes=UNKNOWN)})
    totals = shard_totals(a_state(part))
    sizes = totals["kafka_twin_broker_local_log_bytes"]
    assert [sizes[broker,] for broker in "123"] == [100, 0, 100]
    assert totals.value("kafka_twin_replicas_local_log_unknown") == 1
    assert totals.value("kafka_twin_topic_local_log_bytes", "t") == 200


def test_large_sizes_add_up_exactly():
    size = (1 << 53) + 1  # no float holds it
    state = a_state(*(Partition("t", n, log=Log(size_bytes=size)) for n in range(3)))
    assert shard_totals(state).value("kafka_twin_broker_local_log_bytes", "1") == 3 * size


def test_an_unknown_outcome_is_charged_to_no_broker():
    state = a_state(Partition("a"), Partition("b", replicas=(2, 3, 1)))
    outcome = np.array([UNKNOWN, Outcome.CLEAN], np.int8)
    state = state.with_tables(replace(state[NextLeaders], outcome=outcome))
    loss = {key: n for key, n in shard_totals(state)[LOSS].items() if n and key[1] == "kafka"}
    assert loss == {("2", "kafka", "clean", "not_judged"): 1}


def test_a_replica_that_is_being_added_makes_no_partition_under_replicated():
    state = a_state(Partition(replicas=(1, 2, 3), isr=(1, 2)))
    assert shard_totals(state).value("kafka_twin_partitions_under_replicated") == 1
    flags = state[Replicas].replica_flags.copy()
    flags[0, 2] |= ReplicaFlags.ADDING
    state = state.with_tables(replace(state[Replicas], replica_flags=flags))
    assert shard_totals(state).value("kafka_twin_partitions_under_replicated") == 0


def test_every_listed_broker_has_its_zeros():
    totals = shard_totals(a_state(brokers=(1, 2, 3, 4)))
    for name in ("leaders", "replicas", "cold_replicas", "loss_under_min_isr_partitions"):
        assert totals[f"kafka_twin_broker_{name}"]["4",] == 0
    assert totals[LOSS]["4", "kafka", "none", "none"] == 0


def test_an_empty_state_counts_nothing():
    totals = shard_totals(empty())
    for name, samples in totals.samples.items():
        assert set(samples.values()) <= {0}, name
        if CATALOG.metric(name).level == "broker":
            assert not samples, name
    assert totals.samples["kafka_twin_partitions"] == {(): 0}
    assert cluster_totals(CATALOG, []) == Totals()


def test_leaders_are_counted_by_rack_now_and_after_balancing_under_each_rule():
    """Replica 0 of both is broker 1 in az-a; it is cold in the first, which 2 in az-b leads."""
    mib = 1 << 20
    warm = Log(size_bytes=2 * mib)
    cold_first = Partition("a", leader=2, logs={1: Log(local_start=1, size_bytes=1)}, log=warm)
    state = a_state(cold_first, Partition("b", log=warm), eligible_local_log_bytes=mib)
    totals = shard_totals(state)
    leaders = totals["kafka_twin_rack_leaders"]
    racks = ("az-a", "az-b", "az-c")
    assert {rule: [leaders[rack, rule] for rack in racks] for _, rule in leaders} == {
        "now": [1, 1, 0],
        "kafka": [2, 0, 0],
        "kip1303": [1, 1, 0],
        "kip501": [2, 0, 0],
    }
    cold = totals["kafka_twin_rack_preferred_cold"]
    assert [cold[rack,] for rack in racks] == [1, 0, 0]
    # No rate is known yet.
    assert totals.value("kafka_twin_rack_preferred_eta_unknown", "az-a") == 1
    assert totals.value("kafka_twin_partitions_balancer_noop") == 1


def test_a_rack_is_balanced_when_its_last_cold_preferred_replica_is_warm():
    def young(age_ms: int) -> Log:
        return Log(local_start=1, started_ms=NOW_MS - age_ms)

    parts = [
        Partition("a", logs={1: young(30_000)}),
        Partition("b", logs={1: young(10_000)}),
        Partition("c", replicas=(2, 1), logs={2: young(45_000)}),
    ]
    shards = [
        shard_totals(a_state(*chosen, eligible_local_log_ms=60_000))
        for chosen in (parts[:2], parts[1:])
    ]
    seconds = cluster_totals(CATALOG, shards)["kafka_twin_rack_time_to_balance_seconds"]
    assert seconds == {("az-a",): 50.0, ("az-b",): 15.0, ("az-c",): 0.0}
