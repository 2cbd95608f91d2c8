"""The order of a tiered log's offsets, by samples that are not of one moment."""

from dataclasses import replace

import pytest

from tests.builders import Log, Partition, a_state
from tests.reading import conditions, open_risks
from twin.engine.shard_state import ShardState
from twin.rules.tiering.tier_invariants import Disorder, TierDisorder

INTERVAL_MS = 5_000
GOOD = Log(end=100, last_stable=90, local_start=50, start=10, last_tiered=79)


def watched(*logs: Log, topic: int = 1, **changes) -> ShardState:
    """The state after a cycle for each; ``changes`` hold from the second on."""
    state = None
    for log in logs:
        part = Partition(log=log)
        if state is not None:
            part = replace(part, **changes)
        at = {} if state is None else {"since": state, "at_ms": state.observed_at_ms + INTERVAL_MS}
        state = a_state(part, topics={"t": {"remote_storage": topic}}, **at)
    assert state is not None
    return state


def disorder(state: ShardState) -> int:
    return int(state[TierDisorder].tier_disorder[0])


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, 0),
        ({"end": 89}, Disorder.END_BELOW_STABLE),
        ({"last_stable": 49}, Disorder.STABLE_BELOW_LOCAL_START | Disorder.STABLE_BELOW_REMOTE_END),
        ({"last_stable": 79}, Disorder.STABLE_BELOW_REMOTE_END),
        ({"last_stable": 80}, 0),
        ({"last_tiered": 48}, Disorder.REMOTE_END_BELOW_LOCAL_START),
        ({"last_tiered": 49}, 0),
        (
            {"last_tiered": 5, "start": 50},
            0,
        ),  # records were deleted by request
    ],
)
def test_each_inequality_by_this_cycles_larger_and_the_last_ones_smaller(changed, broken):
    changed_log = replace(GOOD, **changed)
    assert disorder(watched(GOOD, changed_log)) == 0  # one cycle may have met it between requests
    assert disorder(watched(GOOD, changed_log, changed_log)) == broken


def test_a_log_that_is_written_between_two_requests_is_in_order():
    """The end is asked first: whatever is asked later may lie beyond it."""
    later = replace(GOOD, end=100, last_stable=500, local_start=400, start=300, last_tiered=450)
    assert disorder(watched(GOOD, later)) == 0
    caught_up = replace(later, end=500)
    assert disorder(watched(GOOD, later, caught_up)) == 0
    assert disorder(watched(GOOD, later, later)) == Disorder.END_BELOW_STABLE


def test_offsets_of_two_leaders_are_not_compared():
    less = replace(GOOD, end=60, last_stable=60)
    assert disorder(watched(less, less, epoch=2)) == 0
    assert disorder(watched(less, less, leader=2)) == 0
    assert disorder(watched(less, less)) != 0


def test_a_log_that_is_not_tiered_or_does_not_say_is_not_judged():
    less = replace(GOOD, end=60)
    assert disorder(watched(less, less, topic=0)) == 0
    assert disorder(watched(less, less, silent=(1,))) == 0
    assert disorder(watched(less, less)) != 0
    assert disorder(watched(Log(), Log())) == 0


def test_the_risk_opens_after_a_minute():
    low = replace(GOOD, last_stable=79)
    state = watched(low, low)
    assert "tier_disorder" in conditions(state)
    assert "tier_disorder" not in open_risks(state)
    assert "tier_disorder" in open_risks(watched(*[low] * 14))
