"""What is known of a group's lag while nobody knows the high watermark."""

from __future__ import annotations

import pytest

from tests.asking import partition_object
from tests.builders import NOW_MS, Group, Log, Partition
from tests.twin.test_groups import cycle
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupLags

DOES_NOT_ANSWER = Partition(log=Log(end=31_000), silent=(3,))
"""A member of the ISR; and the leader, just elected, does not know its high watermark yet."""


def lags(state: ShardState) -> tuple[int, int]:
    table = state[GroupLags]
    return int(table.lag_records[0]), int(table.lag_at_most_records[0])


def test_without_a_high_watermark_a_lag_reaches_to_the_log_end_at_most():
    state = cycle(Group(offsets=[(DOES_NOT_ANSWER, 1_000)]), parts=(DOES_NOT_ANSWER,))
    assert lags(state) == (UNKNOWN, 30_000)
    partition = partition_object(state)
    [group] = partition["groups"]
    assert (group["lag_records"], group["lag_at_most_records"]) == (None, 30_000)


def test_a_known_lag_is_its_own_bound():
    part = Partition(log=Log(end=31_000, high_watermark=30_500))
    assert lags(cycle(Group(offsets=[(part, 1_000)]), parts=(part,))) == (29_500, 29_500)


@pytest.mark.parametrize(("read_ms", "at_most"), [(NOW_MS, 30_000), (NOW_MS + 1, UNKNOWN)])
def test_a_log_end_that_is_older_than_the_committed_offset_bounds_nothing(read_ms, at_most):
    group = Group(offsets=[(DOES_NOT_ANSWER, 1_000)], read_ms=read_ms)
    assert lags(cycle(group, parts=(DOES_NOT_ANSWER,))) == (UNKNOWN, at_most)


def test_an_offset_that_is_unknown_has_no_bound():
    state = cycle(Group(offsets=[(DOES_NOT_ANSWER, UNKNOWN)]), parts=(DOES_NOT_ANSWER,))
    assert lags(state) == (UNKNOWN, UNKNOWN)
