"""Elections from outside the ISR and the ELR are told, whatever samples show of lost records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.asking import partition_object
from tests.builders import (
    NOW_MS,
    Log,
    Moved,
    Partition,
    a_state,
    epoch_ends_frame,
    isr_changes_frame,
    logged_unclean_election_frame,
)
from tests.cycles import cycle_frames, listed_frames
from tests.reading import computed, open_risks
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.rules.election.leader_changes import EPOCH_END_WITHIN_MS
from twin.rules.election.records_lost import LOSS_WINDOW_MS, LossCause, RecordsLost
from twin.step import step

SECOND = 1_000


def led_by_1(end: int = 6_000, isr: tuple[int, ...] = (1,), **more: Any) -> Partition:
    given = {"silent": (2,), "log": Log(end), **more}
    return Partition(replicas=(1, 2), isr=isr, **given)


def led_by_2(end: int = 6_000, **more: Any) -> Partition:
    given = {"isr": (2,), "epoch": 2, "silent": (1,), "log": Log(end), **more}
    return Partition(replicas=(1, 2), leader=2, **given)


def after(
    state: ShardState, part: Partition, at_ms: int, epoch_end: int | None = None, *more: Frame
) -> tuple[ShardState, list[str]]:
    """The state after a whole cycle with that partition, and what it tells of such elections."""
    ends = [] if epoch_end is None else [epoch_ends_frame(part, 1, epoch_end, at_ms)]
    frames = [
        *cycle_frames([part], at_ms, ids=(1, 2)),
        *ends,
        *more,
    ]
    state, changes = step(state, frames, at_ms)
    return state, [c.text for c in changes if c.kind == "unclean_election"]


def shown(state: ShardState) -> list[dict[str, Any]]:
    partition = partition_object(state, NOW_MS)
    elections: list[dict[str, Any]] = partition["unclean_elections"]
    return elections


def is_open(state: ShardState) -> bool:
    return "unclean_election" in open_risks(state)


def test_an_unclean_election_is_told_although_the_start_is_the_old_leaders_last_sample():
    state = a_state(led_by_1(4_000), brokers=(1, 2))
    for n in range(1, 3):
        state, _ = after(state, led_by_1(4_000 + n * 1_000), NOW_MS + n * 5 * SECOND)
    at_ms = NOW_MS + 15 * SECOND
    state, [text] = after(state, led_by_2(), at_ms, 6_000)
    assert text == (
        "t-0: broker 2 was elected from outside the ISR and the ELR, after leader 1: records "
        "from offset 6000 on may be lost, none by the old leader's last answer (estimated: 500)"
    )
    assert shown(state) == [
        {
            "at_ms": at_ms,
            "old_leader": 1,
            "new_leader": 2,
            "start_offset": 6_000,
            "end_offset": 6_000,
            "end_estimate_offset": 6_500,
            "start_is_exact": True,
        }
    ]
    assert is_open(state)
    assert "records_lost" not in open_risks(state), "no record is known to be lost"
    assert computed(state, "kafka_twin_unclean_elections_recent") == 1


def test_an_unclean_election_is_told_although_the_old_leader_never_answered():
    state = a_state(led_by_1(silent=(1, 2)), brokers=(1, 2))
    state, [text] = after(state, led_by_2(), NOW_MS + SECOND, 5_900)
    assert text.endswith("records from offset 5900 on may be lost; leader 1 never answered")
    assert (is_open(state), shown(state)[0]["end_offset"]) == (True, None)


def test_an_unclean_leader_that_does_not_answer_is_told_after_a_while_and_again_with_its_start():
    state = a_state(led_by_1(), brokers=(1, 2))
    at_ms = NOW_MS + SECOND
    state, texts = after(state, led_by_2(silent=(1, 2)), at_ms)
    assert texts == []
    at_ms += EPOCH_END_WITHIN_MS
    state, [text] = after(state, led_by_2(silent=(1, 2)), at_ms)
    assert text.endswith("what it lacks is unknown, since broker 2 does not answer")
    state, texts = after(state, led_by_2(silent=(1, 2)), at_ms + SECOND)
    assert (texts, is_open(state)) == ([], True)
    state, [text] = after(state, led_by_2(), at_ms + 2 * SECOND, 5_900)
    assert "at least 100 records lost from offset 5900 on" in text
    assert len(shown(state)) == 1


def test_an_unclean_election_that_lost_records_is_told_as_well_and_pages_by_them():
    state = a_state(led_by_1(), brokers=(1, 2))
    state, [text] = after(state, led_by_2(), NOW_MS + SECOND, 5_900)
    assert "at least 100 records lost from offset 5900 on" in text
    assert {"records_lost", "unclean_election"} <= open_risks(state)


def test_an_unclean_election_is_told_once_and_shown_for_an_hour():
    state = a_state(led_by_1(), brokers=(1, 2))
    state, _ = after(state, led_by_2(), NOW_MS + SECOND, 6_000)
    for ms, is_shown in ((LOSS_WINDOW_MS, True), (LOSS_WINDOW_MS + 1, False)):
        state, texts = after(state, led_by_2(), NOW_MS + SECOND + ms)
        assert (texts, is_open(state)) == ([], is_shown)


@pytest.mark.parametrize("isr", [(1,), ()])
def test_a_leader_that_comes_back_after_itself_was_not_elected_uncleanly(isr):
    """The only replica's log directory fails, and its broker is started again with it."""
    alone = Partition(replicas=(1,), log=Log(6_000))
    state = a_state(alone, brokers=(1, 2))
    lost = Partition(replicas=(1,), leader=-1, isr=isr, offline=(1,), silent=(1,), epoch=2)
    state, texts = after(state, lost, NOW_MS + SECOND)
    assert texts == []
    back = Partition(replicas=(1,), epoch=3, log=Log(6_500))
    state, texts = after(state, back, NOW_MS + 2 * SECOND, 6_000)
    assert (texts, is_open(state), shown(state)) == ([], False, [])


def test_a_removal_that_a_tap_logged_makes_a_member_of_the_isr_an_unclean_leader():
    state = a_state(led_by_1(isr=(1, 2)), brokers=(1, 2))
    removed = isr_changes_frame([Moved(NOW_MS + SECOND, part=led_by_1())], NOW_MS + 2 * SECOND)
    state, [text] = after(state, led_by_2(), NOW_MS + 2 * SECOND, 6_000, removed)
    assert "records from offset 6000 on may be lost" in text
    assert is_open(state)


def test_a_loss_that_turns_out_to_be_unclean_later_is_told_then():
    state = a_state(led_by_1(isr=(1, 2)), brokers=(1, 2))
    state, texts = after(state, led_by_2(), NOW_MS + 2 * SECOND, 5_900)
    assert texts == []
    removed = isr_changes_frame([Moved(NOW_MS + SECOND, part=led_by_1())], NOW_MS + 3 * SECOND)
    state, [text] = after(state, led_by_2(), NOW_MS + 3 * SECOND, None, removed)
    assert "at least 100 records lost" in text
    state, texts = after(state, led_by_2(), NOW_MS + 4 * SECOND)
    assert (texts, is_open(state)) == ([], True)


def test_an_election_that_a_controller_logged_as_unclean_is_told_although_the_isr_seemed_safe():
    """The controller fenced 2 after the cycle, so no broker logged that it left the ISR."""
    state = a_state(led_by_1(isr=(1, 2)), brokers=(1, 2))
    logged = logged_unclean_election_frame(led_by_2(), 2, led_by_2().epoch, NOW_MS + SECOND)
    state, [text] = after(state, led_by_2(), NOW_MS + 2 * SECOND, 6_000, logged)
    assert "records from offset 6000 on may be lost" in text
    assert is_open(state)


def test_an_unclean_election_that_a_controller_logged_makes_sure_of_one_that_may_have_joined():
    state = a_state(led_by_1(), brokers=(1, 2))
    beside = led_by_2(isr=(1, 2), silent=())
    _, texts = after(state, beside, NOW_MS + 2 * SECOND, 6_000)
    assert texts == []
    logged = logged_unclean_election_frame(beside, 2, beside.epoch, NOW_MS + SECOND)
    _, texts = after(state, beside, NOW_MS + 2 * SECOND, 6_000, logged)
    assert len(texts) == 1


def test_a_loss_that_a_controller_logged_as_unclean_later_is_told_then():
    state = a_state(led_by_1(isr=(1, 2)), brokers=(1, 2))
    state, texts = after(state, led_by_2(), NOW_MS + 2 * SECOND, 5_900)
    assert texts == []
    logged = logged_unclean_election_frame(led_by_2(), 2, led_by_2().epoch, NOW_MS + SECOND)
    state, [text] = after(state, led_by_2(), NOW_MS + 3 * SECOND, None, logged)
    assert "at least 100 records lost" in text
    assert is_open(state)


def test_earlier_elections_that_a_controller_logs_again_at_its_start_say_nothing_of_this_one():
    state = a_state(led_by_1(isr=(1, 2)), brokers=(1, 2))
    again = logged_unclean_election_frame(led_by_1(), 1, led_by_1().epoch, NOW_MS + SECOND)
    state, texts = after(state, led_by_2(), NOW_MS + 2 * SECOND, 5_900, again)
    assert (texts, is_open(state)) == ([], False)


@pytest.mark.parametrize(
    ("before", "settings", "elected"),
    [
        ({"isr": (1, 2)}, {}, {}),
        ({"elr": (2,)}, {}, {}),
        ({"silent": ()}, {}, {"isr": (1, 2), "silent": ()}),  # beside the former ISR
        ({}, {"unclean_leader_election": 0}, {}),
    ],
)
def test_a_leader_from_the_isr_or_the_elr_or_that_must_have_joined_is_not_unclean(
    before, settings, elected
):
    state = a_state(led_by_1(**before), brokers=(1, 2), **settings)
    state, texts = after(state, led_by_2(**elected), NOW_MS + SECOND, 6_000)
    assert (texts, is_open(state)) == ([], False)


def test_a_replica_that_takes_over_by_a_reassignment_had_joined_the_isr_before():
    moving = Partition(replicas=(1, 2), isr=(1,), adding=(2,), removing=(1,), log=Log(6_000))
    state = a_state(moving, brokers=(1, 2))
    moved = Partition(replicas=(2,), isr=(2,), leader=2, epoch=2, log=Log(6_100))
    state, texts = after(state, moved, NOW_MS + SECOND, 6_050)
    assert (texts, is_open(state)) == ([], False)


def test_an_operator_who_forces_an_election_of_a_partition_without_a_leader_is_told():
    state = a_state(led_by_1(), brokers=(1, 2), unclean_leader_election=0)
    nobody = Partition(replicas=(1, 2), leader=-1, isr=(1,), epoch=2, silent=(1, 2))
    state, _ = after(state, nobody, NOW_MS + SECOND)
    state, [text] = after(state, led_by_2(epoch=3), NOW_MS + 2 * SECOND, 6_000)
    assert "broker 2 was elected from outside the ISR" in text
    assert is_open(state)


def test_a_former_leader_that_leads_again_after_another_one_was_elected_uncleanly():
    """The leader between never answered, and nobody else had what it took over."""
    state = a_state(led_by_1(isr=(1, 2)), brokers=(1, 2))
    state, _ = after(state, led_by_2(silent=(1, 2)), NOW_MS + SECOND)
    again = led_by_1(1_000, epoch=3)
    state, [text] = after(state, again, NOW_MS + 2 * SECOND, 1_000)
    assert "broker 1 was elected from outside the ISR and the ELR, after leader 1" in text
    assert is_open(state)
    [loss] = state[RecordsLost].cause
    assert loss == LossCause.UNCLEAN


def test_a_former_leader_that_leads_again_after_nobody_was_not():
    state = a_state(led_by_1(), brokers=(1, 2))
    nobody = led_by_1(leader=-1, epoch=2, silent=(1, 2))
    state, _ = after(state, nobody, NOW_MS + SECOND)
    state, texts = after(state, led_by_1(epoch=3), NOW_MS + 2 * SECOND, 6_000)
    assert (texts, is_open(state)) == ([], False)


# ---------------------------------------------------------------- epochs that nobody read


def late(state: ShardState, end: int, **more: Any) -> ShardState:
    """2 leads, ends there at its first answer, and its epochs are not read."""
    for n in (1, 2):
        ms = SECOND + (n - 1) * EPOCH_END_WITHIN_MS
        state, _ = after(state, led_by_2(end + (n - 1) * 100, **more), NOW_MS + 5 * SECOND + ms)
    return state


def lost(state: ShardState) -> tuple[int, int, bool]:
    partition = partition_object(state, NOW_MS)
    [loss] = partition["records_lost"]
    return loss["start_offset"], loss["end_offset"], loss["start_is_exact"]


def test_without_epochs_an_unclean_leader_begins_about_where_it_last_ended_before():
    """A follower outside the ISR that answered until it led: 900, and 1500 when it led."""
    logs = {1: Log(1_000), 2: Log(900)}
    state = a_state(led_by_1(silent=(), logs=logs), brokers=(1, 2))
    state, _ = after(state, led_by_1(silent=(), logs=logs), NOW_MS + 5 * SECOND)
    assert lost(late(state, 1_500)) == (900, 1_000, False)


def test_without_epochs_an_unclean_leader_that_was_silent_begins_where_it_last_ended_too():
    logs = {1: Log(1_000), 2: Log(900)}
    state = a_state(led_by_1(silent=(), logs=logs), brokers=(1, 2))
    for n in (1, 2):
        state, _ = after(state, led_by_1(logs=logs, offline=(2,)), NOW_MS + n * SECOND)
    assert lost(late(state, 1_500)) == (900, 1_000, False)


def test_without_epochs_the_first_answer_counts_if_it_is_lower():
    logs = {1: Log(1_000), 2: Log(900)}
    state = a_state(led_by_1(silent=(), logs=logs), brokers=(1, 2))
    assert lost(late(state, 850)) == (850, 1_000, False)


def test_without_epochs_nothing_is_made_up_of_a_leader_from_the_isr():
    logs = {1: Log(1_000), 2: Log(900)}
    state = a_state(led_by_1(isr=(1, 2), silent=(), logs=logs), brokers=(1, 2))
    state = late(state, 1_500)
    partition = partition_object(state, NOW_MS)
    assert (partition["records_lost"], shown(state)) == ([], [])


def test_a_start_that_is_not_exact_is_said_to_be_about():
    logs = {1: Log(1_000), 2: Log(900)}
    state = a_state(led_by_1(silent=(), logs=logs), brokers=(1, 2))
    state, _ = after(state, led_by_2(1_500), NOW_MS + SECOND)
    at_ms = NOW_MS + SECOND + EPOCH_END_WITHIN_MS
    frames = listed_frames([led_by_2(1_600)], at_ms)
    _, changes = step(state, frames, at_ms)
    [text] = [c.text for c in changes if c.kind == "records_lost"]
    assert text.startswith("t-0: about 100 records lost, offsets 900 to 999 or beyond")
    [text] = [c.text for c in changes if c.kind == "unclean_election"]
    assert text.endswith("the start is not exact, since the leader's epochs were not read")


def test_a_committed_offset_between_two_bounds_of_the_start_proves_nothing():
    """The start is between 900 and 1500; 950 may be in the new leader's log."""
    logs = {1: Log(1_000, high_watermark=950), 2: Log(900)}
    state = a_state(led_by_1(silent=(), logs=logs), brokers=(1, 2))
    partition = partition_object(late(state, 1_500), NOW_MS)
    [loss] = partition["records_lost"]
    assert loss["acknowledged"] == "possible"
