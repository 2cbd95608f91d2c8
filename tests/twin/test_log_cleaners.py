"""Brokers whose log cleaner has a dead thread, or has given partitions up."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Partition, broker_metrics_frame, brokers_frame, partitions_frame
from tests.cycles import own_after
from twin.cluster_rules.log_cleaners import LogCleaners
from twin.engine.cluster_risks import ClusterRisks

CYCLES = (0, 30, 60)
"""Seconds."""


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("dead", "given_up", "stuck"),
    [
        ({1: 0, 2: 0}, {1: 0, 2: 0}, []),
        ({1: 0, 2: 1}, {1: 0, 2: 0}, [2]),
        ({1: 0, 2: 0}, {1: 3, 2: 0}, [1]),
        ({2: 1}, {}, [2]),
        ({1: 0}, {2: 0}, []),  # neither is judged
    ],
)
def test_a_broker_whose_cleaner_is_dead_or_has_given_up_is_named(dead, given_up, stuck, shards):
    cycles = []
    for at_ms in (NOW_MS + second * 1_000 for second in CYCLES):
        measured: dict[int, dict[str, float]] = {broker: {} for broker in (*dead, *given_up)}
        for broker, threads in dead.items():
            measured[broker]["log_cleaner_dead_threads"] = threads
        for broker, partitions in given_up.items():
            measured[broker]["uncleanable_partitions"] = partitions
        frames = [
            brokers_frame((1, 2, 3), at_ms),
            partitions_frame([Partition("t0")], at_ms),
            broker_metrics_frame(measured, at_ms),
        ]
        cycles.append((frames, at_ms))
    state = own_after(cycles, ["t0"], shards)
    table = state[LogCleaners]
    assert table.broker.tolist() == sorted({*dead, *given_up}), "of others nothing is known"
    half = {b for b, is_stuck in zip(table.broker, table.is_stuck, strict=True) if is_stuck < 0}
    assert half == (dead.keys() ^ given_up.keys()) - set(stuck)
    assert state[ClusterRisks].brokers("log_cleaner_stuck") == stuck
