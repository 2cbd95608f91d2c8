"""ISR changes that brokers logged: what they make of the twin's own polls and fetches."""

from dataclasses import replace
from itertools import permutations

import pytest

from tests.builders import (
    NOW_MS,
    Fetch,
    Moved,
    Partition,
    a_state,
    fetches_frame,
    isr_changes_frame,
    partitions_frame,
)
from tests.cycles import cycle_frames
from tests.reading import conditions
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.ingest.logs.isr_changes import DEDUP_WINDOW_MS
from twin.rules.isr.isr_shrinks import SHRINK_WINDOW_MS, IsrShrinks
from twin.rules.isr.isr_verdicts import SENTENCE, Evidence, Verdict
from twin.step import step
from twin.tables.state import FollowerStates, IsrRemovals

INTERVAL_MS = 5_000
LEFT_MS = NOW_MS + 2_000


def logged(state: ShardState, *moves: Moved) -> ShardState:
    return step(state, [isr_changes_frame(moves)], NOW_MS)[0]


def cycle(state: ShardState, *parts: Partition, **brokers) -> ShardState:
    at_ms = state.observed_at_ms + INTERVAL_MS
    frames = cycle_frames(parts, at_ms, ids=range(1, 6), **brokers)
    return step(state, frames, at_ms)[0]


class TestShrinksBetweenPolls:
    """Replica 2 leaves and comes back between two polls, as in KIP-501."""

    def test_a_log_alone_makes_a_shrink(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS), Moved(LEFT_MS + 200, left=False))
        shrinks = state[IsrShrinks]
        assert shrinks.at_ms.tolist() == shrinks.logged_at_ms.tolist() == [LEFT_MS]
        assert shrinks.rejoined_at_ms.tolist() == [LEFT_MS + 200]
        assert shrinks.leader.tolist() == [1]

    def test_it_stays_through_cycles_and_a_codec_and_goes_with_the_window(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS))
        for _ in range(3):
            state = codec.decode(codec.encode(cycle(state, Partition())), CATALOG).state
        assert state[IsrShrinks].logged_at_ms.tolist() == [LEFT_MS]
        at_ms = LEFT_MS + SHRINK_WINDOW_MS + 1
        assert len(step(state, [partitions_frame([Partition()], at_ms)], at_ms)[0][IsrShrinks]) == 0

    def test_a_poll_that_finds_it_back_sets_the_time_once(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS))
        assert state[IsrShrinks].rejoined_at_ms.tolist() == [UNKNOWN]
        state = cycle(state, Partition())
        back_ms = state.observed_at_ms
        assert cycle(state, Partition())[IsrShrinks].rejoined_at_ms.tolist() == [back_ms]

    def test_the_leaders_own_offsets_make_it_a_slow_follower(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS, end=60, leader_end=100))
        assert state[IsrShrinks].verdict.tolist() == [Verdict.SLOW_FOLLOWER]

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
        paused = cycle(a_state(Partition()), Partition(silent=(1,)), silent=(1,))
        back = cycle(paused, Partition())
        left_ms = back.observed_at_ms + after_ms
        behind = Moved(left_ms, end=60, leader_end=100)
        for state in (logged(back, behind), cycle(logged(back, behind), Partition()),
                      logged(cycle(back, Partition()), behind)):  # fmt: skip
            assert state[IsrShrinks].verdict.tolist() == [verdict]

    def test_a_fetch_that_waited_while_its_leader_stood_still_blames_the_leader(self):
        frozen = Fetch(LEFT_MS - 20_000, took_ms=19_950)  # answered just before the shrink
        state = logged(a_state(Partition()), Moved(LEFT_MS, end=100, leader_end=103))
        state, changes = step(state, [fetches_frame([Fetch(LEFT_MS - 20_500), frozen])], NOW_MS)
        assert state[IsrShrinks].fetch_was_pending.tolist() == [1]
        assert state[IsrShrinks].verdict.tolist() == [Verdict.SLOW_LEADER]
        assert state[IsrShrinks].evidence[0] & Evidence.FETCH_WAS_PENDING
        assert "slow_leader" in conditions(state)
        explained = [change for change in changes if change.kind == "isr_shrink_explained"]
        assert [change.text for change in explained] == [
            f"t-0: replica 2 left the ISR of 1: {SENTENCE[Verdict.SLOW_LEADER]}"
            "; KIP-501 would have kept it"
        ]

    def test_a_short_fetch_that_waited_at_that_very_moment_is_enough(self):
        """Though a longer one is kept, and another comes later."""
        pending = Fetch(LEFT_MS - 3, took_ms=200)
        others = [Fetch(LEFT_MS - 6_000, took_ms=500), Fetch(LEFT_MS + 900, took_ms=500)]
        for fetches in ([others[0], pending, others[1]], [*others, pending]):
            state = logged(a_state(Partition()), Moved(LEFT_MS, end=100, leader_end=101))
            for fetch in sorted(fetches, key=lambda f: f.arrived_ms):
                state = step(state, [fetches_frame([fetch])], NOW_MS)[0]
            assert state[IsrShrinks].fetch_was_pending.tolist() == [1]
            assert state[IsrShrinks].verdict.tolist() == [Verdict.SLOW_LEADER]

    def test_a_fetch_that_queues_by_then_does_not_hide_the_long_one_that_was_answered(self):
        """As logged by an overloaded broker that was frozen for 6 s."""
        frozen = Fetch(LEFT_MS - 6_589, took_ms=6_545)
        queued = Fetch(LEFT_MS - 14, took_ms=332, queue_ms=331, leader_end=UNKNOWN, estimate=101)
        fetches = [Fetch(LEFT_MS - 6_600), frozen, queued, Fetch(LEFT_MS + 328, 101)]
        removal = isr_changes_frame([Moved(LEFT_MS, end=100, leader_end=101)])
        for frames in (
            [removal, fetches_frame(fetches)],
            [removal, *(fetches_frame([fetch]) for fetch in fetches)],
            [fetches_frame(fetches), removal],
        ):
            state = a_state(Partition(), replica_lag_time_max_ms=3_000)
            for frame in frames:
                state = step(state, [frame], NOW_MS)[0]
            assert state[IsrShrinks].fetch_was_pending.tolist() == [1]

    def test_an_estimate_of_the_leaders_end_is_enough_for_what_would_have_been(self):
        earlier = Fetch(LEFT_MS - 6, leader_end=UNKNOWN, estimate=101)
        for offset, pending_by_then in ((101, 1), (100, UNKNOWN)):
            state = logged(a_state(Partition()), Moved(LEFT_MS, end=101, leader_end=103))
            pending = Fetch(LEFT_MS - 3, offset, UNKNOWN, took_ms=200)
            state = step(state, [fetches_frame([earlier, pending])], NOW_MS)[0]
            assert state[IsrShrinks].fetch_was_pending.tolist() == [pending_by_then]
            assert state[FollowerStates].caught_up_at_ms.tolist() == [0], "and proves nothing"

    def test_where_a_fetch_ended_may_be_reported_after_it(self):
        """As by a tap that read nothing from a leader for a while."""
        earlier = Fetch(LEFT_MS - 4_000, leader_end=UNKNOWN)
        pending = Fetch(LEFT_MS - 3_900, 101, UNKNOWN, took_ms=4_000)
        state = step(a_state(Partition()), [fetches_frame([earlier])], NOW_MS)[0]
        state = logged(state, Moved(LEFT_MS, end=100, leader_end=103))
        ended = replace(earlier, estimate=101)
        state = step(state, [fetches_frame([ended, pending])], NOW_MS)[0]
        assert state[IsrShrinks].fetch_was_pending.tolist() == [1]
        assert step(state, [fetches_frame([earlier, ended])], NOW_MS) == (state, [])

    def test_a_fetch_that_was_answered_before_it_would_not_have_kept_it(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS, end=100, leader_end=101))
        quick = [Fetch(LEFT_MS - 4_000, took_ms=500), Fetch(LEFT_MS - 3_500), Fetch(LEFT_MS + 50)]
        state = step(state, [fetches_frame(quick)], NOW_MS)[0]
        assert state[IsrShrinks].fetch_was_pending.tolist() == [0]

    def test_what_was_explained_is_not_explained_again(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS, end=60, leader_end=100))
        at_ms = state.observed_at_ms + INTERVAL_MS
        other = Partition("a")  # comes before it, so its row moves
        frames = [partitions_frame([other, Partition()], at_ms)]
        _, changes = step(state, frames, at_ms)
        assert "isr_shrink_explained" not in {change.kind for change in changes}


class TestOneShrinkFromManySources:
    def test_a_poll_and_a_log_of_the_same_shrink_are_one(self):
        removed = Partition(isr=(1, 3))
        moved = Moved(LEFT_MS, end=60, leader_end=100)
        log_first = cycle(logged(a_state(Partition()), moved), removed)
        poll_first = logged(cycle(a_state(Partition()), removed), moved)
        for state in (log_first, poll_first):
            assert state[IsrShrinks].at_ms.tolist() == [NOW_MS + INTERVAL_MS]
            assert state[IsrShrinks].logged_at_ms.tolist() == [LEFT_MS]
            assert state[IsrShrinks].verdict.tolist() == [Verdict.SLOW_FOLLOWER]

    def test_the_leaders_log_and_the_controllers_are_one_in_any_order(self):
        leader = Moved(LEFT_MS, caught_up_ms=LEFT_MS - 30_000, end=60, leader_end=100)
        controller = Moved(LEFT_MS + 7)
        back = Moved(LEFT_MS + 300, left=False)
        for moves in permutations((leader, controller, leader)):
            state = logged(a_state(Partition()), *moves, back)
            assert state[IsrRemovals].at_ms.tolist() == [LEFT_MS]
            assert state[IsrRemovals].logged_caught_up_at_ms.tolist() == [LEFT_MS - 30_000]
            assert state[IsrRemovals].rejoined_at_ms.tolist() == [LEFT_MS + 300]
            one_by_one = a_state(Partition())
            for move in moves:
                one_by_one = logged(one_by_one, move)
            assert one_by_one[IsrRemovals].at_ms.tolist() == [LEFT_MS]

    def test_a_second_removal_is_another_one(self):
        again_ms = LEFT_MS + DEDUP_WINDOW_MS + 1
        moves = [Moved(LEFT_MS), Moved(LEFT_MS + 300, left=False), Moved(again_ms),
                 Moved(LEFT_MS + 3_000, left=False)]  # fmt: skip
        state = logged(a_state(Partition()), *moves)
        assert state[IsrRemovals].rejoined_at_ms.tolist() == [LEFT_MS + 300, LEFT_MS + 3_000]

    def test_a_repeated_removal_changes_nothing(self):
        state = logged(a_state(Partition()), Moved(LEFT_MS))
        assert step(state, [isr_changes_frame([Moved(LEFT_MS)])], NOW_MS) == (state, [])

    def test_unlisted_partitions_are_left_out_and_impossible_brokers_refused(self):
        state = a_state(Partition())
        unlisted = isr_changes_frame([Moved(LEFT_MS, part=Partition("other"))])
        assert step(state, [unlisted], NOW_MS) == (state, [])
        with pytest.raises(InvalidFrame, match="negative broker"):
            step(state, [isr_changes_frame([Moved(LEFT_MS, broker=-1)])], NOW_MS)


def test_no_fetch_was_pending_though_one_of_afterwards_is_the_slowest():
    """A follower that is always written to has no slow fetch from before the removal."""
    before = [Fetch(LEFT_MS - 40, took_ms=3), Fetch(LEFT_MS - 20, took_ms=3)]
    after = [Fetch(LEFT_MS + 5, took_ms=90), Fetch(LEFT_MS + 200)]
    state = step(a_state(Partition()), [fetches_frame(before)], NOW_MS)[0]
    frames = [isr_changes_frame([Moved(LEFT_MS)]), fetches_frame(after)]
    assert step(state, frames, NOW_MS)[0][IsrShrinks].fetch_was_pending.tolist() == [0]
    # Had the removal come last, a fetch that was pending might have been replaced by a slower one.
    for frame in reversed(frames):
        state = step(state, [frame], NOW_MS)[0]
    assert state[IsrShrinks].fetch_was_pending.tolist() == [UNKNOWN]


class TestTheFollowerStateAgainstTheLeadersLog:
    removal = Moved(LEFT_MS, caught_up_ms=LEFT_MS - 4_000)

    def tracked_ms(self, *fetches: Fetch) -> int:
        state = step(a_state(Partition()), [fetches_frame(fetches)], NOW_MS)[0]
        return int(logged(state, self.removal)[IsrRemovals].tracked_caught_up_at_ms[0])

    def test_the_last_fetch_before_it_left_is_what_the_leader_counts(self):
        assert self.tracked_ms(Fetch(LEFT_MS - 4_000)) == LEFT_MS - 4_000

    def test_a_state_that_went_on_since_proves_nothing_of_then(self):
        assert self.tracked_ms(Fetch(LEFT_MS - 4_000), Fetch(LEFT_MS + 10)) == UNKNOWN

    def test_unless_the_slowest_fetch_spanned_it(self):
        slow = Fetch(LEFT_MS - 4_000, took_ms=4_050)
        assert self.tracked_ms(slow, Fetch(LEFT_MS + 60)) == LEFT_MS - 4_000

    def test_a_slow_fetch_of_before_proves_nothing_of_then(self):
        old = Fetch(LEFT_MS - 9_000, took_ms=600)
        assert self.tracked_ms(old, Fetch(LEFT_MS - 4_000), Fetch(LEFT_MS + 60)) == UNKNOWN

    def test_fetches_that_come_at_once_are_read_one_after_the_other(self):
        state = logged(a_state(Partition()), self.removal)
        frame = fetches_frame([Fetch(LEFT_MS - 4_000), Fetch(LEFT_MS + 10)])
        state = step(state, [frame], NOW_MS)[0]
        assert state[IsrRemovals].tracked_caught_up_at_ms.tolist() == [LEFT_MS - 4_000]

    def test_the_state_of_another_leader_proves_nothing(self):
        assert self.tracked_ms(Fetch(LEFT_MS - 4_000, leader=3)) == UNKNOWN

    def test_what_was_proved_once_stays(self):
        state = step(a_state(Partition()), [fetches_frame([Fetch(LEFT_MS - 4_000)])], NOW_MS)[0]
        state = logged(state, self.removal)
        state = step(state, [fetches_frame([Fetch(LEFT_MS + 10)])], NOW_MS)[0]
        assert state[IsrRemovals].tracked_caught_up_at_ms.tolist() == [LEFT_MS - 4_000]
