"""Why replicas leave the ISR."""

import math
from dataclasses import replace

import pytest

from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Moved,
    Partition,
    a_state,
    fetches_frame,
    isr_changes_frame,
    partitions_frame,
)
from tests.cycles import cycle_frames
from tests.reading import conditions, open_risks
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.shard_state import ShardState
from twin.proposals.kip501 import would_have_stayed
from twin.proposals.kip501_handovers import Kip501Handovers
from twin.rules.isr.isr_shrinks import SHRINK_WINDOW_MS, IsrShrinks
from twin.rules.isr.isr_thrash import attributed_broker, isr_thrash_field, period_ms
from twin.rules.isr.isr_verdicts import SENTENCE, Evidence, Verdict
from twin.step import step
from twin.tables.state import Partitions
from twin.totals import cluster_totals, shard_totals

INTERVAL_MS = 5_000
MIB = 1 << 20


def cycle(state: ShardState, *parts: Partition, **brokers) -> ShardState:
    at_ms = state.observed_at_ms + INTERVAL_MS
    frames = cycle_frames(parts, at_ms, ids=range(1, 6), **brokers)
    return step(state, frames, at_ms)[0]


def left(after: Partition, before: Partition = Partition(), **brokers) -> ShardState:
    return cycle(a_state(before), after, **brokers)


def verdicts(state: ShardState) -> list[Verdict]:
    return [Verdict(v) for v in state[IsrShrinks].verdict.tolist()]


def pending(state: ShardState) -> list[int]:
    return state[IsrShrinks].fetch_was_pending.tolist()


def test_a_leader_is_not_blamed_for_followers_that_are_dead():
    blamed = "kafka_twin_broker_isr_shrinks_recent"
    assert shard_totals(left(Partition(isr=(1, 3), offline=(2,))))[blamed]["1",] == 0
    assert shard_totals(left(Partition(isr=(1, 3))))[blamed]["1",] == 1


def test_an_isr_that_stays_or_grows_has_no_shrink():
    assert len(left(Partition())[IsrShrinks]) == 0
    assert len(left(Partition(), Partition(isr=(1, 2)))[IsrShrinks]) == 0


def test_a_replica_that_leaves_the_assignment_did_not_leave_the_isr():
    assert len(left(Partition(replicas=(1, 2)))[IsrShrinks]) == 0


@pytest.mark.parametrize(
    ("part", "brokers", "expected"),
    [
        (Partition(isr=(1, 3), offline=(2,)), {}, Verdict.DEAD_FOLLOWER),
        (Partition(isr=(1, 3)), {"silent": (2,)}, Verdict.SLOW_FOLLOWER),
        (Partition(isr=(1, 3)), {"silent": (1, 2)}, Verdict.FROZEN_LEADER),
        (Partition(isr=(1, 3), logs={2: Log(end=60)}), {}, Verdict.SLOW_FOLLOWER),
        (Partition(isr=(1,)), {}, Verdict.SLOW_LEADER),
        (Partition(isr=(1, 3), logs={2: Log(end=60)}), {"slow": (1,)}, Verdict.SLOW_LEADER),
        (Partition(isr=(1, 3)), {"silent": (1,)}, Verdict.FROZEN_LEADER),
        (Partition(isr=(1, 3)), {}, Verdict.UNEXPLAINED),
    ],
)
def test_the_verdict_follows_from_who_left_and_who_answers(part, brokers, expected):
    state = left(part, **brokers)
    assert set(verdicts(state)) == {expected}
    assert set(state[IsrShrinks].leader.tolist()) == {1}


def test_followers_speak_against_their_leader_if_they_leave_one_partition_together():
    before = (Partition("a"), Partition("b"), Partition("c"))
    after = (Partition("a", isr=(1,)), Partition("b", isr=(1, 3)), Partition("c", isr=(1, 2)))
    state = cycle(a_state(*before), *after)
    # Whether b and c are in one shard is a matter of configuration.
    assert verdicts(state) == [Verdict.SLOW_LEADER] * 2 + [Verdict.UNEXPLAINED] * 2


def test_a_leader_that_was_silent_and_is_back_stood_still():
    paused = cycle(a_state(Partition()), Partition(silent=(1,)), silent=(1,))
    state = cycle(paused, Partition(isr=(1, 3)))
    assert verdicts(state) == [Verdict.FROZEN_LEADER]
    assert "slow_leader" in conditions(state)
    later = cycle(cycle(state, Partition(isr=(1, 3))), Partition(isr=(1, 3)))
    assert "slow_leader" in open_risks(later)


def test_a_leader_that_hands_over_is_no_slow_follower():
    state = left(Partition(leader=2, epoch=2, isr=(2, 3), logs={1: Log(end=90)}))
    assert verdicts(state) == [Verdict.UNEXPLAINED]
    assert state[IsrShrinks].evidence[0] & Evidence.WAS_LEADER


class TestSolution1:
    """The leader worked 20 s on a fetch of replica 2, which had asked for all there was.

    The lag limit is 30 s: half of it is the least that can have cost the replica the ISR.
    """

    earlier = Fetch(NOW_MS - 15_500)
    waiting = Fetch(NOW_MS - 15_000, 100, 100, took_ms=20_000)
    removed = Partition(isr=(1, 3))

    def test_a_fetch_that_was_pending_at_the_shrink_would_have_kept_the_replica(self):
        before = step(a_state(Partition()), [fetches_frame([self.earlier, self.waiting])], NOW_MS)[
            0
        ]
        state = cycle(before, self.removed)
        assert pending(state) == [1]
        assert verdicts(state) == [Verdict.SLOW_LEADER]
        assert state[IsrShrinks].evidence[0] & Evidence.FETCH_WAS_PENDING

    def test_the_fetch_may_become_known_after_the_shrink(self):
        state = cycle(a_state(Partition()), self.removed)
        assert pending(state) == [UNKNOWN]
        frame = fetches_frame([self.earlier, self.waiting])
        state = step(state, [frame], NOW_MS)[0]
        assert pending(state) == [1]

    def test_a_fetch_below_the_earlier_end_would_not_have(self):
        frame = fetches_frame(
            [self.earlier, replace(self.waiting, offset=99), Fetch(NOW_MS + 6_000, 99)]
        )
        state = step(left(self.removed), [frame], NOW_MS)[0]
        assert pending(state) == [0]

    def test_a_fetch_that_waited_just_less_than_half_the_limit_is_not_the_reason(self):
        for took_ms, kept in ((14_999, 0), (15_000, 1)):
            slow = Fetch(NOW_MS - 10_000, 100, 100, took_ms=took_ms)
            frame = fetches_frame([self.earlier, slow, Fetch(NOW_MS + 6_000)])
            state = step(left(self.removed), [frame], NOW_MS)[0]
            assert pending(state) == [kept]

    def test_a_fetch_in_the_request_queue_is_not_pending_and_still_speaks_against_the_leader(self):
        """KIP-501: solution 1 does not help requests that no handler has taken yet."""
        queued = replace(self.waiting, queue_ms=20_000)
        state = step(left(self.removed), [fetches_frame([self.earlier, queued])], NOW_MS)[0]
        assert pending(state) == [0]
        assert verdicts(state) == [Verdict.SLOW_LEADER]
        evidence = state[IsrShrinks].evidence[0]
        assert evidence & Evidence.FETCH_WAS_QUEUED
        assert not evidence & Evidence.FETCH_WAS_PENDING
        again = step(state, [fetches_frame([Fetch(NOW_MS + 6_000, took_ms=25_000)])], NOW_MS)[0]
        assert verdicts(again) == [Verdict.SLOW_LEADER], "also once a slower fetch follows"

    @pytest.mark.parametrize(
        ("queue_ms", "kept"),
        [(15_000, 1), (15_001, UNKNOWN), (19_999, UNKNOWN), (20_000, 0), (UNKNOWN, UNKNOWN)],
    )
    def test_a_handler_must_have_taken_it_before_the_first_moment_of_the_removal(
        self, queue_ms, kept
    ):
        """Polls saw the replica in the ISR 15 s after the arrival, and out of it after 20 s."""
        taken = replace(self.waiting, took_ms=30_000, queue_ms=queue_ms)
        state = step(left(self.removed), [fetches_frame([self.earlier, taken])], NOW_MS)[0]
        assert pending(state) == [kept]

    def test_with_the_moment_from_a_log_every_queue_is_judged(self):
        removed_ms = NOW_MS + 2_000
        for queue_ms, kept in ((17_000, 1), (17_001, 0)):
            taken = replace(self.waiting, took_ms=30_000, queue_ms=queue_ms)
            frames = [isr_changes_frame([Moved(removed_ms)]), fetches_frame([self.earlier, taken])]
            assert pending(step(a_state(Partition()), frames, NOW_MS)[0]) == [kept]

    def test_fetches_that_all_arrived_after_the_shrink_say_nothing_about_it(self):
        frame = fetches_frame([Fetch(NOW_MS + 6_000), Fetch(NOW_MS + 7_000)])
        state = step(left(self.removed), [frame], NOW_MS)[0]
        assert pending(state) == [UNKNOWN]

    def test_what_was_found_stays_when_a_slower_fetch_follows_in_the_same_cycle(self):
        slower = Fetch(NOW_MS + 6_000, took_ms=25_000)
        state = left(self.removed)
        for frame in (fetches_frame([self.earlier, self.waiting]), fetches_frame([slower])):
            state = step(state, [frame], NOW_MS)[0]
        assert pending(state) == [1]

    def test_without_a_lag_limit_it_is_unknown(self):
        state = cycle(a_state(Partition(), replica_lag_time_max_ms=UNKNOWN), self.removed)
        state = step(state, [fetches_frame([self.earlier, self.waiting])], NOW_MS)[0]
        assert pending(state) == [UNKNOWN]

    def test_the_event_says_so(self):
        before = step(a_state(Partition()), [fetches_frame([self.earlier, self.waiting])], NOW_MS)[
            0
        ]
        at_ms = NOW_MS + INTERVAL_MS
        _, changes = step(before, [partitions_frame([self.removed], at_ms)], at_ms)
        shrank = next(change for change in changes if change.kind == "isr_shrank")
        assert shrank.text == (
            "t-0: replica 2 left the ISR, [1, 3] stay "
            f"({SENTENCE[Verdict.SLOW_LEADER]}; KIP-501 would have kept it)"
        )


@pytest.mark.parametrize(
    ("after", "stayed"),
    [
        (Partition(isr=(1, 3), offline=(2,)), 0),
        (Partition(leader=2, epoch=2, isr=(2, 3)), 0),
        (Partition(isr=(1, 3)), UNKNOWN),
    ],
    ids=["its broker is fenced", "it handed over", "its leader removed it"],
)
def test_solution_1_keeps_no_replica_that_the_controller_removes(after, stayed):
    state = left(after)
    assert pending(state) == [UNKNOWN]
    assert would_have_stayed(state[IsrShrinks]).tolist() == [stayed]
    counted = cluster_totals(state.catalog, [shard_totals(state)])
    preventable = "kafka_twin_isr_shrinks_preventable"
    assert counted.value(preventable, "no") == (stayed == 0)
    assert counted.value(preventable, "unknown") == (stayed == UNKNOWN)


def test_solution_2_hands_over_to_the_next_live_member_and_says_if_it_is_cold():
    part = Partition(logs={2: Log(local_start=1, size_bytes=1)}, log=Log(size_bytes=2 * MIB))
    whole = a_state(part, eligible_local_log_bytes=MIB)
    handovers = cycle(whole, replace(part, isr=(1,)))[Kip501Handovers]
    assert handovers.next_leader.tolist() == [2, 2]
    assert handovers.next_leader_cold.tolist() == [1, 1]
    alone = left(Partition(isr=()), Partition(isr=(1,)))
    assert alone[Kip501Handovers].next_leader.tolist() == [NO_BROKER]


def test_who_would_have_led_by_solution_2_stays_as_judged_at_the_shrink():
    state = left(Partition(isr=(1, 3)))
    assert state[Kip501Handovers].next_leader.tolist() == [2]
    for part in (Partition(isr=(1, 3), offline=(2,)), Partition(isr=(1,), offline=(2,))):
        state = cycle(state, part)
    assert state[IsrShrinks].broker.tolist() == [2, 3]
    assert state[Kip501Handovers].next_leader.tolist() == [2, 3]


def test_the_first_cycle_in_which_a_replica_is_back_stays():
    state = left(Partition(isr=(1, 3)))
    state = cycle(state, Partition())
    rejoined_at_ms = state.observed_at_ms
    state = cycle(state, Partition())
    assert state[IsrShrinks].rejoined_at_ms.tolist() == [rejoined_at_ms]


def shrinking(*out: Partition, before: Partition = Partition()) -> ShardState:
    """Each shrink is seen for a cycle, and then undone."""
    state = a_state(before)
    for part in out:
        state = cycle(cycle(state, part), before)
    return state


def thrash_of(state: ShardState) -> dict:
    return isr_thrash_field(state[IsrShrinks], state[Partitions])[0]


def test_a_rolling_restart_is_no_thrash():
    two, three = Partition(isr=(1, 3), offline=(2,)), Partition(isr=(1, 2), offline=(3,))
    moved = Partition(leader=2, epoch=2)
    state = shrinking(two, three)
    state = cycle(cycle(state, replace(moved, isr=(2, 3), offline=(1,))), moved)
    assert verdicts(state) == [Verdict.DEAD_FOLLOWER] * 3
    assert "isr_thrash" not in open_risks(state)
    assert thrash_of(state) is None


def test_a_leader_that_hands_over_again_and_again_is_no_thrash():
    """Its broker is restarted between two polls, and elected once it is back."""
    state = a_state(Partition())
    for epoch in (2, 4, 6):
        state = cycle(state, Partition(leader=2, epoch=epoch, isr=(2, 3)))
        state = cycle(state, Partition(epoch=epoch + 1))
    assert state[IsrShrinks].broker.tolist() == [1, 1, 1]
    assert "isr_thrash" not in open_risks(state)
    assert thrash_of(state) is None


def test_a_broker_that_is_stopped_again_and_again_is_no_thrash():
    state = shrinking(*[Partition(isr=(1, 3), offline=(2,))] * 5)
    assert verdicts(state) == [Verdict.DEAD_FOLLOWER] * 5
    assert "isr_thrash" not in open_risks(state)


def test_three_replicas_that_are_late_once_each_are_no_thrash():
    whole = Partition(replicas=(1, 2, 3, 4))
    late = [replace(whole, isr=tuple({1, 2, 3, 4} - {b})) for b in (2, 3, 4)]
    state = shrinking(*late, before=whole)
    assert len(state[IsrShrinks]) == 3
    assert "isr_thrash" not in open_risks(state)


def test_followers_that_a_slow_leader_drops_again_and_again_are_thrash():
    state = shrinking(*[Partition(isr=(1,))] * 3)
    assert set(verdicts(state)) == {Verdict.SLOW_LEADER}
    assert "isr_thrash" in open_risks(state)
    assert thrash_of(state)["attributed_broker"] == 1


def test_the_replica_that_left_most_often_is_the_one_of_the_thrash():
    late = Partition(isr=(1, 3), logs={2: Log(end=60)})
    dead, once = Partition(isr=(1, 2), offline=(3,)), Partition(isr=(1, 2), logs={3: Log(end=60)})
    state = shrinking(dead, late, late, once, late, dead, dead)
    assert "isr_thrash" in open_risks(state)
    assert thrash_of(state) == {
        "replica": 2, "flaps": 3, "period_seconds": 15.0, "attributed_broker": 2,
    }  # fmt: skip


def test_three_shrinks_of_a_replica_are_thrash_with_a_period_and_a_broker():
    out, whole = Partition(isr=(1, 3), logs={2: Log(end=60)}), Partition()
    state = a_state(whole)
    for part in (out, whole, out, whole):
        state = cycle(state, part)
    assert "isr_thrash" not in open_risks(state)
    state = cycle(state, out)
    assert "isr_thrash" in open_risks(state)
    assert period_ms(state[IsrShrinks]) == 2 * INTERVAL_MS
    assert attributed_broker(state[IsrShrinks]) == 2
    assert math.isnan(period_ms(IsrShrinks.empty()))
    assert attributed_broker(IsrShrinks.empty()) == NO_BROKER


def test_followers_that_leave_together_are_one_shrink_of_the_thrash():
    whole = Partition(replicas=(1, 2, 3, 4))
    alone = replace(whole, isr=(1,))
    state = a_state(whole)
    for part in (alone, whole, alone, whole):
        state = cycle(state, part)
    assert len(state[IsrShrinks]) == 6
    assert period_ms(state[IsrShrinks]) == 2 * INTERVAL_MS
    assert "isr_thrash" not in open_risks(state)


def test_a_dead_follower_does_not_speak_against_the_leader_of_another_that_left():
    state = left(Partition(isr=(1,), logs={2: Log(end=60)}), silent=(3,))
    assert dict(zip(state[IsrShrinks].broker.tolist(), verdicts(state), strict=True)) == {
        2: Verdict.SLOW_FOLLOWER,
        3: Verdict.SLOW_FOLLOWER,
    }


def test_a_follower_that_left_and_then_fell_silent_was_stopped_and_its_leader_was_not_slow():
    """On a busy machine every leader answers slowly while a broker is restarted."""
    state = left(Partition(isr=(1, 3)), slow=(1,))
    assert verdicts(state) == [Verdict.SLOW_LEADER]  # nothing says yet that 2 is stopping
    state = cycle(state, Partition(isr=(1, 3)), slow=(1,), silent=(2,))
    assert verdicts(state) == [Verdict.SLOW_FOLLOWER]
    for _ in range(4):  # it is back before any listing has it fenced
        state = cycle(state, Partition())
        assert verdicts(state) == [Verdict.SLOW_FOLLOWER]


def test_a_follower_that_falls_silent_much_later_says_nothing_of_why_it_left():
    state = left(Partition(isr=(1, 3)), slow=(1,))
    for _ in range(4):
        state = cycle(state, Partition(isr=(1, 3)))
    state = cycle(state, Partition(isr=(1, 3)), silent=(2,))
    assert verdicts(state) == [Verdict.SLOW_LEADER]


def test_a_follower_that_left_by_lag_and_is_fenced_later_was_dead():
    state = left(Partition(isr=(1, 3)), silent=(2,))
    assert verdicts(state) == [Verdict.SLOW_FOLLOWER]
    state = cycle(state, Partition(isr=(1, 3), offline=(2,)), silent=(2,))
    assert verdicts(state) == [Verdict.DEAD_FOLLOWER]
    back = cycle(state, Partition())
    assert verdicts(cycle(back, Partition(offline=(2,)))) == [Verdict.DEAD_FOLLOWER]


def test_an_event_without_a_verdict_may_still_say_what_kip_501_would_have_done():
    before = step(
        a_state(Partition()),
        [fetches_frame([
            Fetch(NOW_MS - 15_500, broker=1, leader=2, epoch=2),
            Fetch(NOW_MS - 15_000, broker=1, leader=2, epoch=2, took_ms=20_000),
        ])],
        NOW_MS,
    )[0]  # fmt: skip
    at_ms = NOW_MS + INTERVAL_MS
    part = Partition(leader=2, epoch=2, isr=(2, 3))
    _, changes = step(before, [partitions_frame([part], at_ms)], at_ms)
    shrank = next(change for change in changes if change.kind == "isr_shrank")
    assert shrank.text == "t-0: replica 1 left the ISR, [2, 3] stay (KIP-501 would have kept it)"


def test_a_shrink_is_forgotten_after_the_window():
    state = left(Partition(isr=(1, 3)))
    at_ms = state.observed_at_ms + SHRINK_WINDOW_MS
    state, _ = step(state, [partitions_frame([Partition()], at_ms)], at_ms)
    assert len(state[IsrShrinks]) == 1
    state, _ = step(state, [partitions_frame([Partition()], at_ms + 1)], at_ms + 1)
    assert len(state[IsrShrinks]) == 0
