"""A group beyond the log end stays there, at whatever moment of a cycle its offset is read."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Group, Log, Partition
from tests.reading import open_risks
from tests.twin.test_groups import cycle
from twin.engine.shard_state import ShardState
from twin.rules.groups.reads import GroupReads, ReadsFrom

CYCLE_MS = 5_000
PART = Partition(log=Log(end=10))


def cycles(
    offsets: list[int], read_after_ms: int = 0, silent_from: int | None = None, each: int = 6
) -> list[ShardState]:
    """The states of all cycles; the group is read in every sixth, so long after its begin."""
    states: list[ShardState] = []
    for i in range(each * len(offsets)):
        at_ms = NOW_MS + i * CYCLE_MS
        silent = silent_from is not None and i >= silent_from
        part = Partition(log=PART.log, silent=(1,) if silent else ())
        group = Group(offsets=[(part, offsets[i // each])], read_ms=at_ms + read_after_ms)
        is_read = i % each == 0
        states.append(
            cycle(*([group] if is_read else []), parts=(part,), is_read=is_read, at_ms=at_ms,
                  since=states[-1] if states else None)
        )  # fmt: skip
    return states


def is_ahead(state: ShardState) -> bool:
    [source] = state[GroupReads].reads_from.tolist()
    return bool(source == ReadsFrom.AHEAD)


@pytest.mark.parametrize("read_after_ms", [-1_000, -1, 0, 1, 1_000])
def test_a_group_beyond_the_log_end_is_a_risk_whenever_it_is_read(read_after_ms):
    """The collector's first round begins with its first cycle, and so do the later ones."""
    states = cycles([50] * 5, read_after_ms)
    assert [is_ahead(state) for state in states] == [False, *[True] * 29]
    found = ["consumer_ahead_of_log" in open_risks(state) for state in states]
    assert found == [False] * 7 + [True] * 23


def test_an_offset_that_changes_is_ahead_once_it_stands_still():
    states = cycles([50, 60, 60])
    assert [is_ahead(state) for state in states[6:]] == [*[False] * 7, *[True] * 5]


def test_a_leader_that_does_not_answer_says_nothing_of_its_log_end():
    states = cycles([50] * 4, silent_from=8)
    assert [is_ahead(state) for state in states[1:18]] == [True] * 17  # it answered since cycle 6
    assert [is_ahead(state) for state in states[18:]] == [False] * 6
