"""Were lost records acknowledged? What a tap, a group and a high watermark prove of an election.

Brokers 1 and 2 are in the ISR, with logs up to 1000 and 900. Five seconds later 2 leads, in a new
leader epoch that begins at 900: either it was in the ISR and the high watermark was not beyond, or
it had left the ISR meanwhile.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.asking import partition_object
from tests.builders import (
    NOW_MS,
    Fetch,
    Group,
    Log,
    Moved,
    Partition,
    a_state,
    epoch_ends_frame,
    fetches_frame,
    group_offsets_frame,
    groups_frame,
    isr_changes_frame,
)
from tests.cycles import cycle_frames
from tests.reading import computed, conditions, open_risks
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.step import step

SECOND = 1_000
LATER_MS = NOW_MS + 5 * SECOND
UNKNOWN_IF = "whether they were acknowledged is unknown"


def led_by_1(watermark: int = -1) -> Partition:
    logs = {1: Log(1_000, high_watermark=watermark), 2: Log(900)}
    return Partition(replicas=(1, 2), isr=(1, 2), logs=logs)


def led_by_2(end: int = 900) -> Partition:
    return Partition(replicas=(1, 2), leader=2, isr=(2,), epoch=2, log=Log(end), silent=(1,))


def before(watermark: int = -1, **cluster: int) -> ShardState:
    """The cycle before: both are in the ISR."""
    return a_state(led_by_1(watermark), brokers=(1, 2), **cluster)


def elected(
    state: ShardState, *more: Frame, at_ms: int = LATER_MS, end: int = 900, epoch_end: int = 900
) -> tuple[ShardState, list[str]]:
    """The cycle that first lists leader 2, and the texts about records."""
    part = led_by_2(end)
    frames = [
        *cycle_frames([part], at_ms, ids=(1, 2), silent=(1,)),
        epoch_ends_frame(part, 1, epoch_end, at_ms),
    ]
    return took(state, [*frames, *more], at_ms)


def took(state: ShardState, frames: list[Frame], at_ms: int) -> tuple[ShardState, list[str]]:
    state, changes = step(state, frames, at_ms)
    return state, [c.text for c in changes if c.kind in ("records_lost", "records_truncated")]


def committed(offset: int, at_ms: int) -> list[Frame]:
    group = [Group("g", [(led_by_1(), offset)], read_ms=at_ms)]
    return [groups_frame(group, at_ms), group_offsets_frame(group, at_ms)]


def shown(state: ShardState) -> dict[str, Any]:
    partition = partition_object(state, NOW_MS)
    [loss] = partition["records_lost"]
    return loss


def verdict(state: ShardState) -> tuple[str, str]:
    return shown(state)["cause"], shown(state)["acknowledged"]


def is_paged(state: ShardState) -> bool:
    return "records_lost" in open_risks(state)


def test_without_evidence_it_is_unknown_whether_records_were_acknowledged_and_nobody_is_paged():
    state, [text] = elected(before())
    assert verdict(state) == ("acks_1", "possible")
    assert text.endswith(f"leader 1 had not replicated them when 2 took over; {UNKNOWN_IF}")
    assert not is_paged(state)
    assert computed(state, "kafka_twin_records_truncated_recent") == 100


@pytest.mark.parametrize("setting", ["unclean_leader_election", "unclean_elections"])
def test_a_controller_that_elects_from_the_isr_alone_lost_nothing_that_was_acknowledged(setting):
    state, [text] = elected(before(**{setting: 0}))
    assert verdict(state) == ("acks_1", "no")
    assert text.endswith("producers with acks=all got no acknowledgement for them")
    assert not is_paged(state)


def test_a_successor_that_was_silent_may_have_lost_what_it_had():
    """A loss of power takes records that were not flushed, also from members of the ISR."""
    state = before(unclean_leader_election=0)
    for n in (1, 2):
        nobody = Partition(replicas=(1, 2), leader=-1, isr=(1, 2), epoch=2, silent=(1, 2))
        state = a_state(nobody, since=state, at_ms=NOW_MS + n * 5 * SECOND)
    state, _ = elected(state, at_ms=NOW_MS + 15 * SECOND)
    assert verdict(state) == ("acks_1", "possible")


def test_a_tap_that_logged_the_removal_of_the_successor_makes_the_election_unclean():
    removed = isr_changes_frame([Moved(NOW_MS + SECOND, part=led_by_1())], LATER_MS)
    state, [text] = elected(before(), removed)
    assert verdict(state) == ("unclean", "possible")
    assert text.endswith(f"the new leader 2 lacks them, leader 1 had them; {UNKNOWN_IF}")
    assert is_paged(state)
    assert computed(state, "kafka_twin_records_lost_recent") == 100


def test_a_tap_that_is_late_by_a_cycle_makes_the_election_unclean_then():
    state, [text] = elected(before())
    assert verdict(state) == ("acks_1", "possible")
    at_ms = LATER_MS + SECOND
    removed = isr_changes_frame([Moved(NOW_MS + SECOND, part=led_by_1())], at_ms)
    state, [text] = took(state, [removed], at_ms)
    assert "the new leader 2 lacks them" in text
    assert (verdict(state), is_paged(state)) == (("unclean", "possible"), True)
    _, texts = elected(state, at_ms=at_ms + SECOND)
    assert texts == [], "the event is reported once"


def test_a_removal_that_was_followed_by_a_return_says_nothing():
    moves = [Moved(NOW_MS + SECOND), Moved(NOW_MS + 2 * SECOND, left=False)]
    logged = isr_changes_frame([*moves], LATER_MS)
    state, _ = elected(before(), logged)
    assert verdict(state) == ("acks_1", "possible")


def test_a_removal_by_a_later_leader_says_nothing_of_this_election():
    removed = isr_changes_frame([Moved(NOW_MS + SECOND, leader=3, part=led_by_1())], LATER_MS)
    state, _ = elected(before(), removed)
    assert verdict(state) == ("acks_1", "possible")


@pytest.mark.parametrize(("offset", "known"), [(901, "certain"), (900, "possible")])
def test_a_group_that_read_beyond_the_start_proves_that_these_records_were_acknowledged(
    offset, known
):
    state, _ = took(before(), committed(offset, NOW_MS), NOW_MS)
    state, _ = elected(state)
    assert shown(state)["acknowledged"] == known
    assert is_paged(state) == (known == "certain")


def test_a_group_that_is_read_after_the_election_proves_it_if_it_is_ahead_of_the_log():
    state, _ = elected(before())
    at_ms = LATER_MS + SECOND
    state, texts = took(state, committed(960, at_ms), at_ms)
    assert (verdict(state), texts) == (("acks_1", "possible"), []), "the log may have grown since"
    state, [text] = elected(state, at_ms=at_ms + SECOND, end=940)
    assert text.endswith("leader 1 had them; records before offset 960 were committed")
    assert (verdict(state), is_paged(state)) == (("unclean", "certain"), True)


def test_a_group_that_reads_the_new_log_proves_nothing():
    state, _ = elected(before())
    at_ms = LATER_MS + SECOND
    state, _ = took(state, committed(960, at_ms), at_ms)
    state, texts = elected(state, at_ms=at_ms + SECOND, end=970)
    assert (verdict(state), texts) == (("acks_1", "possible"), [])


def test_an_offset_beyond_what_the_old_leader_can_have_written_was_set_by_hand():
    state, _ = took(before(), committed(5_000, NOW_MS), NOW_MS)
    state, _ = elected(state)
    assert verdict(state) == ("acks_1", "possible")


def test_an_offset_of_a_log_that_an_earlier_loss_cut_proves_nothing_of_a_later_one():
    """The group stays at 960 while 2 leads from 900 to 980; then 1 leads from 950."""
    state, _ = took(before(), committed(960, NOW_MS), NOW_MS)
    state, _ = elected(state)
    at_ms = LATER_MS + 5 * SECOND
    both = Partition(replicas=(1, 2), leader=2, epoch=2, logs={1: Log(950), 2: Log(980)})
    state = a_state(both, since=state, brokers=(1, 2), at_ms=at_ms)
    again = Partition(replicas=(1, 2), leader=1, isr=(1,), epoch=3, log=Log(990), silent=(2,))
    at_ms += 5 * SECOND
    state = a_state(again, since=state, brokers=(1, 2), at_ms=at_ms)
    state, _ = step(state, [epoch_ends_frame(again, 2, 950, at_ms, 2)], at_ms)
    partition = partition_object(state, at_ms)
    assert [loss["acknowledged"] for loss in partition["records_lost"]] == ["certain", "possible"]


@pytest.mark.parametrize(("watermark", "known"), [(901, "certain"), (900, "possible")])
def test_a_high_watermark_beyond_the_start_proves_that_these_records_were_acknowledged(
    watermark, known
):
    state, [text] = elected(before(watermark))
    assert shown(state)["acknowledged"] == known
    assert is_paged(state) == (known == "certain")
    if known == "certain":
        assert shown(state)["cause"] == "unclean"
        assert text.endswith("leader 1 had them; records before offset 901 were committed")


def test_a_high_watermark_that_a_tap_logged_counts_although_it_is_newer_than_the_last_answer():
    fetch = Fetch(NOW_MS + SECOND, offset=950, high_watermark=950, part=led_by_1())
    state, _ = elected(before(900), fetches_frame([fetch], LATER_MS))
    assert verdict(state) == ("unclean", "certain")
    assert shown(state)["committed_offset"] == 950


def test_a_high_watermark_beyond_the_last_answer_bounds_the_end_of_the_loss():
    fetch = Fetch(NOW_MS + SECOND, offset=1_040, high_watermark=1_040, part=led_by_1())
    state, _ = elected(before(900), fetches_frame([fetch], LATER_MS), epoch_end=1_020)
    assert (shown(state)["start_offset"], shown(state)["end_offset"]) == (1_020, 1_040)
    assert verdict(state) == ("unclean", "certain")


def test_the_high_watermark_of_another_epoch_proves_nothing():
    fetch = Fetch(NOW_MS + SECOND, offset=950, epoch=0, high_watermark=950, part=led_by_1())
    state, _ = elected(before(), fetches_frame([fetch], LATER_MS))
    assert verdict(state) == ("acks_1", "possible")


def test_who_lacks_committed_records_although_nobody_else_may_lead_has_lost_them():
    state, [text] = elected(before(950, unclean_leader_election=0))
    assert verdict(state) == ("shorter_log", "certain")
    assert "leader 2 came back with a shorter log; records before offset 950" in text
    assert is_paged(state)


def test_a_clean_handover_says_nothing_of_records():
    state, texts = elected(before(1_000), epoch_end=1_000, end=1_000)
    assert texts == []
    assert "records_lost" not in conditions(state)


def test_a_successor_that_had_the_committed_records_has_lost_them_itself():
    """Both lost power; 2 had answered that it ends at 980."""
    logs = {1: Log(1_000, high_watermark=980), 2: Log(980)}
    state = a_state(Partition(replicas=(1, 2), logs=logs), brokers=(1, 2))
    for n in (1, 2):
        nobody = Partition(replicas=(1, 2), leader=-1, isr=(1, 2), epoch=2, silent=(1, 2))
        state = a_state(nobody, since=state, at_ms=NOW_MS + n * 5 * SECOND)
    state, _ = elected(state, at_ms=NOW_MS + 15 * SECOND)
    assert verdict(state) == ("shorter_log", "certain")
    assert is_paged(state)
