"""What a leader notes of a follower: KIP-501's own example, and fetches that come as events."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Partition,
    a_fleet,
    fetches_frame,
    partitions_frame,
    replicas_frame,
)
from twin import fleet as fleets
from twin.fleet import Fleet
from twin.rules.books import (
    Books,
    fetched,
    fetched_by_solution_1,
    is_caught_up,
    is_caught_up_pending,
)
from twin.rules.replication import caught_up_uncertainty_ms
from twin.step import step
from twin.tables import UNKNOWN

LAG_MAX_MS = 10_000
TX, TY = 100_000, 101_000


def one(value: int) -> np.ndarray:
    return np.array([value], np.int64)


class TestTheExampleOfKip501:
    """Replica 1002 fetches 950 at tx while the leader ends at 1002, then 1002 at ty (1100).

    The second request takes the leader 25 s.
    """

    before = fetched(Books.blank(1), one(950), one(0), one(TX), one(1_002))

    def in_sync(self, now_ms: int, *, pending: bool | None = None) -> bool:
        asked = (one(1_100), one(now_ms), one(LAG_MAX_MS))
        if pending is None:
            return bool(is_caught_up(self.before, *asked)[0])
        offset = one(1_002 if pending else UNKNOWN)
        return bool(is_caught_up_pending(self.before, offset, *asked)[0])

    def test_the_leader_throws_out_a_healthy_follower_while_it_works_on_its_fetch(self):
        assert not self.in_sync(TX + LAG_MAX_MS + 1)

    def test_solution_1_keeps_it_as_long_as_that_fetch_is_pending(self):
        for now_ms in (TX + LAG_MAX_MS + 1, TY + 24_999):
            assert self.in_sync(now_ms, pending=True)
            assert not self.in_sync(now_ms, pending=False)

    def test_a_pending_fetch_below_the_earlier_end_proves_nothing(self):
        behind = is_caught_up_pending(
            self.before, one(1_001), one(1_100), one(TY + 20_000), one(LAG_MAX_MS)
        )
        assert not behind[0]

    def test_once_served_it_was_caught_up_at_tx_for_kafka_and_at_the_end_for_kip501(self):
        fetch = (one(1_002), one(0), one(TY))
        stock = fetched(self.before, *fetch, one(1_100))
        solution = fetched_by_solution_1(self.before, *fetch, one(TY + 25_000), one(1_100))
        assert stock.caught_up_at_ms.tolist() == [TX]
        assert solution.caught_up_at_ms.tolist() == [TY + 25_000]
        assert not is_caught_up(stock, one(1_200), one(TY + 26_000), one(LAG_MAX_MS))[0]
        assert is_caught_up(solution, one(1_200), one(TY + 26_000), one(LAG_MAX_MS))[0]


def told(*fetches: Fetch, fleet: Fleet | None = None) -> Fleet:
    known = a_fleet(Partition()) if fleet is None else fleet
    return step(known, [fetches_frame(fetches)], NOW_MS)[0]


def books_of(fleet: Fleet) -> tuple[int, int, int, int]:
    table = fleet.fetches
    assert len(table) == 1
    return (int(table.log_end_offset[0]), int(table.leader_end_offset[0]),
            int(table.fetched_at_ms[0]), int(table.caught_up_at_ms[0]))  # fmt: skip


def test_fetches_are_noted_in_order_of_arrival_whatever_their_order_in_the_frame():
    first, second = Fetch(NOW_MS, 90, 100), Fetch(NOW_MS + 50, 100, 110)
    assert books_of(told(first, second)) == (100, 110, NOW_MS + 50, NOW_MS)
    assert books_of(told(second, first)) == (100, 110, NOW_MS + 50, NOW_MS)


def test_a_fetch_told_again_changes_nothing():
    known = told(Fetch(NOW_MS))
    assert step(known, [fetches_frame([Fetch(NOW_MS)])], NOW_MS) == (known, [])


def test_fetches_are_news_however_old_their_frame_is_and_move_no_clock():
    fleet = a_fleet(Partition())
    late = fetches_frame([Fetch(NOW_MS - 9_000)], at_ms=NOW_MS - 60_000)
    after, _ = step(fleet, [late], NOW_MS - 60_000)
    assert len(after.fetches) == 1
    assert after.observed_at_ms == fleet.observed_at_ms
    assert np.array_equal(after.coverage, fleet.coverage)


def test_another_leader_opens_new_books_and_a_former_one_is_not_heard_any_more():
    fleet = told(Fetch(NOW_MS, 90, 100))
    fleet = told(Fetch(NOW_MS + 10, 95, 120, leader=3, epoch=2), fleet=fleet)
    assert books_of(fleet) == (95, 120, NOW_MS + 10, 0)
    assert told(Fetch(NOW_MS + 20, 100, 100, leader=1, epoch=1), fleet=fleet) is fleet


def test_a_failed_fetch_and_a_partition_nobody_listed_are_left_out():
    fleet = a_fleet(Partition())
    assert told(Fetch(NOW_MS, error=6), fleet=fleet) is fleet
    assert told(Fetch(NOW_MS, part=Partition("unknown")), fleet=fleet) is fleet


def test_an_unknown_leader_end_is_not_noted_and_the_one_before_still_serves():
    fleet = told(Fetch(NOW_MS, 90, 100), Fetch(NOW_MS + 50, 100, UNKNOWN))
    assert books_of(fleet) == (100, 100, NOW_MS + 50, NOW_MS)


def test_where_the_books_are_known_they_are_the_time_of_being_caught_up():
    """By samples replica 2 was never caught up; its fetch 40 ms ago says otherwise."""
    part = Partition(logs={2: Log(end=90)})
    at_ms = NOW_MS + 5_000
    fleet, _ = step(a_fleet(part), [partitions_frame([part], at_ms), replicas_frame([part], at_ms)],
                    at_ms)  # fmt: skip
    assert fleet.caught_up_at_ms[0, 1] == UNKNOWN
    assert caught_up_uncertainty_ms(fleet)[0].tolist() == [5_000] * 3
    fleet = told(Fetch(at_ms - 40, 100, 100), fleet=fleet)
    assert fleet.caught_up_at_ms[0, 1] == at_ms - 40
    assert caught_up_uncertainty_ms(fleet)[0].tolist() == [5_000, 0, 5_000]


def test_books_are_part_of_the_state():
    fleet = told(Fetch(NOW_MS))
    assert books_of(fleets.decode(fleets.encode(fleet))) == books_of(fleet)


@given(seed=st.integers(0, 10**6), cut=st.integers(0, 12))
def test_frames_cut_anywhere_say_the_same_and_more_fetches_are_never_caught_up_earlier(seed, cut):
    rng = random.Random(seed)
    end, made = 100, []
    for i in range(12):
        end += rng.choice([0, 0, 5])
        made.append(Fetch(NOW_MS + 10 * i, max(end - rng.choice([0, 0, 3, 50]), 0), end))
    whole = told(*made)
    assert books_of(whole) == books_of(told(*made[cut:], fleet=told(*made[:cut])) if cut else whole)
    if cut:
        assert books_of(whole)[3] >= books_of(told(*made[:cut]))[3]
