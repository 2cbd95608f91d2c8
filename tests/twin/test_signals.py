"""What brokers measure of themselves."""

import numpy as np
import pytest
from twin.fleet import Fleet
from twin.signals import STALE_MS, fresh

from tests.builders import (
    NOW_MS,
    Partition,
    a_fleet,
    brokers_frame,
    partitions_frame,
    replicas_frame,
    signals_frame,
)
from twin import fleet as fleets
from twin.frames import FrameRefused
from twin.step import step
from twin.tables import Evidence, Verdict

READS = "remote_fetch_requests_per_s"


def measured(fleet: Fleet, told, at_ms: int = NOW_MS) -> Fleet:
    return step(fleet, [signals_frame(told, at_ms)], NOW_MS)[0]


def test_what_is_absent_stays_absent_and_never_becomes_zero():
    fleet = measured(a_fleet(), {1: {READS: 3.0}, 2: {}})
    assert fresh(fleet, READS, NOW_MS)[0] == 3.0
    assert np.isnan(fresh(fleet, READS, NOW_MS)[1:]).all()
    again = fleets.decode(fleets.encode(fleet))
    assert np.array_equal(again.signals.value, fleet.signals.value, equal_nan=True)


def test_the_newest_measurement_of_each_broker_holds_whatever_the_order():
    told = [({1: {READS: 1.0}, 2: {READS: 7.0}}, NOW_MS), ({1: {READS: 2.0}}, NOW_MS + 9)]
    for order in (told, told[::-1]):
        fleet = a_fleet()
        for values, at_ms in order:
            fleet = measured(fleet, values, at_ms)
        assert fresh(fleet, READS, NOW_MS)[:2].tolist() == [2.0, 7.0]


def test_a_measurement_told_again_is_no_news():
    fleet = measured(a_fleet(), {1: {READS: 1.0}})
    assert step(fleet, [signals_frame({1: {READS: 5.0}})], NOW_MS) == (fleet, [])


def test_old_measurements_say_nothing_of_now():
    fleet = measured(a_fleet(), {1: {READS: 1.0}})
    assert not np.isnan(fresh(fleet, READS, NOW_MS + STALE_MS)[0])
    assert np.isnan(fresh(fleet, READS, NOW_MS + STALE_MS + 1)[0])


def test_a_broker_that_is_not_listed_any_more_takes_its_signals_along():
    fleet = measured(a_fleet(), {1: {READS: 1.0}, 2: {READS: 1.0}})
    at_ms = NOW_MS + 5_000
    fleet = step(fleet, [brokers_frame((1, 3), at_ms)], at_ms)[0]
    fleet = step(fleet, [brokers_frame((1, 3), at_ms + 5_000)], at_ms + 5_000)[0]
    assert fleet.signals.broker.tolist() == [1]


def test_a_broker_that_stands_twice_is_refused():
    frame = signals_frame({1: {}})
    twice = type(frame)(frame.stamp, frame.rows.take([0, 0]))
    with pytest.raises(FrameRefused, match="twice"):
        step(a_fleet(), [twice], NOW_MS)


def test_reads_from_remote_storage_are_told_of_as_they_begin_and_end():
    fleet = measured(a_fleet(), {1: {READS: 0.0}})
    heard = []
    for i, rate in enumerate((0.0, 4.0, 2.0, 0.0), 1):
        fleet, changes = step(fleet, [signals_frame({1: {READS: rate}}, NOW_MS + i)], NOW_MS)
        heard += [(change.kind, change.broker) for change in changes]
    assert heard == [("remote_reads_began", 1), ("remote_reads_ended", 1)]


@pytest.mark.parametrize("name", ["fetch_follower_local_p99_ms", "fetch_follower_queue_p99_ms"])
def test_a_leader_that_says_it_works_slowly_is_to_blame_for_who_left(name):
    fleet = measured(a_fleet(Partition()), {1: {name: 4_000.0}})
    at_ms = NOW_MS + 5_000
    after = Partition(isr=(1, 3))
    frames = [brokers_frame((1, 2, 3), at_ms), partitions_frame([after], at_ms),
              replicas_frame([after], at_ms)]  # fmt: skip
    found = step(fleet, frames, at_ms)[0]
    assert found.shrinks.verdict.tolist() == [Verdict.SLOW_LEADER]
    assert found.shrinks.evidence[0] & Evidence.LEADER_ANSWERS_SLOWLY
