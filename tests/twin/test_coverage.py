"""Replicas that hold enough local log to lead (KIP-1303)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state
from tests.reading import computed
from twin.rules.coverage import Coverage, LocalLog, ReplicaCoverage
from twin.rules.next_leader import NextLeaders
from twin.table import UNKNOWN

TEN_MINUTES_MS = 600_000
MIB = 1 << 20


def covered(log: Log, *, topics=None, **thresholds) -> Coverage:
    state = a_state(Partition(replicas=(1,), log=log), topics=topics, **thresholds)
    return Coverage(state[ReplicaCoverage].coverage[0, 0])


def spanning(ms: int, **more) -> Log:
    return Log(started_ms=NOW_MS - ms, **more)


def test_without_a_threshold_nobody_is_judged():
    assert covered(spanning(1, size_bytes=1)) is Coverage.NOT_JUDGED
    state = a_state(Partition(log=spanning(1, size_bytes=1)))
    assert state[NextLeaders].coverage.tolist() == [Coverage.NOT_JUDGED]
    assert computed(state, "kafka_twin_replicas_coverage_not_judged") == 3
    assert set(computed(state, "kafka_twin_replica_election_eligible").ravel()) == {UNKNOWN}
    assert np.isnan(computed(state, "kafka_twin_replica_warm_in_seconds")).all()


def test_a_topic_without_a_threshold_is_not_judged_beside_one_that_has_one():
    parts = (Partition("judged", log=spanning(1)), Partition("other", log=spanning(1)))
    state = a_state(*parts, topics={"judged": {"eligible_local_log_ms": TEN_MINUTES_MS}})
    assert state[ReplicaCoverage].coverage[:, 0].tolist() == [Coverage.COLD, Coverage.NOT_JUDGED]
    assert computed(state, "kafka_twin_replicas_coverage_not_judged") == 3


@pytest.mark.parametrize("off", [-1, 0])
def test_zero_and_minus_one_switch_a_condition_off(off):
    assert covered(spanning(1), eligible_local_log_ms=off) is Coverage.NOT_JUDGED


@pytest.mark.parametrize(
    ("held_ms", "expected"),
    [
        (TEN_MINUTES_MS - 1, Coverage.COLD),
        (TEN_MINUTES_MS, Coverage.WARM),
        (TEN_MINUTES_MS + 1, Coverage.WARM),
    ],
)
def test_a_span_exactly_at_the_threshold_is_enough(held_ms, expected):
    assert covered(spanning(held_ms), eligible_local_log_ms=TEN_MINUTES_MS) is expected


@pytest.mark.parametrize(("held", "expected"), [(MIB - 1, Coverage.COLD), (MIB, Coverage.WARM)])
def test_bytes_exactly_at_the_threshold_are_enough(held, expected):
    assert covered(Log(size_bytes=held), eligible_local_log_bytes=MIB) is expected


def test_either_condition_is_enough():
    both = {"eligible_local_log_ms": TEN_MINUTES_MS, "eligible_local_log_bytes": MIB}
    assert covered(spanning(1, size_bytes=2 * MIB), **both) is Coverage.WARM
    assert covered(spanning(TEN_MINUTES_MS, size_bytes=1), **both) is Coverage.WARM
    assert covered(spanning(1, size_bytes=1), **both) is Coverage.COLD


def test_an_unknown_number_makes_a_replica_assumed_eligible():
    assert (
        covered(Log(started_ms=UNKNOWN), eligible_local_log_ms=TEN_MINUTES_MS) is Coverage.ASSUMED
    )


def test_one_known_failure_does_not_settle_it_while_the_other_is_unknown():
    log = spanning(1, size_bytes=UNKNOWN)
    both = {"eligible_local_log_ms": TEN_MINUTES_MS, "eligible_local_log_bytes": MIB}
    assert covered(log, **both) is Coverage.ASSUMED


def test_an_empty_local_log_is_known_to_hold_nothing():
    empty = Log(end=50, local_start=50, started_ms=UNKNOWN, size_bytes=UNKNOWN)
    state = a_state(Partition(replicas=(1,), log=empty))
    local = state[LocalLog]
    assert local.local_log_span_ms[0, 0] == local.held_bytes[0, 0] == 0
    assert covered(empty, eligible_local_log_ms=TEN_MINUTES_MS) is Coverage.COLD


def test_a_timestamp_in_the_future_spans_nothing():
    assert covered(spanning(-60_000), eligible_local_log_ms=TEN_MINUTES_MS) is Coverage.COLD


def test_a_topics_own_threshold_wins_and_can_switch_the_feature_off():
    cold = spanning(1_000)
    for own, expected in ((500, Coverage.WARM), (5_000, Coverage.COLD), (-1, Coverage.NOT_JUDGED)):
        topics = {"t": {"eligible_local_log_ms": own}}
        assert covered(cold, topics=topics, eligible_local_log_ms=TEN_MINUTES_MS) is expected


def test_a_topic_that_overrides_nothing_inherits():
    assert (
        covered(spanning(1_000), topics={"t": {}}, eligible_local_log_ms=TEN_MINUTES_MS)
        is Coverage.COLD
    )


@given(
    held=st.integers(0, 100), held_bytes=st.integers(-1, 100),
    low=st.integers(1, 50), more=st.integers(0, 50),
)  # fmt: skip
def test_a_higher_threshold_never_makes_a_cold_replica_warm(held, held_bytes, low, more):
    log = spanning(held, size_bytes=held_bytes)
    at_low, at_high = (
        covered(log, eligible_local_log_ms=t, eligible_local_log_bytes=t) for t in (low, low + more)
    )
    assert not (at_low is Coverage.COLD and at_high is not Coverage.COLD)


def test_coverage_moves_with_the_clock_alone():
    young = Partition(replicas=(1,), log=spanning(1_000))
    first = a_state(young, eligible_local_log_ms=TEN_MINUTES_MS)
    later = a_state(
        young, at_ms=NOW_MS + TEN_MINUTES_MS, since=first, eligible_local_log_ms=TEN_MINUTES_MS
    )
    verdicts = [state[ReplicaCoverage].coverage[0, 0] for state in (first, later)]
    assert verdicts == [Coverage.COLD, Coverage.WARM]
