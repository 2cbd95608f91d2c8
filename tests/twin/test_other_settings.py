"""Brokers that lead by other settings than most: the same for any number of shards."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame
from tests.cycles import own_after
from twin.cluster_rules.other_settings import OtherSettings
from twin.declarations.table import UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.shard_state import ShardState

MINUTES = (0, 15, 30)
Settings = dict[str, dict[int, int]]


def judged(
    min_isr: dict[int, int], shards: int = 1, settings: Settings | None = None, **more
) -> ShardState:
    """The cluster's own shard after half an hour with those settings of its brokers."""
    cycles = []
    for at_ms in (NOW_MS + minute * 60_000 for minute in MINUTES):
        frames = [
            brokers_frame(
                (1, 2, 3), at_ms, settings={"default_min_isr": min_isr, **(settings or {})}, **more
            ),
            partitions_frame([Partition("t0")], at_ms),
        ]
        cycles.append((frames, at_ms))
    state = own_after(cycles, ["t0"], shards)
    assert state[OtherSettings].broker.tolist() == [1, 2, 3]
    return state


def differing(*given, **more) -> list[int] | None:
    return judged(*given, **more)[ClusterRisks].brokers("broker_settings_differ")


LAGS = {1: 30_000, 2: 30_000, 3: 30_000}


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("min_isr", "lags", "brokers"),
    [
        ({1: 2, 2: 2, 3: 2}, LAGS, []),
        ({1: 2, 2: 2, 3: 1}, LAGS, [3]),
        ({1: 2, 2: 2, 3: 2}, LAGS | {2: 10_000}, [2]),
    ],
)
def test_a_broker_that_leads_by_another_setting_than_most_is_named(min_isr, lags, brokers, shards):
    assert differing(min_isr, shards, lag_time_max_ms=lags) == brokers


def test_a_broker_of_unknown_settings_differs_from_nobody():
    assert differing({1: 2, 2: 2, 3: UNKNOWN}, lag_time_max_ms=LAGS) == []


WEEK_MS = 7 * 86_400_000


@pytest.mark.parametrize(
    ("settings", "brokers"),
    [
        ({"default_retention_ms": {1: WEEK_MS, 2: WEEK_MS, 3: WEEK_MS}}, []),
        ({"default_retention_ms": {1: WEEK_MS, 2: WEEK_MS, 3: 3_600_000}}, [3]),
        ({"default_retention_ms": {1: WEEK_MS, 2: WEEK_MS}}, []),
        ({"default_local_retention_bytes": {1: -2, 2: 1 << 30, 3: -2}}, [2]),
        ({"default_segment_bytes": {1: 1 << 20, 2: 1 << 30, 3: 1 << 30}}, [1]),
    ],
)
def test_a_broker_that_keeps_another_log_than_most_is_named(settings, brokers):
    assert differing({}, settings=settings) == brokers


def test_a_setting_that_only_some_brokers_have_told_leaves_the_others_unjudged():
    told = {"default_retention_ms": {1: WEEK_MS, 2: WEEK_MS}}
    assert judged({}, settings=told)[OtherSettings].differs.tolist() == [0, 0, UNKNOWN]
