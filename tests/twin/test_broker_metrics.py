"""Metrics that brokers measure themselves."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.builders import NOW_MS, Partition, a_state, broker_metrics_frame, brokers_frame
from tests.cycles import cycle_frames
from twin.builtin import CATALOG
from twin.declarations.table import Float64
from twin.engine import codec
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import Evidence, Verdict
from twin.step import step
from twin.tables.broker_columns import BROKER_METRICS
from twin.tables.state import STALE_METRICS_MS, BrokerMetrics, Brokers

READS = "remote_fetch_requests_per_s"


def measured(
    state: ShardState, values: Mapping[int, Mapping[str, float]], at_ms: int = NOW_MS
) -> ShardState:
    return step(state, [broker_metrics_frame(values, at_ms)], NOW_MS)[0]


def recent(state: ShardState, name: str, now_ms: int) -> Float64:
    return state[BrokerMetrics].of_brokers(state[Brokers].broker, name, now_ms)


def test_what_is_absent_stays_absent_and_never_becomes_zero():
    state = measured(a_state(), {1: {READS: 3.0}, 2: {}})
    assert recent(state, READS, NOW_MS)[0] == 3.0
    assert np.isnan(recent(state, READS, NOW_MS)[1:]).all()
    again = codec.decode(codec.encode(state), CATALOG).state
    for name in BROKER_METRICS:
        was, now = (getattr(each[BrokerMetrics], name) for each in (state, again))
        assert np.array_equal(was, now, equal_nan=True)


def test_the_newest_measurement_of_each_broker_holds_whatever_the_order():
    frames = [({1: {READS: 1.0}, 2: {READS: 7.0}}, NOW_MS), ({1: {READS: 2.0}}, NOW_MS + 9)]
    for order in (frames, frames[::-1]):
        state = a_state()
        for values, at_ms in order:
            state = measured(state, values, at_ms)
        assert recent(state, READS, NOW_MS)[:2].tolist() == [2.0, 7.0]


def test_a_repeated_measurement_changes_nothing():
    state = measured(a_state(), {1: {READS: 1.0}})
    assert step(state, [broker_metrics_frame({1: {READS: 5.0}})], NOW_MS) == (state, [])


def test_old_measurements_say_nothing_of_now():
    state = measured(a_state(), {1: {READS: 1.0}})
    assert not np.isnan(recent(state, READS, NOW_MS + STALE_METRICS_MS)[0])
    assert np.isnan(recent(state, READS, NOW_MS + STALE_METRICS_MS + 1)[0])


def test_a_broker_that_is_not_listed_any_more_takes_its_metrics_along():
    state = measured(a_state(), {1: {READS: 1.0}, 2: {READS: 1.0}})
    at_ms = NOW_MS + 5_000
    state = step(state, [brokers_frame((1, 3), at_ms)], at_ms)[0]
    state = step(state, [brokers_frame((1, 3), at_ms + 5_000)], at_ms + 5_000)[0]
    assert state[BrokerMetrics].broker.tolist() == [1]


def test_a_broker_that_is_listed_twice_is_refused():
    frame = broker_metrics_frame({1: {}})
    twice = type(frame)(frame.header, frame.rows.take([0, 0]))
    with pytest.raises(InvalidFrame, match="twice"):
        step(a_state(), [twice], NOW_MS)


def test_reads_from_remote_storage_are_reported_as_they_begin_and_end():
    state = measured(a_state(), {1: {READS: 0.0}})
    reported = []
    for i, rate in enumerate((0.0, 4.0, 2.0, 0.0), 1):
        state, changes = step(state, [broker_metrics_frame({1: {READS: rate}}, NOW_MS + i)], NOW_MS)
        reported += [(change.kind, change.broker) for change in changes]
    assert reported == [("remote_reads_began", 1), ("remote_reads_ended", 1)]


@pytest.mark.parametrize("name", ["fetch_follower_local_p99_ms", "fetch_follower_queue_p99_ms"])
def test_a_leader_whose_own_metrics_are_slow_is_to_blame_for_who_left(name):
    state = measured(a_state(Partition()), {1: {name: 4_000.0}})
    at_ms = NOW_MS + 5_000
    shrunk = Partition(isr=(1, 3))
    frames = cycle_frames([shrunk], at_ms, ids=(1, 2, 3))
    shrinks = step(state, frames, at_ms)[0][IsrShrinks]
    assert shrinks.verdict.tolist() == [Verdict.SLOW_LEADER]
    assert shrinks.evidence[0] & Evidence.LEADER_ANSWERS_SLOWLY
