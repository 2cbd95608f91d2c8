"""What logs of brokers tell of ISRs, and of followers that ask where the tier ends."""

from dataclasses import replace
from itertools import permutations

import pytest
from twin.fleet import Fleet
from twin.rules.risks import Risk
from twin.rules.shrinks import SENTENCE
from twin.told import KEPT_MS, SAME_MS

from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Moved,
    Partition,
    a_fleet,
    brokers_frame,
    fetches_frame,
    isr_changes_frame,
    partitions_frame,
    replicas_frame,
    tier_starts_frame,
)
from twin import fleet as fleets
from twin.frames import FrameRefused
from twin.step import step
from twin.tables import UNKNOWN, Evidence, JoinPath, Verdict

INTERVAL_MS = 5_000
LEFT_MS = NOW_MS + 2_000


def told(fleet: Fleet, *moves: Moved) -> Fleet:
    return step(fleet, [isr_changes_frame(moves)], NOW_MS)[0]


def cycle(fleet: Fleet, *parts: Partition, **brokers) -> Fleet:
    at_ms = fleet.observed_at_ms + INTERVAL_MS
    frames = [brokers_frame(range(1, 6), at_ms, **brokers), partitions_frame(parts, at_ms),
              replicas_frame(parts, at_ms)]  # fmt: skip
    return step(fleet, frames, at_ms)[0]


class TestShrinksNoPollSaw:
    """Replica 2 leaves and comes back between two polls, as in KIP-501."""

    def test_a_log_alone_makes_a_shrink(self):
        found = told(a_fleet(Partition()), Moved(LEFT_MS), Moved(LEFT_MS + 200, left=False))
        assert found.shrinks.at_ms.tolist() == found.shrinks.told_at_ms.tolist() == [LEFT_MS]
        assert found.shrinks.back_at_ms.tolist() == [LEFT_MS + 200]
        assert found.shrinks.leader.tolist() == [1]

    def test_it_stays_through_cycles_and_a_codec_and_goes_with_the_window(self):
        found = told(a_fleet(Partition()), Moved(LEFT_MS))
        for _ in range(3):
            found = fleets.decode(fleets.encode(cycle(found, Partition())))
        assert found.shrinks.told_at_ms.tolist() == [LEFT_MS]
        at_ms = LEFT_MS + KEPT_MS + 1
        assert len(step(found, [partitions_frame([Partition()], at_ms)], at_ms)[0].shrinks) == 0

    def test_a_poll_that_sees_it_back_says_when_once(self):
        found = told(a_fleet(Partition()), Moved(LEFT_MS))
        assert found.shrinks.back_at_ms.tolist() == [UNKNOWN]
        found = cycle(found, Partition())
        back_ms = found.observed_at_ms
        assert cycle(found, Partition()).shrinks.back_at_ms.tolist() == [back_ms]

    def test_the_leaders_own_offsets_make_it_a_slow_follower(self):
        found = told(a_fleet(Partition()), Moved(LEFT_MS, end=60, leader_end=100))
        assert found.shrinks.verdict.tolist() == [Verdict.SLOW_FOLLOWER]

    @pytest.mark.parametrize(
        ("after_ms", "verdict"),
        [
            (-2 * INTERVAL_MS - 1, Verdict.SLOW_FOLLOWER),
            (-INTERVAL_MS, Verdict.FROZEN_LEADER),
            (2_000, Verdict.FROZEN_LEADER),
            (2_001, Verdict.SLOW_FOLLOWER),
        ],
    )
    def test_a_leader_that_had_been_silent_until_then_is_to_blame(self, after_ms, verdict):
        paused = cycle(a_fleet(Partition()), Partition(silent=(1,)), silent=(1,))
        back = cycle(paused, Partition())
        left_ms = back.observed_at_ms + after_ms
        behind = Moved(left_ms, end=60, leader_end=100)
        for fleet in (told(back, behind), cycle(told(back, behind), Partition()),
                      told(cycle(back, Partition()), behind)):  # fmt: skip
            assert fleet.shrinks.verdict.tolist() == [verdict]

    def test_a_fetch_that_waited_while_its_leader_stood_still_blames_the_leader(self):
        frozen = Fetch(LEFT_MS - 20_000, took_ms=19_950)  # answered just before the shrink
        fleet = told(a_fleet(Partition()), Moved(LEFT_MS, end=100, leader_end=103))
        fleet, changes = step(fleet, [fetches_frame([Fetch(LEFT_MS - 20_500), frozen])], NOW_MS)
        assert fleet.shrinks.kept_by_solution_1.tolist() == [1]
        assert fleet.shrinks.verdict.tolist() == [Verdict.SLOW_LEADER]
        assert fleet.shrinks.evidence[0] & Evidence.FETCH_WAS_PENDING
        assert fleet.risks[0] & Risk.SLOW_LEADER
        said = [change for change in changes if change.kind == "isr_shrink_explained"]
        assert [change.text for change in said] == [
            f"t-0: replica 2 left the ISR of 1: {SENTENCE[Verdict.SLOW_LEADER]}"
            "; KIP-501 would have kept it"
        ]

    def test_a_short_fetch_that_waited_at_that_very_moment_will_do(self):
        """Though a longer one is remembered, and another comes later."""
        pending = Fetch(LEFT_MS - 3, took_ms=200)
        others = [Fetch(LEFT_MS - 6_000, took_ms=500), Fetch(LEFT_MS + 900, took_ms=500)]
        for fetches in ([others[0], pending, others[1]], [*others, pending]):
            fleet = told(a_fleet(Partition()), Moved(LEFT_MS, end=100, leader_end=101))
            for fetch in sorted(fetches, key=lambda f: f.arrived_ms):
                fleet = step(fleet, [fetches_frame([fetch])], NOW_MS)[0]
            assert fleet.shrinks.kept_by_solution_1.tolist() == [1]
            assert fleet.shrinks.verdict.tolist() == [Verdict.SLOW_LEADER]

    def test_an_estimate_of_the_leaders_end_will_do_for_what_would_have_been(self):
        earlier = Fetch(LEFT_MS - 6, leader_end=UNKNOWN, estimate=101)
        for offset, kept in ((101, 1), (100, UNKNOWN)):
            fleet = told(a_fleet(Partition()), Moved(LEFT_MS, end=101, leader_end=103))
            pending = Fetch(LEFT_MS - 3, offset, UNKNOWN, took_ms=200)
            fleet = step(fleet, [fetches_frame([earlier, pending])], NOW_MS)[0]
            assert fleet.shrinks.kept_by_solution_1.tolist() == [kept]
            assert fleet.fetches.caught_up_at_ms.tolist() == [0], "and proves nothing"

    def test_where_a_fetch_ended_may_be_told_after_it(self):
        """As by a tap that heard nothing from a leader for a while."""
        earlier = Fetch(LEFT_MS - 4_000, leader_end=UNKNOWN)
        pending = Fetch(LEFT_MS - 3_900, 101, UNKNOWN, took_ms=4_000)
        fleet = step(a_fleet(Partition()), [fetches_frame([earlier])], NOW_MS)[0]
        fleet = told(fleet, Moved(LEFT_MS, end=100, leader_end=103))
        ended = replace(earlier, estimate=101)
        fleet = step(fleet, [fetches_frame([ended, pending])], NOW_MS)[0]
        assert fleet.shrinks.kept_by_solution_1.tolist() == [1]
        assert step(fleet, [fetches_frame([earlier, ended])], NOW_MS) == (fleet, [])

    def test_a_fetch_that_was_answered_before_it_would_not_have_kept_it(self):
        fleet = told(a_fleet(Partition()), Moved(LEFT_MS, end=100, leader_end=101))
        quick = [Fetch(LEFT_MS - 4_000, took_ms=500), Fetch(LEFT_MS - 3_500), Fetch(LEFT_MS + 50)]
        fleet = step(fleet, [fetches_frame(quick)], NOW_MS)[0]
        assert fleet.shrinks.kept_by_solution_1.tolist() == [0]

    def test_what_was_explained_is_not_explained_again(self):
        fleet = told(a_fleet(Partition()), Moved(LEFT_MS, end=60, leader_end=100))
        at_ms = fleet.observed_at_ms + INTERVAL_MS
        other = Partition("a")  # comes before it, so its row moves
        frames = [partitions_frame([other, Partition()], at_ms)]
        _, changes = step(fleet, frames, at_ms)
        assert "isr_shrink_explained" not in {change.kind for change in changes}


class TestOneShrinkFromManySources:
    def test_a_poll_and_a_log_that_see_the_same_are_one(self):
        thrown_out = Partition(isr=(1, 3))
        moved = Moved(LEFT_MS, end=60, leader_end=100)
        log_first = cycle(told(a_fleet(Partition()), moved), thrown_out)
        poll_first = told(cycle(a_fleet(Partition()), thrown_out), moved)
        for found in (log_first, poll_first):
            assert found.shrinks.at_ms.tolist() == [NOW_MS + INTERVAL_MS]
            assert found.shrinks.told_at_ms.tolist() == [LEFT_MS]
            assert found.shrinks.verdict.tolist() == [Verdict.SLOW_FOLLOWER]

    def test_the_leaders_log_and_the_controllers_are_one_in_any_order(self):
        leader = Moved(LEFT_MS, caught_up_ms=LEFT_MS - 30_000, end=60, leader_end=100)
        controller = Moved(LEFT_MS + 7)
        back = Moved(LEFT_MS + 300, left=False)
        for moves in permutations((leader, controller, leader)):
            found = told(a_fleet(Partition()), *moves, back)
            assert found.departures.at_ms.tolist() == [LEFT_MS]
            assert found.departures.told_caught_up_at_ms.tolist() == [LEFT_MS - 30_000]
            assert found.departures.back_at_ms.tolist() == [LEFT_MS + 300]
            one_by_one = a_fleet(Partition())
            for move in moves:
                one_by_one = told(one_by_one, move)
            assert one_by_one.departures.at_ms.tolist() == [LEFT_MS]

    def test_a_second_departure_is_another_one(self):
        moves = [Moved(LEFT_MS), Moved(LEFT_MS + 300, left=False), Moved(LEFT_MS + SAME_MS + 1),
                 Moved(LEFT_MS + 3_000, left=False)]  # fmt: skip
        found = told(a_fleet(Partition()), *moves)
        assert found.departures.back_at_ms.tolist() == [LEFT_MS + 300, LEFT_MS + 3_000]

    def test_what_is_told_again_is_no_news(self):
        fleet = told(a_fleet(Partition()), Moved(LEFT_MS))
        assert step(fleet, [isr_changes_frame([Moved(LEFT_MS)])], NOW_MS) == (fleet, [])

    def test_partitions_nobody_listed_are_left_out_and_impossible_brokers_refused(self):
        fleet = a_fleet(Partition())
        unknown = isr_changes_frame([Moved(LEFT_MS, part=Partition("other"))])
        assert step(fleet, [unknown], NOW_MS) == (fleet, [])
        with pytest.raises(FrameRefused, match="negative broker"):
            step(fleet, [isr_changes_frame([Moved(LEFT_MS, broker=-1)])], NOW_MS)


class TestTheBooksAgainstTheLeadersWord:
    stated = Moved(LEFT_MS, caught_up_ms=LEFT_MS - 4_000)

    def kept(self, *fetches: Fetch) -> int:
        fleet = step(a_fleet(Partition()), [fetches_frame(fetches)], NOW_MS)[0]
        return int(told(fleet, self.stated).departures.kept_caught_up_at_ms[0])

    def test_the_last_fetch_before_it_left_is_what_the_leader_counts(self):
        assert self.kept(Fetch(LEFT_MS - 4_000)) == LEFT_MS - 4_000

    def test_books_that_went_on_since_prove_nothing_of_then(self):
        assert self.kept(Fetch(LEFT_MS - 4_000), Fetch(LEFT_MS + 10)) == UNKNOWN

    def test_unless_the_slowest_fetch_spanned_it(self):
        slow = Fetch(LEFT_MS - 4_000, took_ms=4_050)
        assert self.kept(slow, Fetch(LEFT_MS + 60)) == LEFT_MS - 4_000

    def test_a_slow_fetch_of_before_proves_nothing_of_then(self):
        old = Fetch(LEFT_MS - 9_000, took_ms=600)
        assert self.kept(old, Fetch(LEFT_MS - 4_000), Fetch(LEFT_MS + 60)) == UNKNOWN

    def test_fetches_that_come_at_once_are_read_one_after_the_other(self):
        fleet = told(a_fleet(Partition()), self.stated)
        frame = fetches_frame([Fetch(LEFT_MS - 4_000), Fetch(LEFT_MS + 10)])
        fleet = step(fleet, [frame], NOW_MS)[0]
        assert fleet.departures.kept_caught_up_at_ms.tolist() == [LEFT_MS - 4_000]

    def test_another_leaders_books_say_nothing(self):
        assert self.kept(Fetch(LEFT_MS - 4_000, leader=3)) == UNKNOWN

    def test_what_was_proved_once_stays(self):
        fleet = step(a_fleet(Partition()), [fetches_frame([Fetch(LEFT_MS - 4_000)])], NOW_MS)[0]
        fleet = told(fleet, self.stated)
        fleet = step(fleet, [fetches_frame([Fetch(LEFT_MS + 10)])], NOW_MS)[0]
        assert fleet.departures.kept_caught_up_at_ms.tolist() == [LEFT_MS - 4_000]


class TestQuestionsForTheTier:
    part = Partition(isr=(1, 3))

    def test_the_last_question_is_kept_and_all_are_counted(self):
        frame = tier_starts_frame(self.part, [(2, NOW_MS, -1), (2, NOW_MS + 1_000, 70)])
        fleet = step(a_fleet(self.part), [frame], NOW_MS)[0]
        again = tier_starts_frame(self.part, [(2, NOW_MS + 1_000, 70), (2, NOW_MS + 2_000, 80)])
        fleet = step(fleet, [again], NOW_MS)[0]
        assert fleet.starts.pending_upload_offset.tolist() == [80]
        assert fleet.starts.asked.tolist() == [3]
        assert step(fleet, [frame], NOW_MS) == (fleet, [])

    def test_a_follower_that_begins_where_it_was_told_took_that_path(self):
        """Though the leader's own local log begins there as well by now."""
        empty = Partition(isr=(1, 3), logs={2: Log(end=0)}, log=Log(local_start=70))
        fleet = cycle(a_fleet(empty), empty)
        began = Partition(isr=(1, 3), logs={2: Log(end=80, local_start=70)},
                          log=Log(local_start=70))  # fmt: skip
        asked = step(fleet, [tier_starts_frame(empty, [(2, NOW_MS, 70)])], NOW_MS)[0]
        assert cycle(asked, began).joins.path.tolist() == [JoinPath.FROM_PENDING_UPLOAD]
        assert cycle(fleet, began).joins.path.tolist() == [JoinPath.FROM_LOCAL_START]

    def test_questions_are_forgotten(self):
        fleet = step(a_fleet(self.part), [tier_starts_frame(self.part, [(2, NOW_MS, 70)])],
                     NOW_MS)[0]  # fmt: skip
        at_ms = NOW_MS + KEPT_MS + 1
        assert len(step(fleet, [partitions_frame([self.part], at_ms)], at_ms)[0].starts) == 0
