"""Brokers that a loss would overload: the same finding for any number of shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, broker_metrics_frame, configs_frame
from tests.cycles import cycle_frames
from tests.examples import examples
from tests.scope import reported
from twin.builtin import CATALOG
from twin.cluster_rules.load_after_loss import Direction, LossLoads
from twin.cluster_step import empty_cluster, step_cluster
from twin.declarations.table import UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.totals import shard_totals

HALF = [((1, 2, 3), 100), ((2, 1, 3), 100)]
"""Two partitions of 100 B/s: 1 and 2 each take the other's place."""


def cycles(rates, capacity, metrics=None, minutes=(0, 1, 6), new=()):
    """A cluster of which each partition has a topic of its own, in records of 1 B."""
    for minute in minutes:
        at_ms = NOW_MS + minute * 60_000
        sizes = [1_000 + rate * minute * 60 for _, rate in rates]
        parts = [
            Partition(f"t{n}", 0, replicas, log=Log(end=size, size_bytes=size))
            for n, ((replicas, _), size) in enumerate(zip(rates, sizes, strict=True))
        ]
        if minute == minutes[-1]:
            parts += [Partition(f"t{len(rates) + n}", 0, each) for n, each in enumerate(new)]
        frames = [
            *cycle_frames(parts, at_ms, ids=(1, 2, 3), capacity=capacity),
            configs_frame(at_ms=at_ms),
        ]
        if metrics is not None:
            frames.append(broker_metrics_frame(metrics, at_ms))
        yield frames, at_ms


def judged(rates, capacity, shards=1, order=list, **more):
    """The cluster's own shard after that, and what happened."""
    topics = [f"t{n}" for n in range(len(rates) + len(more.get("new", ())))]
    state, texts = empty_cluster(CATALOG, "c", shards), []
    for of_cycle in reported(CATALOG, list(cycles(rates, capacity, **more)), shards, topics):
        state, changes = step_cluster(state, order(of_cycle))
        texts += [change.text for change in changes]
    return state, texts


def overloaded(rates, capacity, **more) -> list[int] | None:
    return judged(rates, capacity, **more)[0][ClusterRisks].brokers("broker_overloaded_after_loss")


@pytest.mark.parametrize(
    ("capacity", "brokers"),
    [
        ({1: (199, -1), 2: (200, -1)}, [1]),  # exactly at its capacity is not above
        ({1: (200, -1), 2: (200, -1), 3: (1, 1)}, []),
        ({1: (-1, 1), 2: (-1, 1)}, []),  # no groups: nothing goes out
    ],
)
def test_a_broker_is_overloaded_above_its_capacity(capacity, brokers):
    assert overloaded(HALF, capacity) == brokers


def test_the_finding_names_the_loss_and_the_share():
    state, texts = judged(HALF, {1: (160, -1), 2: (400, -1)})
    found = state[LossLoads]
    assert found.capacity_ratio.tolist()[:2] == [1.25, 0.5]
    assert np.isnan(found.capacity_ratio[2])
    assert found.lost_broker.tolist() == [2, 1, -1]
    assert found.direction.tolist() == [Direction.IN, Direction.IN, UNKNOWN]
    assert found.is_above.tolist() == [1, 0, 0]
    assert "broker 1 would carry 125 % of its capacity if broker 2 were lost" in texts
    totals = shard_totals(state)
    assert totals["kafka_twin_broker_capacity_after_loss_ratio"] == {("1",): 1.25, ("2",): 0.5}
    assert totals["kafka_twin_broker_capacity_after_loss_lost_broker"] == {("1",): 2, ("2",): 1}


def test_a_broker_above_its_capacity_that_gets_nothing_more_is_not_meant():
    assert overloaded([((1, 2), 100), ((3, 2), 100)], {3: (50, -1)}) == []


def test_shares_are_scaled_to_what_brokers_measure():
    metrics = {1: {"bytes_in_per_s": 300.0}, 2: {"bytes_in_per_s": 100.0}}
    assert overloaded(HALF, {2: (400, -1)}, metrics=metrics) == []
    assert overloaded(HALF, {2: (399, -1)}, metrics=metrics) == [2]
    # Bytes to consumers of which no group is known go with what producers write.
    metrics = {1: {"bytes_out_per_s": 80.0}, 2: {"bytes_out_per_s": 40.0}}
    assert overloaded(HALF, {2: (-1, 119)}, metrics=metrics) == [2]


def test_an_unknown_part_makes_it_unknown_unless_the_known_part_is_above():
    state, _ = judged(HALF, {2: (200, -1)}, new=[(1, 2)])
    assert state[LossLoads].is_above.tolist()[1] == UNKNOWN
    state, _ = judged(HALF, {2: (199, -1)}, new=[(1, 2)])
    assert state[LossLoads].is_above.tolist()[1] == 1


def test_without_a_capacity_shards_report_nothing():
    for frames in reported(CATALOG, list(cycles(HALF, None)), 2, ["t0", "t1"]):
        loads = [f for f in frames if f.header.kind in ("broker_loads", "load_shifts")]
        assert len(loads) == 4
        assert all(frame.rows.num_rows == 0 for frame in loads)
    state, _ = judged(HALF, None)
    assert shard_totals(state)["kafka_twin_broker_capacity_after_loss_ratio"] == {}


def test_the_risk_opens_after_five_minutes():
    assert overloaded(HALF, {1: (150, -1)}, minutes=(0, 1, 5)) == []


REPLICAS = st.permutations([1, 2, 3]).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(order[:count]))
)


@examples(60)
@given(
    rates=st.lists(st.tuples(REPLICAS, st.integers(0, 10**9)), min_size=5, max_size=5),
    limits=st.lists(st.integers(1, 10**9), min_size=3, max_size=3),
    measured=st.booleans(),
    shards=st.sampled_from([4, 25]),
    data=st.data(),
)
def test_the_finding_is_the_same_for_any_number_of_shards_in_any_order(
    rates, limits, measured, shards, data
):
    capacity = {broker: (limit, limit) for broker, limit in enumerate(limits, 1)}
    metrics = {1: {"bytes_in_per_s": 7e8, "bytes_out_per_s": 3e8}} if measured else None
    more = {"metrics": metrics, "new": [(1, 2)]}
    whole, texts = judged(rates, capacity, **more)

    def shuffled(reports):
        return data.draw(st.permutations(reports))

    parts, texts_of_parts = judged(rates, capacity, shards, shuffled, **more)
    assert texts == texts_of_parts
    for table in (LossLoads, ClusterRisks):
        for one, other in zip(whole[table].values(), parts[table].values(), strict=True):
            np.testing.assert_array_equal(one, other)
