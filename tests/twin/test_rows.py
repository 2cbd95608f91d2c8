"""A frame that lists a row twice is refused, in whatever order its rows are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.engine.frames import InvalidFrame
from twin.engine.rows import refuse_duplicate_rows


def rows_of(pairs: list[tuple[int, int]]) -> pa.Table:
    """Rows of topics and partitions."""
    index = pa.array([topic for topic, _ in pairs], pa.int32())
    topic = pa.DictionaryArray.from_arrays(index, pa.array(["a", "b"]))
    return pa.table({"topic": topic, "partition": pa.array([n for _, n in pairs], pa.int32())})


def is_refused(pairs: list[tuple[int, int]], broker: list[int] | None = None) -> bool:
    try:
        refuse_duplicate_rows(rows_of(pairs), None if broker is None else np.array(broker, int))
    except InvalidFrame:
        return True
    return False


REPLICAS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 40)))


@pytest.mark.parametrize("in_order", [False, True])
@given(replicas=REPLICAS)
def test_a_replica_is_refused_exactly_if_it_is_listed_twice(in_order, replicas):
    listed = sorted(replicas, key=lambda replica: replica[:2]) if in_order else replicas
    pairs = [(topic, number) for topic, number, _ in listed]
    has_twice = len(set(listed)) < len(listed)
    assert is_refused(pairs, [broker for *_, broker in listed]) == has_twice


@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9))))
def test_a_partition_is_refused_exactly_if_it_is_listed_twice(pairs):
    assert is_refused(pairs) == (len(set(pairs)) < len(pairs))


def test_two_rows_of_a_partition_with_many_replicas_are_found_however_far_apart():
    many = list(range(30))
    assert not is_refused([(0, 0)] * 30, many)
    assert is_refused([(0, 0)] * 31, [*many, 0])
