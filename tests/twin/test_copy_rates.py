"""How fast brokers copied when they came back, and the default rate of ``whatif recovery``."""

from __future__ import annotations

import numpy as np
import pytest

from streaming.questions import QUESTIONS
from tests.asking import a_view
from tests.builders import NOW_MS, Log, Partition, brokers_frame, configs_frame
from tests.cycles import cycle_frames, own_after
from tests.scope import played
from twin.builtin import CATALOG
from twin.cluster_rules.copy_rates import CopyRates
from twin.engine.shard_state import ShardState

SECOND, DAY = 1_000, 86_400_000
KB = 1_000
BACK = ((0, None, 0), (10, None, 0), (20, 1_000, 0), (30, 21_000, 0))
STEADY = (*BACK, (40, 41_000, 0), (50, 61_000, 0), (60, 95_000, 0), (70, 100_000, 0))
"""Seconds, the log end of broker 2 in each of two topics, and records of 1 kB written since; None
while it is silent. The leader had 100 000 records."""

RATE = 2 * (95_000 - 21_000) * KB // 30
"""From 10 s after the return until less than a tenth of what it lacked then is left."""


def cycles(moments=STEADY, *, is_silent=True, also_silent=(), end_ms=0):
    """Broker 2 comes back and catches up with leader 1; broker 3 may be silent at some seconds."""
    for second, end, written in moments:
        at_ms = NOW_MS + second * SECOND
        silent = (2,) if end is None and is_silent else ()
        records = 100_000 + written
        leader = Log(end=records, size_bytes=records * KB)
        follower = Log(end=end or 0, size_bytes=(end or 0) * KB)
        isr = (1, 2) if end == records else (1,)
        parts = [
            Partition(f"t{n}", 0, (1, 2), isr=isr, silent=silent, logs={1: leader, 2: follower})
            for n in range(2)
        ]
        away = (*silent, *((3,) if second in also_silent else ()))
        yield [
            *cycle_frames(parts, at_ms, ids=(1, 2, 3), silent=away), configs_frame(at_ms=at_ms),
        ], at_ms  # fmt: skip
    if end_ms:
        yield [brokers_frame((1, 2, 3), NOW_MS + end_ms)], NOW_MS + end_ms


def measured(shards: int = 1, **more) -> ShardState:
    """The cluster's own shard afterwards."""
    return own_after(cycles(**more), ["t0", "t1"], shards)


@pytest.mark.parametrize("shards", [1, 4])
def test_the_rate_of_a_return_is_that_of_all_its_replicas(shards):
    rates = measured(shards)[CopyRates]
    assert rates.broker.tolist() == [2]
    assert rates.bytes_per_s.tolist() == pytest.approx([RATE], abs=1)
    assert rates.measured_at_ms.tolist() == [NOW_MS + 60 * SECOND]


def test_what_is_written_meanwhile_is_copied_too():
    """1 000 records a second to each of two partitions, 3 000 copied."""
    moments = (
        (0, None, 0),
        (10, None, 10_000),
        (20, 0, 20_000),
        *((second, (second - 20) * 3_000, second * 1_000) for second in range(30, 90, 10)),
    )
    assert measured(moments=moments)[CopyRates].bytes_per_s == pytest.approx(2 * 3_000 * KB)


def test_what_a_throttle_lets_pass_at_once_is_no_rate():
    """Ten seconds of bytes at once, nothing for ten seconds, and then 2 000 records a second."""
    ends = (40_000, 40_000, 60_000, 80_000, 98_000)
    moments = (*BACK[:2], *((20 + 10 * n, end, 0) for n, end in enumerate(ends)))
    rate = measured(moments=moments)[CopyRates].bytes_per_s
    assert rate == pytest.approx(2 * (98_000 - 40_000) * KB / 30)


def test_time_in_which_nothing_is_copied_at_first_does_not_count():
    waits = tuple((second, 1_000, 0) for second in range(30, 90, 10))
    later = tuple((second + 60, end, written) for second, end, written in STEADY[3:])
    rate = measured(moments=(*BACK[:3], *waits, *later))[CopyRates].bytes_per_s
    assert rate == pytest.approx(2 * (95_000 - 1_000) * KB / 40)


def test_the_last_replica_that_waits_for_something_else_is_not_measured():
    """Nine tenths in ten seconds, the rest in a minute."""
    rest = ((second, 92_000 + 100 * (second - 40), 0) for second in range(40, 110, 10))
    assert np.isnan(measured(moments=(*BACK[:3], (30, 1_100, 0), *rest))[CopyRates].bytes_per_s)


@pytest.mark.parametrize(
    "more",
    [
        {"is_silent": False},
        {"moments": (*BACK[:3], (30, 95_000, 0), (40, 100_000, 0))},
        {"moments": (*BACK, (40, 95_000, 0), (50, 100_000, 0))},
        {"moments": tuple((at, end and 96_500 + at, to) for at, end, to in STEADY)},
        {"moments": tuple((at + 200 * (at > 20), end, to) for at, end, to in STEADY[2:])},
        {"also_silent": (150,), "moments": (*BACK, *((at + 100, *x) for at, *x in STEADY[4:]))},
    ],
    ids=["was not away", "fast", "less than 20 s", "few bytes", "began unseen", "another is away"],
)
def test_no_rate_is_measured_of_a_follower_that(more):
    assert not np.isfinite(measured(**more)[CopyRates].bytes_per_s).any()


@pytest.mark.parametrize(("days", "is_kept"), [(6, True), (8, False)])
def test_a_rate_is_kept_for_a_week(days, is_kept):
    assert bool(len(measured(end_ms=days * DAY)[CopyRates].broker)) is is_kept


def test_a_later_return_without_a_rate_does_not_keep_an_old_one():
    later = tuple((second + 8 * 86_400, end, to) for second, end, to in BACK)
    assert np.isnan(measured(moments=(*STEADY, *later))[CopyRates].bytes_per_s)


@pytest.mark.parametrize(
    ("broker", "given", "rate", "is_measured"),
    [(2, {}, RATE, True), (1, {}, RATE, True), (2, {"rate": 77}, 77, False)],
)
def test_a_return_is_as_fast_as_the_last_one_unless_a_rate_is_given(
    broker, given, rate, is_measured
):
    state = played(CATALOG, list(cycles()), 0, 1, frozenset({"t0", "t1"}))
    question = QUESTIONS["recovery"]
    view = a_view(state, cluster=measured())
    said = question.data(view, {"broker": broker, "away": 60_000, **given})
    assert (said["rate_bytes_per_s"], said["rate_is_measured"]) == (rate, is_measured)
    text = " ".join(question.text(said).lines)
    assert ("measured when brokers came back" in text) is is_measured


def test_without_a_measured_return_the_rate_is_assumed():
    state = played(CATALOG, list(cycles()), 0, 1, frozenset({"t0", "t1"}))
    said = QUESTIONS["recovery"].data(a_view(state), {"broker": 2, "away": 60_000})
    assert (said["rate_bytes_per_s"], said["rate_is_measured"]) == (50 << 20, False)
