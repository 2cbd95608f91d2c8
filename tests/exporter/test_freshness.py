"""When an observation is stale: after three cycles, whatever the clocks and the latency."""

from __future__ import annotations

import pytest

from streaming.bus.freshness import BusState, Rhythm
from twin.declarations.table import UNKNOWN

INTERVAL_MS = 5_000
NOW_MS = 1_790_000_000_000


def after(*arrivals: tuple[int, int]) -> Rhythm:
    """The rhythm after observations of those times, and when each arrived; from NOW_MS, in ms."""
    rhythm, before_ms = Rhythm(INTERVAL_MS), UNKNOWN
    for observed_ms, arrived_ms in arrivals:
        rhythm = rhythm.arrived(NOW_MS + observed_ms, before_ms, NOW_MS + arrived_ms)
        before_ms = NOW_MS + observed_ms
    return rhythm


@pytest.mark.parametrize(
    ("arrivals", "stale_after_ms"),
    [
        pytest.param([(0, 800)], 15_800, id="at once"),
        pytest.param([(0, 9_000), (5_000, 14_000)], 24_000, id="a slow query"),
        pytest.param([(0, -30_000)], -15_000, id="a clock that is behind"),
        pytest.param([(0, 30_000)], 45_000, id="a clock that is ahead"),
        pytest.param([(0, 600_000)], 60_000, id="an old snapshot at the start"),
        pytest.param([(0, 0), (12_000, 12_000)], 15_000, id="one long cycle"),
        pytest.param([(0, 0), (12_000, 12_000), (23_000, 23_000)], 33_000, id="long cycles"),
        pytest.param([(0, 0), (600_000, 600_000), (605_000, 605_000)], 15_000, id="an outage"),
        pytest.param([(n * 600_000, n * 600_000) for n in range(3)], 180_000, id="two outages"),
    ],
)
def test_it_is_stale_after_three_usual_cycles(arrivals, stale_after_ms):
    rhythm = after(*arrivals)
    assert rhythm.stale_after_ms == stale_after_ms
    assert not rhythm.is_late(stale_after_ms - rhythm.cycle_ms)
    assert rhythm.is_late(stale_after_ms - rhythm.cycle_ms + 1)


def test_short_cycles_do_not_make_a_failover_of_the_bus_stale():
    rhythm = Rhythm(1_000).arrived(NOW_MS, UNKNOWN, NOW_MS)
    assert rhythm.stale_after_ms == 15_000
    assert rhythm.is_late(2_001), "the reader asks whom it waits for after two cycles all the same"


def test_a_reader_that_reads_once_allows_for_latency_and_clocks():
    assert Rhythm(INTERVAL_MS).stale_after_ms == 60_000


def test_a_silent_bus_is_named_with_the_time_of_its_last_answer():
    state = BusState(silent_since_ms=1_768_448_032_000)
    assert state.why_old(21_400) == (
        "the bus has not answered since 2026-01-15 03:33:52 UTC; the newest observation is 21 s old"
    )
    assert BusState(silent_since_ms=1_768_448_032_000, holds_cluster=True).why_empty() == (
        "no snapshot has been read yet: the bus, which is on the watched cluster, has not answered "
        "since 2026-01-15 03:33:52 UTC"
    )
