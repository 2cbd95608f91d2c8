"""Records that an election loses or truncates: from where, up to where, and who said so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.asking import partition_object
from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    a_state,
    epoch_ends_frame,
    partitions_frame,
    truncated_logs_frame,
)
from tests.cycles import cycle_frames
from tests.reading import computed, conditions, open_risks
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.rules.election.leader_changes import EPOCH_END_WITHIN_MS
from twin.rules.election.records_lost import LOSS_WINDOW_MS, RecordsLost
from twin.step import step
from twin.tables.state import PRIOR_END_STAYS_MS, PriorEnds

SECOND = 1_000
LEADER_ENDS, FOLLOWER_ENDS = 100, 70
NEVER_UNCLEAN: dict[str, Any] = {"unclean_leader_election": 0}


def part(leader: int, isr: tuple[int, ...], end: int, **more: Any) -> Partition:
    """A partition on brokers 1 and 2, of which only the leader answers; its epoch is its id."""
    given = {"epoch": leader, "silent": tuple({1, 2} - {leader}), "log": Log(end), **more}
    return Partition(replicas=(1, 2), leader=leader, isr=isr, **given)


def cycle(given: Partition, at_ms: int, epoch_end: int | None, prev_epoch: int = 1) -> list[Frame]:
    """The frames of a whole cycle; the leader's answer about the epoch before, if there is one."""
    ends = [] if epoch_end is None else [epoch_ends_frame(given, prev_epoch, epoch_end, at_ms)]
    return [
        *cycle_frames([given], at_ms, ids=(1, 2)),
        *ends,
    ]


def after(
    state: ShardState, given: Partition, at_ms: int, epoch_end: int | None = None,
    prev_epoch: int = 1,
) -> tuple[ShardState, list[str]]:  # fmt: skip
    """The state after a whole cycle with that partition, and the texts about records."""
    state, changes = step(state, cycle(given, at_ms, epoch_end, prev_epoch), at_ms)
    return state, texts_of(changes)


def texts_of(changes: list[Any]) -> list[str]:
    return [c.text for c in changes if c.kind in ("records_lost", "records_truncated")]


def led_by_1(**more: tuple[int, ...]) -> ShardState:
    """Broker 1 leads alone in the ISR; 2 had not caught up when it went out."""
    return a_state(part(1, (1,), LEADER_ENDS, **more), brokers=(1, 2))


def shown(state: ShardState) -> dict[str, Any]:
    """The only loss of the partition, as the API has it."""
    partition = partition_object(state, NOW_MS)
    [loss] = partition["records_lost"]
    return loss


def test_an_unclean_leader_loses_the_records_that_it_lacks():
    state, texts = after(led_by_1(), part(2, (2,), FOLLOWER_ENDS), NOW_MS + SECOND, 70)
    assert texts == [
        "t-0: at least 30 records lost, offsets 70 to 99 or beyond (estimated: 99): the new leader "
        "2 lacks them, leader 1 had them; whether they were acknowledged is unknown"
    ]
    assert shown(state) == {
        "at_ms": NOW_MS + SECOND,
        "cause": "unclean",
        "acknowledged": "possible",
        "committed_offset": None,
        "old_leader": 1,
        "new_leader": 2,
        "start_offset": 70,
        "start_is_exact": True,
        "end_offset": 100,
        "end_estimate_offset": 100,
        "end_is_exact": False,
    }
    assert "records_lost" in open_risks(state)
    assert computed(state, "kafka_twin_records_lost_recent") == 30
    assert computed(state, "kafka_twin_records_truncated_recent") == 0
    series = computed(state, "kafka_twin_partition_records_lost")
    assert (series.row.tolist(), series.values.tolist()) == ([0], [30])


@pytest.mark.parametrize("first_sample", [70, 95, 150])
def test_what_is_written_before_the_new_leaders_first_sample_hides_no_loss(first_sample):
    state, texts = after(led_by_1(), part(2, (2,), first_sample), NOW_MS + SECOND, 70)
    assert len(texts) == 1
    assert (shown(state)["start_offset"], shown(state)["end_offset"]) == (70, 100)


def test_the_end_is_estimated_from_the_rate_of_half_a_cycle():
    state = led_by_1()
    for n in range(1, 4):
        state, _ = after(state, part(1, (1,), LEADER_ENDS + 20 * n), NOW_MS + n * SECOND)
    state, [text] = after(state, part(2, (2,), FOLLOWER_ENDS), NOW_MS + 4 * SECOND, 70)
    assert (shown(state)["end_offset"], shown(state)["end_estimate_offset"]) == (160, 170)
    assert "offsets 70 to 159 or beyond (estimated: 169)" in text


def test_the_old_leaders_log_says_where_the_loss_ended_hours_later():
    given = part(2, (2,), FOLLOWER_ENDS)
    state, _ = after(led_by_1(), given, NOW_MS + SECOND, 70)
    back_ms = NOW_MS + 3 * LOSS_WINDOW_MS
    state, _ = after(state, given, back_ms - SECOND)
    assert "records_lost" not in conditions(state), "the risk has closed"
    state, changes = step(
        state, [truncated_logs_frame(given, 1, 123, 70, back_ms)], back_ms - SECOND
    )
    assert texts_of(changes) == [
        "t-0: 53 records lost, offsets 70 to 122: leader 1 has logged where they end"
    ]
    state, texts = after(state, part(2, (1, 2), 200, silent=()), back_ms + SECOND)
    assert texts == []


def test_a_truncation_before_the_last_sample_says_nothing():
    state = led_by_1()
    before = truncated_logs_frame(part(1, (1,), 100), 1, 110, 60, NOW_MS - 1)
    state, _ = step(state, [before], NOW_MS)
    state, _ = after(state, part(2, (2,), FOLLOWER_ENDS), NOW_MS + SECOND, 70)
    assert not shown(state)["end_is_exact"]


def test_nobody_leads_between_the_two_leaders():
    offline = Partition(replicas=(1, 2), leader=-1, isr=(1,), epoch=2, offline=(1,), silent=(1, 2))
    state, texts = after(led_by_1(), offline, NOW_MS + SECOND)
    assert texts == []
    listed_only = partitions_frame([part(2, (2,), 70, epoch=3)], NOW_MS + 2 * SECOND)
    state, _ = step(state, [listed_only], NOW_MS + 2 * SECOND)  # it has not answered yet
    assert not len(state[RecordsLost])
    state, texts = after(state, part(2, (2,), 90, epoch=3), NOW_MS + 3 * SECOND, 70)
    assert len(texts) == 1
    assert (shown(state)["start_offset"], shown(state)["end_offset"]) == (70, LEADER_ENDS)


def test_a_leader_that_comes_back_with_an_empty_disk_has_lost_everything():
    offline = part(-1, (1,), 0, epoch=2, offline=(1,), silent=(1, 2))
    state, _ = after(led_by_1(), offline, NOW_MS + SECOND)
    back = part(1, (1,), 0, epoch=3)
    state, texts = after(state, back, NOW_MS + 2 * LOSS_WINDOW_MS, 0)
    assert texts == [
        "t-0: at least 100 records lost, offsets 0 to 99 or beyond (estimated: 99): leader 1 came "
        "back with a shorter log; whether they were acknowledged is unknown"
    ]
    assert shown(state)["cause"] == "shorter_log"
    assert "records_lost" in open_risks(state)


def test_a_log_that_becomes_shorter_under_the_same_leader_and_epoch_is_a_loss():
    state, texts = after(led_by_1(), part(1, (1,), 60), NOW_MS + SECOND)
    assert len(texts) == 1
    loss = shown(state)
    assert (loss["start_offset"], loss["end_offset"], loss["start_is_exact"]) == (60, 100, False)
    _, texts = after(state, part(1, (1,), 80), NOW_MS + 2 * SECOND)
    assert texts == []


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_replica_in_sync_that_lost_its_records_and_leads_then_has_lost_them(is_seen):
    """A loss of power takes records that were not flushed, from every replica.

    If it is not seen before it leads, its first sample ends beyond its last one before the loss.
    """
    both = part(1, (1, 2), LEADER_ENDS, silent=())
    state = a_state(both, brokers=(1, 2))
    nobody = part(-1, (1, 2), 0, epoch=2, silent=(1, 2))
    state, _ = after(state, nobody, NOW_MS + SECOND)
    if is_seen:
        state, _ = after(state, part(-1, (1, 2), 40, epoch=2, silent=(1,)), NOW_MS + 2 * SECOND)
    now = part(2, (2,), 45 if is_seen else 150, epoch=3)
    state, [text] = after(state, now, NOW_MS + (3 if is_seen else 2) * SECOND, 40)
    assert "offsets 40 to 99" in text
    assert shown(state)["cause"] == "shorter_log"
    assert "records_lost" in open_risks(state)


def test_a_replica_that_flaps_is_one_row_of_prior_ends():
    state = a_state(part(1, (1, 2), LEADER_ENDS, silent=()), brokers=(1, 2))
    for n in range(1, 7):
        silent = (2,) if n % 2 else ()
        state, _ = after(state, part(1, (1, 2), LEADER_ENDS, silent=silent), NOW_MS + n * SECOND)
    prior = state[PriorEnds]
    assert (prior.broker.tolist(), prior.end_offset.tolist()) == ([2], [LEADER_ENDS])


def test_what_is_truncated_after_a_clean_failover_is_an_event_and_a_number_and_no_risk():
    state = a_state(part(1, (1, 2), LEADER_ENDS), brokers=(1, 2), **NEVER_UNCLEAN)
    state, texts = after(state, part(2, (2,), 110), NOW_MS + SECOND, 98)
    assert texts == [
        "t-0: at least 2 records lost, offsets 98 to 99 or beyond (estimated: 99): leader 1 had "
        "not replicated them when 2 took over; producers with acks=all got no acknowledgement for "
        "them"
    ]
    assert (shown(state)["cause"], shown(state)["acknowledged"]) == ("acks_1", "no")
    assert computed(state, "kafka_twin_records_truncated_recent") == 2
    assert computed(state, "kafka_twin_records_lost_recent") == 0
    assert "records_lost" not in conditions(state)


def test_only_the_old_leaders_log_shows_what_it_wrote_after_its_last_sample():
    state = a_state(part(1, (1, 2), LEADER_ENDS), brokers=(1, 2))
    given = part(2, (2,), 110)
    state, texts = after(state, given, NOW_MS + SECOND, 104)
    assert texts == []
    at_ms = NOW_MS + 9 * SECOND
    state, changes = step(state, [truncated_logs_frame(given, 1, 107, 104, at_ms)], NOW_MS + SECOND)
    [text] = texts_of(changes)
    assert text.startswith("t-0: 3 records lost, offsets 104 to 106: leader 1 had not replicated")
    state, texts = after(state, given, at_ms + SECOND)
    assert (texts, shown(state)["end_is_exact"]) == ([], True)


def test_an_old_leader_that_is_back_before_its_loss_was_noticed_has_logged_its_end():
    state = a_state(part(1, (1, 2), LEADER_ENDS), brokers=(1, 2))
    both = part(2, (1, 2), 110, silent=())
    cut_ms, now_ms = NOW_MS + 4 * SECOND, NOW_MS + 5 * SECOND
    state, _ = step(state, [truncated_logs_frame(both, 1, 107, 104, cut_ms)], NOW_MS)
    state, [text] = after(state, both, now_ms, 104)
    assert text.startswith("t-0: 3 records lost, offsets 104 to 106")


def test_a_rolling_restart_loses_and_cuts_nothing():
    """1 hands over at 105, follows to 130, stops, is back, and leads again half a minute later."""
    state = a_state(part(1, (1, 2), LEADER_ENDS, silent=()), brokers=(1, 2))
    second = {"leader": 2, "end": 130, "epoch": 2}
    steps = (
        (part(isr=(1, 2), silent=(), **second), 105, 1),
        (part(isr=(2,), offline=(1,), silent=(1,), **second), None, 1),
        (part(isr=(1, 2), silent=(), **second), None, 1),
        (part(1, (1, 2), 190, epoch=3, silent=()), 170, 2),
    )
    for n, (given, epoch_end, prev_epoch) in enumerate(steps, start=1):
        at_ms = NOW_MS + n * 5 * SECOND
        state, texts = after(state, given, at_ms, epoch_end, prev_epoch)
        partition = partition_object(state, at_ms)
        assert (texts, partition["records_lost"], partition["truncations"]) == ([], [], [])
    assert not len(state[RecordsLost])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"isr": (1, 2)}, id="in the ISR"),
        pytest.param({"isr": (1,), "elr": (2,)}, id="in the ELR"),
    ],
)
@pytest.mark.parametrize("epoch_end", [None, LEADER_ENDS])
def test_a_clean_leader_loses_nothing(given, epoch_end):
    """Its log end is below the old leader's, since the twin samples the two at different times."""
    state = a_state(part(1, end=LEADER_ENDS, **given), brokers=(1, 2))
    for n in (0, EPOCH_END_WITHIN_MS, 2 * EPOCH_END_WITHIN_MS):
        now = part(2, (2,), FOLLOWER_ENDS)
        state, texts = after(state, now, NOW_MS + SECOND + n, None if n else epoch_end)
        assert texts == []
    assert "records_lost" not in conditions(state)


def test_an_unclean_leader_that_has_everything_loses_nothing():
    state, texts = after(led_by_1(), part(2, (2,), LEADER_ENDS), NOW_MS + SECOND, LEADER_ENDS)
    assert texts == []
    assert not len(state[RecordsLost])


def test_without_the_leaders_epochs_its_first_sample_is_a_bound_after_a_while():
    given, at_ms = part(2, (2,), FOLLOWER_ENDS), NOW_MS + SECOND
    state, texts = after(led_by_1(), given, at_ms)
    assert texts == []
    state, texts = after(state, part(2, (2,), 90), at_ms + EPOCH_END_WITHIN_MS)
    assert len(texts) == 1
    assert (shown(state)["start_offset"], shown(state)["start_is_exact"]) == (70, False)


def test_a_loss_is_reported_once_kept_for_an_hour_and_survives_a_restart():
    lost_at_ms = NOW_MS + SECOND
    state, _ = after(led_by_1(), part(2, (2,), FOLLOWER_ENDS), lost_at_ms, 70)
    state = codec.decode(codec.encode(state), CATALOG).state
    whole = part(2, (1, 2), 200, silent=())
    state, texts = after(state, whole, lost_at_ms + LOSS_WINDOW_MS)
    assert texts == []
    assert shown(state)["start_offset"] == FOLLOWER_ENDS
    for n in (1, 2 * PRIOR_END_STAYS_MS):  # the former leader is back for a while
        state, _ = after(state, whole, lost_at_ms + LOSS_WINDOW_MS + n)
        assert "records_lost" not in conditions(state)
    assert not len(state[RecordsLost])


def test_frames_of_one_cycle_in_any_order_give_the_same_loss():
    at_ms, given = NOW_MS + SECOND, part(2, (2,), FOLLOWER_ENDS)
    frames = cycle(given, at_ms, 70)
    losses = []
    for order in (frames, frames[::-1]):
        state = led_by_1()
        for frame in order:  # as Spark does if they come in batches of their own
            state, _ = step(state, [frame], at_ms)
        losses.append([column.tolist() for column in state[RecordsLost].values()])
    assert losses[0] == losses[1]
    assert losses[0][0] == [0]


def test_a_question_counts_the_records_that_the_next_leader_would_lack():
    logs = {1: Log(LEADER_ENDS), 2: Log(FOLLOWER_ENDS)}
    topics = {
        "unclean": {"unclean_leader_election": 1, "min_insync_replicas": 1},
        "clean": {"min_insync_replicas": 1},
    }
    state = a_state(
        Partition("clean", replicas=(1, 2), logs=logs),
        Partition("unclean", replicas=(1, 2), isr=(1,), logs=logs),
        brokers=(1, 2),
        topics=topics,
    )
    lacking = whatif.successor_costs(state, whatif.lose(state, [1]), np.arange(2)).records_lost
    assert np.asarray(lacking).tolist() == [UNKNOWN, LEADER_ENDS - FOLLOWER_ENDS]


def test_a_follower_that_truncated_and_later_leads_in_sync_has_not_come_back_with_less():
    """1 is back from an unclean election, truncates 100 to 70, follows to 75, and leads then."""
    state, _ = after(led_by_1(), part(2, (2,), FOLLOWER_ENDS), NOW_MS + SECOND, 70)
    back = part(2, (1, 2), 0, logs={1: Log(75), 2: Log(90)}, silent=())
    state, _ = after(state, back, NOW_MS + 2 * SECOND)
    state, [text] = after(state, part(1, (1,), 75, epoch=3), NOW_MS + 3 * SECOND, 75, 2)
    assert text.startswith("t-0: at least 15 records lost, offsets 75 to 89")
    [_, loss] = partition_object(state, NOW_MS)["records_lost"]
    assert loss["cause"] == "acks_1"
