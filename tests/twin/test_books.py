"""What a leader notes of a follower: KIP-501's own example, and fetches that come as events."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin.fleet import Fleet
from twin.rules.books import (
    Books,
    fetched,
    fetched_by_solution_1,
    is_caught_up,
    is_caught_up_pending,
)

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
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin.frames import FrameRefused
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


def test_an_unknown_leader_end_proves_nothing_of_its_fetch_nor_of_the_next():
    first, unknown = Fetch(NOW_MS, 90, 100), Fetch(NOW_MS + 50, 95, UNKNOWN)
    # The leader may have stood at 500 by then, so 100 does not say "caught up 50 ms ago".
    assert books_of(told(first, unknown, Fetch(NOW_MS + 90, 100, 600)))[3] == 0
    at_earlier_end = replace(unknown, offset=100)
    assert books_of(told(first, at_earlier_end)) == (100, UNKNOWN, NOW_MS + 50, NOW_MS)
    solution = fetched_by_solution_1(
        Books.blank(1), one(95), one(0), one(TX), one(TY), one(UNKNOWN)
    )
    assert solution.caught_up_at_ms.tolist() == [0]


def test_two_fetches_of_one_millisecond_are_told_apart_by_their_offset():
    first, second = Fetch(NOW_MS, 50, 100), Fetch(NOW_MS, 80, 500)
    for order in ((first, second), (second, first)):
        assert books_of(told(*order, Fetch(NOW_MS + 9, 100, 900))) == (100, 900, NOW_MS + 9, 0)
    known = told(first, second)
    assert told(first, second, fleet=known) is known


def test_a_negative_follower_is_refused():
    with pytest.raises(FrameRefused) as refusal:
        told(Fetch(NOW_MS, broker=-1))
    assert refusal.value.reason == "rows"


def test_followers_give_the_same_state_whoever_is_heard_first():
    two, three = Fetch(NOW_MS, broker=2), Fetch(NOW_MS, broker=3)
    one_way, other_way = told(three, fleet=told(two)), told(two, fleet=told(three))
    assert fleets.encode(one_way) == fleets.encode(other_way)


def test_books_of_a_follower_that_is_no_replica_any_more_go_with_the_next_cycle():
    fleet = told(Fetch(NOW_MS, broker=3))
    for cycle in (1, 2):
        moved = Partition(replicas=(1, 2, 4), epoch=2)
        fleet = a_fleet(moved, at_ms=NOW_MS + cycle * 5_000, since=fleet)
    assert len(fleet.fetches) == 0


def test_samples_stand_until_the_books_have_seen_the_follower_caught_up():
    """The leader noted more than the twin heard: before the first fetch, and at an election."""
    fleet = told(Fetch(NOW_MS + 1, 100, 130))
    behind = Partition(logs={1: Log(end=200), 2: Log(end=150), 3: Log(end=150)})
    fleet = a_fleet(behind, at_ms=NOW_MS + 5_000, since=fleet)
    assert fleet.caught_up_at_ms[0, 1] == NOW_MS
    assert fleet.in_sync[0, 1] == 1
    assert caught_up_uncertainty_ms(fleet)[0, 1] == 5_000


def test_books_without_the_leaders_end_are_a_lower_bound_and_no_more():
    fleet = told(Fetch(NOW_MS + 10), Fetch(NOW_MS + 20, 100, UNKNOWN))
    assert fleet.caught_up_at_ms[0, 1] == NOW_MS + 10
    fleet = a_fleet(at_ms=NOW_MS + 5_000, since=fleet)
    assert fleet.caught_up_at_ms[0, 1] == NOW_MS + 5_000
    assert caught_up_uncertainty_ms(fleet)[0, 1] == 5_000


def test_the_estimate_is_as_uncertain_as_the_leader_was_silent():
    fleet = a_fleet(Partition())
    for cycle in (1, 2, 3):
        fleet = a_fleet(Partition(silent=(1,)), at_ms=NOW_MS + cycle * 5_000, since=fleet)
    assert caught_up_uncertainty_ms(fleet)[0].tolist() == [15_000] * 3


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


@given(seed=st.integers(0, 10**6))
def test_frames_of_a_cycle_with_fetches_give_the_same_fleet_in_any_order_and_repeated(seed):
    """After the first cycle: fetches of partitions that nobody listed are left out."""
    rng = random.Random(seed)
    shard = SimulatedShard(Shape(topics=1, partitions=4, fetches=True), seed)
    at_ms = NOW_MS
    whole, _ = step(fleets.empty("sim", 0, 1), shard.observe(at_ms), at_ms)
    one_by_one = whole
    for frames in shard.run(3, NOW_MS + 5_000):
        at_ms = frames[0].stamp.observed_at_ms
        whole, _ = step(whole, frames, at_ms)
        shuffled = [*frames, rng.choice(frames)]
        rng.shuffle(shuffled)
        for frame in shuffled:
            one_by_one, _ = step(one_by_one, [frame], at_ms)
        assert fleets.encode(one_by_one) == fleets.encode(whole)


def test_the_simulator_tells_of_fetches_only_when_asked_and_the_rest_is_the_same():
    plain, more = (
        SimulatedShard(Shape(fetches=fetches), 7).observe(NOW_MS) for fetches in (False, True)
    )
    assert [f.stamp.kind for f in more] == [*(f.stamp.kind for f in plain), "fetches"]
    assert all(a.rows.equals(b.rows) for a, b in zip(plain, more, strict=False))
    fleet, _ = step(fleets.empty("sim", 0, 1), more, NOW_MS)
    assert len(fleet.fetches) == 2 * len(fleet)
