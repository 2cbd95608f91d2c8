"""Whatever a state holds, all that is declared can be computed and has the shape it promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Moved,
    Partition,
    broker_metrics_frame,
    empty,
    isr_changes_frame,
    lookups_frame,
    partitions_frame,
    replicas_frame,
)
from tests.examples import examples
from tests.reading import computed
from tests.simulator.shard import Shape, SimulatedShard
from twin import builtin
from twin.builtin import CATALOG
from twin.declarations.declare import Metric
from twin.declarations.results import ByBroker, ByLogDir, ByRack, KnownValues, OfReplicas, OfRows
from twin.declarations.signature import Parameter, Reads
from twin.declarations.table import UNKNOWN, KeyedTable, PartitionTable, ReplicaTable, SparseTable
from twin.engine.catalog import Catalog
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.rules.brokers.racks import rack_names
from twin.step import step, step_segments
from twin.tables.broker_columns import BROKER_METRICS
from twin.tables.state import Brokers, GroupOffsets, PartitionIndex, Topics
from twin.totals import shard_totals

SHAPES = st.builds(
    Shape,
    topics=st.integers(1, 3),
    partitions=st.integers(1, 4),
    replication=st.integers(1, 4),
    brokers=st.integers(4, 6),
    eligible_ms=st.sampled_from([UNKNOWN, 600_000, 2_000_000]),
    cold_share=st.sampled_from([0.0, 0.3, 1.0]),
    fetches=st.booleans(),
    tier=st.booleans(),
    groups=st.integers(0, 3),
)


def check(state: ShardState) -> None:
    """Compute everything that the catalog declares, and look at what comes back."""
    catalog = state.catalog
    for table in (*catalog.stored, *catalog.on_demand):
        check_table(state, table)
        check_alone(state, table)
    for metric in catalog.metrics:
        check_metric(state, metric)
    for risk in catalog.risks:
        holds = state.call(risk.holds, risk.reads)
        assert (holds.shape, holds.dtype) == ((state.partitions,), np.bool_), risk.name
    for field in catalog.api_fields:
        values = state.call(field.values, field.reads)
        assert isinstance(values, list), field.name
        assert len(values) == state.partitions, field.name
        json.dumps(values, allow_nan=False)  # raises for numpy's numbers, inf and NaN


def check_table(state: ShardState, table: Any) -> None:
    made = state[table]
    shapes = {value.shape for value in made.values()}
    assert len(shapes) == 1, table.kind
    (shape,) = shapes
    if issubclass(table, PartitionTable):
        assert shape == (state.partitions,), table.kind
    elif issubclass(table, ReplicaTable):
        assert shape == (state.partitions, state.slots), table.kind
    elif issubclass(table, SparseTable):
        assert_rows(made.row, state)
        assert (np.diff(made.row) >= 0).all(), table.kind
    else:
        assert issubclass(table, KeyedTable)
    for column, values in zip(made.columns, made.values(), strict=True):
        assert values.dtype == column.dtype, f"{table.kind}.{column.name}"


def check_alone(state: ShardState, table: Any) -> None:
    """The table is the same in a state that has only what it needs."""
    alone = state.with_only([Parameter("", Reads.TABLE, table)])
    for mine, theirs in zip(alone[table].values(), state[table].values(), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"), table


def check_metric(state: ShardState, metric: Metric) -> None:
    assert metric.compute is not None, metric.series_name
    result = computed(state, metric)
    assert isinstance(result, Mapping) == bool(metric.labels), metric.series_name
    if not metric.labels:
        check_values(state, metric, result)
        return
    for values, part in result.items():
        assert len(values) == len(metric.labels), metric.series_name
        assert all(type(value) is str for value in values), metric.series_name
        check_values(state, metric, part)


def check_values(state: ShardState, metric: Metric, result: Any) -> None:
    """The answer of a metric for one set of labels, as ``Metric`` promises it by level."""
    partitions, slots = state.partitions, state.slots
    name = metric.series_name
    match metric.level, result:
        case "cluster", int() | float():
            assert not isinstance(result, bool), name
        case "rack", ByRack(rack, values):
            racks = len(rack_names(state[Brokers]))
            assert ((rack >= UNKNOWN) & (rack < racks)).all(), name
            assert_numbers(values, rack.shape, name)
        case "broker", ByBroker(broker, values):
            assert broker.dtype.kind == "i", name
            assert broker.ndim == 1, name
            assert (broker >= 0).all(), name
            assert_numbers(values, broker.shape, name)
        case "log_dir", ByLogDir(broker, log_dir, values):
            assert broker.shape == log_dir.shape, name
            assert (broker >= 0).all(), name
            assert_numbers(values, broker.shape, name)
        case "topic", _:
            assert_numbers(result, (partitions,), name)
        case "group" | "group_topic" | "group_partition", np.ndarray():
            assert_numbers(result, (len(state[GroupOffsets]),), name)
        case "partition", OfRows(row, values):
            assert_rows(row, state)
            assert len(np.unique(row)) == len(row), f"{name}: two samples of one partition"
            assert_numbers(values, row.shape, name)
        case "partition", KnownValues(values, is_known):
            assert_numbers(values, (partitions,), name)
            assert (is_known.shape, is_known.dtype) == ((partitions,), np.bool_), name
        case "partition", _:
            assert_numbers(result, (partitions,), name)
        case "replica", OfReplicas(row, slot, values):
            assert_rows(row, state)
            assert row.shape == slot.shape, name
            assert ((slot >= 0) & (slot < slots)).all(), name
            assert_numbers(values, row.shape, name)
        case "replica", KnownValues(values, is_known):
            assert_numbers(values, (partitions, slots), name)
            assert (is_known.shape, is_known.dtype) == ((partitions, slots), np.bool_), name
        case "replica", _:
            assert_numbers(result, (partitions, slots), name)
        case _:
            pytest.fail(f"{name} of level {metric.level} returns a {type(result).__name__}")


def assert_rows(row: Any, state: ShardState) -> None:
    assert ((row >= 0) & (row < state.partitions)).all()


def assert_numbers(values: Any, shape: tuple[int, ...], name: str) -> None:
    if values is not None:  # brokers and racks that count as 1 each have none
        assert values.shape == shape, name
        assert values.dtype.kind in "iufb", name


# ---------------------------------------------------------------- states


def simulated(
    shape: Shape, seed: int, cycles: int, logs: bool = False, deletes: bool = False,
    catalog: Catalog = CATALOG, slots: int = 0,
) -> ShardState:  # fmt: skip
    """A state after some cycles with mishaps.

    Args:
        shape: of the simulated shard.
        seed: decides what happens.
        cycles: how many.
        logs: brokers log and measure.
        deletes: the first topic is deleted after the first cycle.
        catalog: the rules.
        slots: that the tables of replicas have from the beginning.
    """
    shard = SimulatedShard(shape, seed, cluster="c")
    state = ShardState.empty(catalog, "c", 0, 1).with_slot_capacity(slots)
    segments: segment_store.SegmentStore = {}
    for number, frames in enumerate(shard.run(cycles, NOW_MS)):
        at_ms = frames[0].header.observed_at_ms
        remote = [frame for frame in frames if frame.header.kind in segment_store.KINDS]
        others = [frame for frame in frames if frame.header.kind not in segment_store.KINDS]
        state, _ = step(state, others, at_ms)
        if logs and state.partitions:
            state, _ = step(state, logged(state, at_ms), at_ms)
        if remote:
            state, segments, _ = step_segments(state, segments, remote)
        if deletes and number == 0:
            shard.delete_topic(shard.topics[0][0])
    return state


def logged(state: ShardState, at_ms: int) -> list[Frame]:
    """A replica that left an ISR, a follower that asks for pending uploads, and JMX metrics."""
    topics, place = state[Topics], int(state[PartitionIndex].topic_index[0])
    part = Partition(topics.topic[place], 0, topic_id=topics.topic_id[place])
    return [
        isr_changes_frame([Moved(at_ms - 100, caught_up_ms=at_ms - 40_000, part=part)], at_ms),
        lookups_frame(part, [(2, at_ms, 5)]),
        broker_metrics_frame({1: dict.fromkeys(BROKER_METRICS, 1.5), 2: {}}, at_ms),
    ]


@given(SHAPES, st.integers(0, 1_000), st.integers(1, 6), st.booleans(), st.booleans())
@examples(60)
def test_all_that_is_declared_can_be_computed_for_any_state(shape, seed, cycles, logs, deletes):
    check(simulated(shape, seed, cycles, logs, deletes))


@given(SHAPES, st.integers(0, 1_000), st.integers(1, 6), st.booleans())
@examples(30)
def test_a_wider_state_gives_the_same_answers(shape, seed, cycles, logs):
    """Other partitions of the shard, of now or of long ago, decide how wide its tables are."""
    narrow = simulated(shape, seed, cycles, logs)
    wide = simulated(shape, seed, cycles, logs, slots=narrow.slots + 3)
    assert wide.slots == narrow.slots + 3
    for table in (*CATALOG.stored, *CATALOG.on_demand):
        pairs = zip(table.columns, narrow[table].values(), wide[table].values(), strict=True)
        for column, mine, other in pairs:
            if issubclass(table, ReplicaTable):
                other = other[:, : narrow.slots]
            same = np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f")
            assert same, f"{table.kind}.{column.name}"
    for risk in CATALOG.risks:
        holds = (state.call(risk.holds, risk.reads) for state in (narrow, wide))
        assert np.array_equal(*holds), risk.name
    for field in CATALOG.api_fields:
        values = [state.call(field.values, field.reads) for state in (narrow, wide)]
        assert values[0] == values[1], field.name
    assert shard_totals(narrow) == shard_totals(wide)


@pytest.mark.parametrize("proposals", [(), ("kip1303",), ("kip501",)])
def test_without_proposals_as_well(proposals):
    shape = Shape(topics=2, partitions=4, cold_share=0.5, fetches=True, tier=True, groups=2)
    check(simulated(shape, 3, 6, logs=True, catalog=builtin.catalog(proposals)))


def test_for_a_state_before_anything_was_observed():
    check(empty())


def test_for_a_partition_of_which_no_replica_answered():
    state, _ = step(empty(), [partitions_frame([Partition()])], NOW_MS)
    assert state.partitions == 1
    check(state)


def test_for_replicas_of_a_partition_that_no_listing_described():
    state, _ = step(empty(), [replicas_frame([Partition()])], NOW_MS)
    assert state.partitions == 1
    check(state)


RARE = {
    "catch_up_estimates", "catching_up", "cold_reads", "follower_states", "group_forecasts",
    "group_if_leader_lost", "group_if_leader_lost_kip1303", "group_if_leader_lost_kip501",
    "group_lags", "group_moves",
    "group_offsets", "group_reads", "isr_removals", "isr_shrinks", "kip501_handovers",
    "lead_estimates", "lineage", "pending_upload_lookups",
    "risks",
}  # fmt: skip
"""Sparse tables that the simulator fills; the test of a rule fills those that it does not."""


def test_simulated_states_reach_what_is_rare():
    """Else the property would hold of empty tables alone."""
    shape = Shape(topics=2, partitions=4, cold_share=0.5, fetches=True, tier=True, groups=2)
    states = [simulated(shape, seed, 6, logs=True) for seed in range(12)]
    sparse = [t for t in (*CATALOG.stored, *CATALOG.on_demand) if issubclass(t, SparseTable)]
    reached = {table.kind for table in sparse for state in states if len(state[table])}
    assert reached >= RARE
