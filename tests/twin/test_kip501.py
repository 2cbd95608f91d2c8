"""In sync by KIP-501's solution 1, and who would lead by its solution 2, beside Kafka's answer."""

import numpy as np
import pytest

from tests.builders import NOW_MS, Fetch, Log, Partition, a_fleet, fetches_frame
from twin import fleet as fleets
from twin.fleet import Fleet
from twin.rules.kip501 import hand_over, in_sync_solution_1
from twin.step import step
from twin.tables import NO_BROKER, UNKNOWN, Coverage

AHEAD = Partition(logs={1: Log(end=200)})  # 2 and 3 end at 100
LAG_MAX_MS = 30_000


def told(part: Partition, *fetches: Fetch, **said) -> Fleet:
    return step(a_fleet(part, **said), [fetches_frame(fetches)], NOW_MS)[0]


def beside(fleet: Fleet) -> tuple[list[int], list[int]]:
    """By Kafka's rule and by solution 1, of each replica."""
    return fleet.in_sync[0].tolist(), in_sync_solution_1(fleet, NOW_MS)[0].tolist()


def slow(took_ms: int, answered_at_ms: int = NOW_MS - 1_000) -> list[Fetch]:
    """Two fetches of all there was; the leader worked that long on the second."""
    arrived_ms = answered_at_ms - took_ms
    return [Fetch(arrived_ms - 500), Fetch(arrived_ms, took_ms=took_ms, leader_end=150)]


def test_a_leader_that_took_too_long_has_its_follower_in_sync_as_of_the_answer():
    stock, solution = beside(told(AHEAD, *slow(59_000)))
    assert (stock[1], solution[1]) == (0, 1)
    assert solution[0] == 1, "the leader"


def test_and_only_for_so_long_after_it():
    long_ago = NOW_MS - LAG_MAX_MS - 1
    stock, solution = beside(told(AHEAD, *slow(59_000, long_ago)))
    assert (stock[1], solution[1]) == (0, 0)


def test_a_fetch_that_may_be_pending_is_unknown_until_it_is_answered():
    fleet = told(AHEAD, Fetch(NOW_MS - 70_000))
    assert beside(fleet)[1][1] == UNKNOWN


@pytest.mark.parametrize(("end", "estimate"), [(120, None), (UNKNOWN, 120)])
def test_a_follower_that_lacks_what_the_leader_had_is_out(end, estimate):
    fleet = told(AHEAD, Fetch(NOW_MS - 70_000, 90, end, estimate=estimate))
    assert beside(fleet)[1][1] == 0


def test_without_a_told_fetch_it_is_unknown_unless_kafka_has_it_in_sync_or_it_is_gone():
    behind = Partition(isr=(1, 2), logs={1: Log(end=200), 2: Log(end=200)}, offline=(3,))
    stock, solution = beside(a_fleet(behind))
    assert (stock[1], solution[1]) == (1, 1)
    assert (stock[2], solution[2]) == (0, 0)
    out = Partition(isr=(1, 2), logs={1: Log(end=200), 2: Log(end=200)})
    assert beside(a_fleet(out))[1][2] == UNKNOWN


def test_an_unknown_limit_and_books_of_a_former_leader_say_nothing():
    assert beside(told(AHEAD, *slow(59_000), replica_lag_time_max_ms=UNKNOWN))[1][1] == UNKNOWN
    former = [Fetch(NOW_MS - 60_000, took_ms=59_000, leader=3, epoch=0)]
    assert beside(told(AHEAD, *former))[1][1] == UNKNOWN


def test_it_keeps_whom_kafka_keeps_and_survives_a_codec():
    fleet = told(AHEAD, *slow(59_000))
    again = fleets.decode(fleets.encode(fleet))
    assert np.array_equal(in_sync_solution_1(again, NOW_MS), in_sync_solution_1(fleet, NOW_MS))
    assert (in_sync_solution_1(fleet, NOW_MS)[fleet.in_sync == 1] == 1).all()


def test_a_leader_hands_over_that_took_longer_than_the_limit():
    for took_ms, to in ((LAG_MAX_MS, NO_BROKER), (LAG_MAX_MS + 1, 2)):
        assert hand_over(told(AHEAD, *slow(took_ms)))[0].tolist() == [to]
    assert hand_over(a_fleet(AHEAD))[0].tolist() == [NO_BROKER]


def test_to_the_next_live_member_and_says_if_that_one_is_thin():
    thin = Partition(logs={1: Log(end=200)}, log=Log(size_bytes=10), offline=(2,), isr=(1, 3))
    fetches = [Fetch(f.arrived_ms, f.offset, f.leader_end, f.estimate, f.took_ms, broker=3)
               for f in slow(40_000)]  # fmt: skip
    fleet = told(thin, *fetches, topics={"t": {"eligible_local_log_bytes": 100}})
    to, is_thin = hand_over(fleet)
    assert to.tolist() == [3]
    assert fleet.coverage[0, 2] == Coverage.THIN
    assert is_thin.tolist() == [1]


def test_not_for_ever():
    assert hand_over(told(AHEAD, *slow(40_000, NOW_MS - 60_001)))[0].tolist() == [NO_BROKER]
