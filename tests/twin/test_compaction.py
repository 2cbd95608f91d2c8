"""Compacted logs that only grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.asking import partition_object
from tests.builders import NOW_MS, Log, Partition, a_state
from tests.cycles import listed_frames
from tests.reading import conditions, open_risks
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.step import step

MINUTE_MS = 60_000
COMPACTED = {
    "compacted": 1, "segment_bytes": 1_000, "remote_storage": 0, "retention_ms": -1,
    "min_compaction_lag_ms": 0, "min_dirty_percent": 50,
}  # fmt: skip
PART = Partition(replicas=(1, 2), log=Log(size_bytes=5_000))


def grown(sizes: Sequence[int], **configs: int) -> ShardState:
    """The state after replica 2 had those sizes, a minute each."""
    state = a_state(PART, topics={"t": COMPACTED | configs})
    for minute, size in enumerate(sizes, 1):
        at_ms = NOW_MS + minute * MINUTE_MS
        part = replace(PART, logs={2: Log(size_bytes=size)})
        frames = listed_frames([part], at_ms)
        state, _ = step(state, frames, at_ms)
    return state


@pytest.mark.parametrize(
    ("sizes", "only_grows"),
    [
        ([6_000, 12_000], False),  # twice, and the two segments that are not compacted yet
        ([6_000, 12_001], True),
        ([12_001, 9_000, 19_000], False),  # it was compacted
        ([12_001, 9_000, 20_001], True),
        ([9_000, UNKNOWN, 12_001], True),
        ([9_000, UNKNOWN], False),
    ],
)
def test_a_compacted_log_that_doubles_and_never_becomes_smaller_only_grows(sizes, only_grows):
    assert ("compacted_only_grows" in conditions(grown(sizes))) == only_grows


def test_a_log_that_doubles_within_its_compaction_lag_is_as_it_should_be():
    """The cleaner leaves alone what is younger: here three minutes."""
    lag = {"min_compaction_lag_ms": 3 * MINUTE_MS}
    doubled = [9_000, 12_001, 12_500, 13_000]  # in the second minute
    assert "compacted_only_grows" not in conditions(grown(doubled, **lag))
    assert "compacted_only_grows" in conditions(grown([*doubled, 13_500], **lag))
    cleaned = [*doubled, 9_000, 21_000]
    assert "compacted_only_grows" not in conditions(grown(cleaned, **lag))


@pytest.mark.parametrize(
    ("percent", "size", "only_grows"),
    [(20, 8_250, False), (20, 8_251, True), (80, 27_000, False), (80, 27_001, True)],
)
def test_how_much_the_cleaner_waits_for_is_a_setting(percent, size, only_grows):
    """min.cleanable.dirty.ratio: 1 250 and 20 000 bytes besides 5 000, and two segments."""
    state = grown([6_000, size], min_dirty_percent=percent)
    assert ("compacted_only_grows" in conditions(state)) == only_grows


@pytest.mark.parametrize(
    "configs",
    [{"compacted": 0}, {"compacted": -1}, {"segment_bytes": -1}, {"min_compaction_lag_ms": -1},
     {"min_dirty_percent": -1}, {"min_dirty_percent": 100}],
)  # fmt: skip
def test_other_logs_may_grow(configs):
    assert "compacted_only_grows" not in conditions(grown([50_000], **configs))


def test_it_is_said_after_an_hour_with_the_replica_and_its_sizes():
    sizes = [13_000 + n for n in range(60)]
    assert "compacted_only_grows" not in open_risks(grown(sizes))
    state = grown([*sizes, 14_000])
    assert "compacted_only_grows" in open_risks(state)
    found = partition_object(state)
    assert found["compacted_only_grows"] == [
        {"broker": 2, "size_bytes": 14_000, "least_bytes": 5_000, "since_ms": NOW_MS}
    ]
