"""The most that brokers carried in seven days, and capacities that are a percentage of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scope import reported
from tests.twin.test_load_after_loss import HALF, cycles, judged
from twin.builtin import CATALOG
from twin.cluster_rules.load_after_loss import LossLoads
from twin.cluster_step import empty_cluster, step_cluster
from twin.rules.load.peaks import DAY_MS, CarriedPeaks

DAY = 24 * 60  # minutes
TWICE = {1: (-1, -1, 200), 2: (-1, -1, 200), 3: (-1, -1, 200)}
STEADY = (0, 1, DAY + 1, DAY + 2)
"""Minutes of cycles: the brokers are observed for more than a day."""


def peaks_after(*carried: tuple[int, dict[int, tuple[float, float]]]) -> CarriedPeaks:
    """The peaks after cycles at those times, with what each broker carried."""
    peaks = CarriedPeaks.empty()
    for at_ms, by_broker in carried:
        broker = np.array(sorted(by_broker), np.int32)
        into, out = np.array([by_broker[each] for each in sorted(by_broker)], float).T
        peaks = peaks.after(at_ms, broker, into, out)
    return peaks


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 12 * DAY_MS),
            st.dictionaries(
                st.integers(1, 4), st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1
            ),
        ),
        max_size=12,
    ),
    st.integers(0, 2 * DAY_MS),
)
def test_the_peak_of_a_broker_is_the_most_of_its_last_seven_days(carried, later_ms):
    carried = sorted(carried, key=lambda each: each[0])
    peaks = peaks_after(*carried)
    now_ms = (carried[-1][0] if carried else 0) + later_ms
    last_day = carried[-1][0] // DAY_MS if carried else 0
    broker = np.arange(1, 5, dtype=np.int32)
    into, out = peaks.highest(broker, now_ms)
    for i, each in enumerate(broker.tolist()):
        mine = [
            (at_ms, *of[each])
            for at_ms, of in carried
            if each in of and at_ms // DAY_MS > last_day - 7
        ]
        if mine and now_ms - mine[0][0] >= DAY_MS:
            expected = max(each[1] for each in mine), max(each[2] for each in mine)
            assert (into[i], out[i]) == expected
        else:
            assert np.isnan([into[i], out[i]]).all()
    rows = list(zip(peaks.broker.tolist(), peaks.day.tolist(), strict=True))
    assert all(one < other for one, other in pairwise(rows))


def test_the_capacity_is_a_percentage_of_the_peak():
    """Each of two takes the other's 100 B/s: 200 % of its peak, which is at 200 % not above."""
    state, _ = judged(HALF, TWICE, minutes=STEADY)
    peaks = state[CarriedPeaks]
    assert peaks.highest(np.array([1, 2, 3], np.int32), state.observed_at_ms)[0].tolist() == [
        100,
        100,
        0,
    ]
    found = state[LossLoads]
    assert found.capacity_ratio.tolist()[:2] == [1.0, 1.0]
    assert found.is_above.tolist() == [0, 0, 0]
    state, _ = judged(HALF, {**TWICE, 2: (-1, -1, 199)}, minutes=STEADY)
    assert state[LossLoads].is_above.tolist() == [0, 1, 0]


@pytest.mark.parametrize(("limit", "ratio"), [(-1, 1.0), (400, 0.5)])
def test_bytes_that_are_set_win(limit, ratio):
    capacity = {**TWICE, 1: (limit, -1, 200)}
    state, _ = judged(HALF, capacity, minutes=STEADY)
    assert state[LossLoads].capacity_ratio[0] == ratio


def test_nothing_is_judged_before_a_broker_was_watched_for_a_day():
    state, _ = judged(HALF, dict.fromkeys((1, 2, 3), (-1, -1, 1)), minutes=(0, 1, DAY - 1))
    assert np.isnan(state[LossLoads].capacity_ratio).all()
    assert state[LossLoads].is_above.tolist() == [0, 0, 0]
    assert len(state[CarriedPeaks].broker)


def test_without_a_percentage_nothing_is_remembered():
    state, _ = judged(HALF, {1: (200, -1)}, minutes=STEADY)
    assert len(state[CarriedPeaks].broker) == 0


@pytest.mark.parametrize("measured", [False, True])
def test_peaks_are_those_of_the_whole_cluster_in_any_number_of_shards(measured):
    metrics = {1: {"bytes_in_per_s": 7e3, "bytes_out_per_s": 3e3}} if measured else None
    rates = [((1, 2, 3), 100), ((1, 3, 2), 50), ((2, 1, 3), 25)]
    whole, parts = (
        judged(rates, TWICE, shards, minutes=STEADY, metrics=metrics)[0][CarriedPeaks]
        for shards in (1, 4)
    )
    for one, other in zip(whole.values(), parts.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert whole.bytes_in_per_s.max() == (7e3 if measured else 150)


def test_a_shard_that_reports_nothing_for_some_time_does_not_make_it_forget():
    """Other findings have no rows meanwhile: they are about now."""
    minutes = (*STEADY, DAY + 10)
    each = list(reported(CATALOG, list(cycles(HALF, TWICE, minutes=minutes)), 2, ["t0", "t1"]))
    state = empty_cluster(CATALOG, "c", 2)
    for frames in each[:-1]:
        state, _ = step_cluster(state, frames)
    before = state[CarriedPeaks]
    alone = [frame for frame in each[-1] if frame.header.shard == 0]
    state, _ = step_cluster(state, alone)
    assert len(state[LossLoads].broker) == 0
    for was, now in zip(before.values(), state[CarriedPeaks].values(), strict=True):
        np.testing.assert_array_equal(was, now)
