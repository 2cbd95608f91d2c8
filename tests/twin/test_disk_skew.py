"""Brokers that hold far more local log than others: the same for any number of shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, brokers_frame, partitions_frame, replicas_frame
from tests.cycles import own_after
from tests.examples import examples
from twin.cluster_rules.disks.disk_skew import LEAST_EVEN_SHARE_BYTES, DiskShares
from twin.declarations.table import UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.totals import shard_totals

GIB = 1 << 30
CALM = {1: 30 * GIB, 2: 30 * GIB, 3: 30 * GIB}


def cycles(sizes: dict[int, int], brokers=(1, 2, 3), minutes=(0, 5, 10)):
    """Observations of a cluster with a partition on each broker, of 25 topics."""
    parts = [
        Partition(f"t{i}", 0, (broker,), logs={broker: Log(size_bytes=size)})
        for i, (broker, size) in enumerate(sizes.items())
    ]
    for at_ms in (NOW_MS + minute * 60_000 for minute in minutes):
        frames = (brokers_frame(at_ms=at_ms, ids=brokers), partitions_frame(parts, at_ms))
        yield [*frames, replicas_frame(parts, at_ms)], at_ms


def judged(sizes: dict[int, int], shards: int = 1, order=list, **more):
    """The cluster's own shard after ten minutes of that."""
    topics = [f"t{i}" for i in range(len(sizes))]
    return own_after(cycles(sizes, **more), topics, shards, order)


def skewed(*args, **more) -> list[int] | None:
    return judged(*args, **more)[ClusterRisks].brokers("broker_disk_skewed")


@pytest.mark.parametrize(("sizes", "brokers"), [
    (CALM, []),
    ({1: 46 * GIB, 2: 30 * GIB, 3: 14 * GIB}, [1]),
    ({1: 45 * GIB, 2: 31 * GIB, 3: 14 * GIB}, []),  # 1.5 exactly
    ({1: 46 * GIB, 2: 29 * GIB, 3: 15 * GIB}, []),  # 0.5 exactly
    ({1: 46 * GIB, 2: 22 * GIB, 3: 22 * GIB}, []),  # nobody has too little
])  # fmt: skip
def test_a_broker_above_the_one_share_has_the_risk_while_another_is_below_the_other(sizes, brokers):
    assert skewed(sizes) == brokers


@examples(60)
@given(
    sizes=st.lists(st.integers(0, 90 * GIB), min_size=5, max_size=5),
    shards=st.sampled_from([4, 25]),
    data=st.data(),
)
def test_the_finding_is_the_same_for_any_number_of_shards_in_any_order(sizes, shards, data):
    by_broker = dict(enumerate(sizes, 1))
    more = {"brokers": tuple(by_broker)}
    whole = judged(by_broker, **more)
    parts = judged(by_broker, shards, lambda reports: data.draw(st.permutations(reports)), **more)
    for table in (DiskShares, ClusterRisks):
        for one, other in zip(whole[table].values(), parts[table].values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_broker_that_was_added_and_holds_nothing_counts():
    assert skewed({1: 46 * GIB, 2: 46 * GIB, 3: 46 * GIB}, brokers=(1, 2, 3, 4)) == []
    assert skewed({1: 60 * GIB, 2: 36 * GIB, 3: 36 * GIB}, brokers=(1, 2, 3, 4)) == [1]


@pytest.mark.parametrize("shards", [1, 4, 25])
def test_an_unknown_size_of_one_replica_makes_it_unknown(shards):
    state = judged({1: 80 * GIB, 2: 9 * GIB, 3: UNKNOWN}, shards)
    assert state[ClusterRisks].brokers("broker_disk_skewed") is None
    assert state[DiskShares].local_log_bytes.tolist() == [80 * GIB, 9 * GIB, UNKNOWN]
    assert shard_totals(state)["kafka_twin_broker_local_log_even_share_ratio"] == {}
    counted = {risk for risk, _ in shard_totals(state)["kafka_twin_brokers_at_risk"]}
    assert "broker_disk_skewed" not in counted


@pytest.mark.parametrize("sizes", [{}, dict.fromkeys(CALM, 0), {1: 3 << 20, 2: 0, 3: 0}])
def test_a_cluster_that_is_empty_or_nearly_so_is_not_skewed(sizes):
    assert skewed(sizes) == []


def test_the_least_data_that_matters_counts_exactly():
    each = LEAST_EVEN_SHARE_BYTES
    assert skewed({1: 2 * each, 2: each, 3: 0}) == [1]
    assert skewed({1: 2 * each - 1, 2: each, 3: 0}) == []


def test_the_risk_opens_after_ten_minutes():
    assert skewed({1: 46 * GIB, 2: 30 * GIB, 3: 14 * GIB}, minutes=(0, 9)) == []


def test_the_shares_are_a_metric_of_the_broker():
    totals = shard_totals(judged({1: 45 * GIB, 2: 30 * GIB, 3: 15 * GIB}))
    assert totals["kafka_twin_broker_local_log_even_share_ratio"] == {
        ("1",): 1.5,
        ("2",): 1,
        ("3",): 0.5,
    }
