"""Live replicas that have not truncated to the log of their new leader.

The ISR was {1}; logs end at 1000, 850 and 950. Broker 2 is elected uncleanly and begins at 850. 3
answers, but does not reach 2: its log stays at 950, of which 100 records are not in 2's.
"""

from __future__ import annotations

from typing import Any

from tests.asking import partition_object
from tests.builders import NOW_MS, Log, Partition, a_state, epoch_ends_frame
from twin.engine.shard_state import ShardState
from twin.step import step

SECOND = 1_000
CYCLE = 5 * SECOND
TO_TRUNCATE = [{"broker": 3, "to_offset": 850, "records": 100}]


def begun(isr: tuple[int, ...] = (1,)) -> ShardState:
    logs = {1: Log(1_000), 2: Log(850), 3: Log(950)}
    return a_state(Partition(isr=isr, logs=logs))


def led_by_2(
    state: ShardState, n: int, end: int, third: int, isr: tuple[int, ...] = (2,), **more: Any
) -> ShardState:
    """The n-th cycle since: 2 ends there, 3 there; 2 began at 850."""
    logs = {1: Log(1_000), 2: Log(end), 3: Log(third)}
    part = Partition(leader=2, isr=isr, epoch=2, logs=logs, **{"silent": (1,), **more})
    at_ms = NOW_MS + n * CYCLE
    state = a_state(part, since=state, at_ms=at_ms)
    return step(state, [epoch_ends_frame(part, 1, 850, at_ms)], at_ms)[0] if n == 1 else state


def third(state: ShardState) -> dict[str, Any]:
    [replica] = [r for r in partition_object(state)["replicas"] if r["broker"] == 3]
    return replica


def of_third(state: ShardState) -> tuple[list[dict[str, Any]], int | None]:
    """What 3 truncates, and what its unclean election would lose."""
    [lost] = [
        s["records_lost"] for s in partition_object(state)["unclean_successors"] if s["broker"] == 3
    ]
    return [t for t in partition_object(state)["truncations"] if t["broker"] == 3], lost


def test_a_live_follower_that_does_not_reach_its_unclean_leader_is_still_to_truncate():
    state = begun()
    for n in range(1, 13):
        end = 850 + 25 * (n - 1)  # 950 in the fifth cycle, as 3 does
        state = led_by_2(state, n, end, 950)
        assert of_third(state) == (TO_TRUNCATE, end - 850), n
        assert third(state)["in_sync"] is False, n
        assert third(state)["lag_records"] is None, n


def test_a_follower_that_is_seen_at_the_start_has_truncated():
    state = led_by_2(begun(), 1, 850, 950)
    state = led_by_2(state, 2, 900, 850)
    assert of_third(state) == ([], 50)
    assert third(state)["lag_records"] == 50


def test_a_follower_that_moves_while_its_leader_answers_follows_it():
    """Between two polls it truncated and fetched beyond where it was."""
    state = led_by_2(begun(), 1, 900, 950)
    state = led_by_2(state, 2, 1_200, 1_100)
    assert of_third(state) == ([], 100)
    assert third(state)["lag_records"] == 100


def test_a_follower_in_the_isr_has_truncated():
    state = led_by_2(begun(), 1, 960, 950)
    assert of_third(state) == (TO_TRUNCATE, 110)
    state = led_by_2(state, 2, 960, 960, isr=(2, 3))
    assert partition_object(state)["truncations"][-1]["broker"] == 1
    assert third(state)["in_sync"] is True


def test_a_follower_that_is_shorter_in_the_first_cycle_already_has_truncated():
    assert of_third(led_by_2(begun(), 1, 900, 880)) == ([], 20)


def test_a_member_of_the_isr_of_a_clean_leader_is_not_suspected():
    state = led_by_2(begun(isr=(1, 2, 3)), 1, 860, 950, isr=(2, 3))
    assert [t["broker"] for t in partition_object(state)["truncations"]] == [1]


def test_a_former_leader_that_is_back_as_it_was_has_not_truncated():
    state = led_by_2(begun(), 1, 900, 850)
    for n in (2, 3):
        state = led_by_2(state, n, 950, 950, silent=())
        [first] = [t for t in partition_object(state)["truncations"] if t["broker"] == 1]
        assert first == {"broker": 1, "to_offset": 850, "records": 150}
    logs = {1: Log(960), 2: Log(970), 3: Log(970)}
    part = Partition(leader=2, isr=(2,), epoch=2, logs=logs)
    state = a_state(part, since=state, at_ms=NOW_MS + 4 * CYCLE)
    assert partition_object(state)["truncations"] == []


def test_a_follower_that_never_truncated_and_leads_next_loses_all_since_it_diverged():
    """3 leads after 2, which had written up to 1250."""
    state = begun()
    for n, end in enumerate((850, 1_050, 1_250), start=1):
        state = led_by_2(state, n, end, 950)
    part = Partition(leader=3, isr=(3,), epoch=3, log=Log(950), silent=(1, 2))
    at_ms = NOW_MS + 4 * CYCLE
    state = a_state(part, since=state, at_ms=at_ms)
    state, _ = step(state, [epoch_ends_frame(part, 2, 950, at_ms, 1)], at_ms)
    loss = partition_object(state)["records_lost"][-1]
    assert (loss["start_offset"], loss["end_offset"]) == (850, 1_250)


def test_while_the_start_is_not_read_it_is_unknown_what_a_live_follower_has_in_common():
    logs = {2: Log(900), 3: Log(950)}
    part = Partition(leader=2, isr=(2,), epoch=2, logs=logs, silent=(1,))
    state = a_state(part, since=begun(), at_ms=NOW_MS + CYCLE)
    [lost] = [
        s["records_lost"] for s in partition_object(state)["unclean_successors"] if s["broker"] == 3
    ]
    assert lost is None


def test_a_follower_that_joined_the_isr_has_truncated_although_it_is_silent_since():
    state = led_by_2(begun(), 1, 960, 950)
    state = led_by_2(state, 2, 990, 950, isr=(2, 3), silent=(1, 3))
    assert [t["broker"] for t in partition_object(state)["truncations"]] == [1]
