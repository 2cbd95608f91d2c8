"""Why replicas leave the ISR."""

import math
from dataclasses import replace

import pytest

from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Partition,
    a_fleet,
    brokers_frame,
    fetches_frame,
    partitions_frame,
    replicas_frame,
)
from twin.fleet import Fleet
from twin.rules.risks import Risk
from twin.rules.shrinks import SENTENCE, WINDOW_MS, culprit, period_ms
from twin.step import step
from twin.tables import NO_BROKER, UNKNOWN, Evidence, Verdict

INTERVAL_MS = 5_000
MIB = 1 << 20


def cycle(fleet: Fleet, *parts: Partition, **brokers) -> Fleet:
    at_ms = fleet.observed_at_ms + INTERVAL_MS
    frames = [brokers_frame(range(1, 6), at_ms, **brokers), partitions_frame(parts, at_ms),
              replicas_frame(parts, at_ms)]  # fmt: skip
    return step(fleet, frames, at_ms)[0]


def left(after: Partition, before: Partition = Partition(), **brokers) -> Fleet:
    return cycle(a_fleet(before), after, **brokers)


def verdicts(fleet: Fleet) -> list[Verdict]:
    return [Verdict(v) for v in fleet.shrinks.verdict.tolist()]


def test_an_isr_that_stays_or_grows_has_no_shrink():
    assert len(left(Partition()).shrinks) == 0
    assert len(left(Partition(), Partition(isr=(1, 2))).shrinks) == 0


def test_a_replica_that_leaves_the_assignment_did_not_leave_the_isr():
    assert len(left(Partition(replicas=(1, 2))).shrinks) == 0


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
    found = left(part, **brokers)
    assert set(verdicts(found)) == {expected}
    assert set(found.shrinks.leader.tolist()) == {1}


def test_followers_of_one_leader_that_leave_together_speak_against_it_across_partitions():
    before = (Partition("a"), Partition("b"))
    after = (Partition("a", isr=(1, 3)), Partition("b", isr=(1, 2)))
    assert verdicts(cycle(a_fleet(*before), *after)) == [Verdict.SLOW_LEADER] * 2


def test_a_leader_that_was_silent_and_is_back_stood_still():
    paused = cycle(a_fleet(Partition()), Partition(silent=(1,)), silent=(1,))
    found = cycle(paused, Partition(isr=(1, 3)))
    assert verdicts(found) == [Verdict.FROZEN_LEADER]
    assert found.risks[0] & Risk.SLOW_LEADER


def test_a_leader_that_hands_over_is_no_slow_follower():
    found = left(Partition(leader=2, epoch=2, isr=(2, 3), logs={1: Log(end=90)}))
    assert verdicts(found) == [Verdict.UNEXPLAINED]
    assert found.shrinks.evidence[0] & Evidence.WAS_LEADER


class TestSolution1:
    """The leader worked 20 s on a fetch of replica 2, which had asked for all there was.

    The lag limit is 30 s: half of it is the least that can have cost the replica the ISR.
    """

    earlier = Fetch(NOW_MS - 15_500)
    waiting = Fetch(NOW_MS - 15_000, 100, 100, took_ms=20_000)
    thrown_out = Partition(isr=(1, 3))

    def test_a_fetch_that_waited_through_the_shrink_would_have_kept_the_replica(self):
        known = step(a_fleet(Partition()), [fetches_frame([self.earlier, self.waiting])],
                     NOW_MS)[0]  # fmt: skip
        found = cycle(known, self.thrown_out)
        assert found.shrinks.kept_by_solution_1.tolist() == [1]
        assert verdicts(found) == [Verdict.SLOW_LEADER]
        assert found.shrinks.evidence[0] & Evidence.FETCH_WAS_PENDING

    def test_the_fetch_may_become_known_after_the_shrink(self):
        found = cycle(a_fleet(Partition()), self.thrown_out)
        assert found.shrinks.kept_by_solution_1.tolist() == [UNKNOWN]
        frame = fetches_frame([self.earlier, self.waiting])
        found = step(found, [frame], NOW_MS)[0]
        assert found.shrinks.kept_by_solution_1.tolist() == [1]

    def test_a_fetch_below_the_earlier_end_would_not_have(self):
        frame = fetches_frame([self.earlier, replace(self.waiting, offset=99),
                               Fetch(NOW_MS + 6_000, 99)])  # fmt: skip
        found = step(left(self.thrown_out), [frame], NOW_MS)[0]
        assert found.shrinks.kept_by_solution_1.tolist() == [0]

    def test_a_fetch_that_waited_just_less_than_half_the_limit_is_not_the_reason(self):
        for took_ms, kept in ((14_999, 0), (15_000, 1)):
            slow = Fetch(NOW_MS - 10_000, 100, 100, took_ms=took_ms)
            frame = fetches_frame([self.earlier, slow, Fetch(NOW_MS + 6_000)])
            found = step(left(self.thrown_out), [frame], NOW_MS)[0]
            assert found.shrinks.kept_by_solution_1.tolist() == [kept]

    def test_fetches_heard_only_after_the_shrink_tell_nothing_of_it(self):
        frame = fetches_frame([Fetch(NOW_MS + 6_000), Fetch(NOW_MS + 7_000)])
        found = step(left(self.thrown_out), [frame], NOW_MS)[0]
        assert found.shrinks.kept_by_solution_1.tolist() == [UNKNOWN]

    def test_what_was_found_stays_when_a_slower_fetch_follows_in_the_same_cycle(self):
        slower = Fetch(NOW_MS + 6_000, took_ms=25_000)
        found = left(self.thrown_out)
        for frame in (fetches_frame([self.earlier, self.waiting]), fetches_frame([slower])):
            found = step(found, [frame], NOW_MS)[0]
        assert found.shrinks.kept_by_solution_1.tolist() == [1]

    def test_without_a_lag_limit_nothing_is_said(self):
        fleet = cycle(a_fleet(Partition(), replica_lag_time_max_ms=UNKNOWN), self.thrown_out)
        found = step(fleet, [fetches_frame([self.earlier, self.waiting])], NOW_MS)[0]
        assert found.shrinks.kept_by_solution_1.tolist() == [UNKNOWN]

    def test_it_is_told_with_the_event(self):
        known = step(a_fleet(Partition()), [fetches_frame([self.earlier, self.waiting])],
                     NOW_MS)[0]  # fmt: skip
        at_ms = NOW_MS + INTERVAL_MS
        _, told = step(known, [partitions_frame([self.thrown_out], at_ms)], at_ms)
        shrank = next(change for change in told if change.kind == "isr_shrank")
        assert shrank.text == (
            "t-0: replica 2 left the ISR, [1, 3] stay "
            f"({SENTENCE[Verdict.SLOW_LEADER]}; KIP-501 would have kept it)"
        )


def test_solution_2_hands_over_to_the_next_live_member_and_says_if_it_is_thin():
    part = Partition(logs={2: Log(size_bytes=1)}, log=Log(size_bytes=2 * MIB))
    fleet = a_fleet(part, eligible_local_log_bytes=MIB)
    found = cycle(fleet, replace(part, isr=(1,)))
    assert found.shrinks.handover_to.tolist() == [2, 2]
    assert found.shrinks.handover_thin.tolist() == [1, 1]
    alone = left(Partition(isr=()), Partition(isr=(1,)))
    assert alone.shrinks.handover_to.tolist() == [NO_BROKER]


def test_a_replica_that_comes_back_is_noted_once():
    fleet = left(Partition(isr=(1, 3)))
    fleet = cycle(fleet, Partition())
    back = fleet.observed_at_ms
    fleet = cycle(fleet, Partition())
    assert fleet.shrinks.back_at_ms.tolist() == [back]


def test_three_shrinks_and_a_return_are_thrash_with_a_period_and_a_culprit():
    out, whole = Partition(isr=(1, 3), logs={2: Log(end=60)}), Partition()
    fleet = a_fleet(whole)
    for part in (out, whole, out, whole):
        fleet = cycle(fleet, part)
    assert not fleet.risks[0] & Risk.ISR_THRASH
    fleet = cycle(fleet, out)
    assert fleet.risks[0] & Risk.ISR_THRASH
    assert period_ms(fleet.shrinks) == 2 * INTERVAL_MS
    assert culprit(fleet.shrinks) == 2
    none = fleet.shrinks.none()
    assert math.isnan(period_ms(none))
    assert culprit(none) == NO_BROKER


def test_followers_that_leave_together_are_one_shrink_of_the_thrash():
    whole = Partition(replicas=(1, 2, 3, 4))
    alone = replace(whole, isr=(1,))
    fleet = a_fleet(whole)
    for part in (alone, whole, alone, whole):
        fleet = cycle(fleet, part)
    assert len(fleet.shrinks) == 6
    assert period_ms(fleet.shrinks) == 2 * INTERVAL_MS
    assert not fleet.risks[0] & Risk.ISR_THRASH


def test_a_dead_follower_does_not_speak_against_the_leader_of_another_that_left():
    found = left(Partition(isr=(1,), logs={2: Log(end=60)}), silent=(3,))
    assert dict(zip(found.shrinks.broker.tolist(), verdicts(found), strict=True)) == {
        2: Verdict.SLOW_FOLLOWER,
        3: Verdict.SLOW_FOLLOWER,
    }


def test_a_follower_that_left_by_lag_and_is_fenced_later_was_dead():
    found = left(Partition(isr=(1, 3)), silent=(2,))
    assert verdicts(found) == [Verdict.SLOW_FOLLOWER]
    found = cycle(found, Partition(isr=(1, 3), offline=(2,)), silent=(2,))
    assert verdicts(found) == [Verdict.DEAD_FOLLOWER]
    back = cycle(found, Partition())
    assert verdicts(cycle(back, Partition(offline=(2,)))) == [Verdict.DEAD_FOLLOWER]


def test_an_event_without_a_verdict_may_still_say_what_kip_501_would_have_done():
    known = step(
        a_fleet(Partition()),
        [fetches_frame([
            Fetch(NOW_MS - 15_500, broker=1, leader=2, epoch=2),
            Fetch(NOW_MS - 15_000, broker=1, leader=2, epoch=2, took_ms=20_000),
        ])],
        NOW_MS,
    )[0]  # fmt: skip
    at_ms = NOW_MS + INTERVAL_MS
    part = Partition(leader=2, epoch=2, isr=(2, 3))
    _, told = step(known, [partitions_frame([part], at_ms)], at_ms)
    shrank = next(change for change in told if change.kind == "isr_shrank")
    assert shrank.text == "t-0: replica 1 left the ISR, [2, 3] stay (KIP-501 would have kept it)"


def test_a_shrink_is_forgotten_after_the_window():
    fleet = left(Partition(isr=(1, 3)))
    at_ms = fleet.observed_at_ms + WINDOW_MS
    fleet, _ = step(fleet, [partitions_frame([Partition()], at_ms)], at_ms)
    assert len(fleet.shrinks) == 1
    fleet, _ = step(fleet, [partitions_frame([Partition()], at_ms + 1)], at_ms + 1)
    assert len(fleet.shrinks) == 0
