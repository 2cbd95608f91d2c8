"""Records that an election loses: those that the new leader lacks."""

import numpy as np
import pytest

from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    a_state,
    brokers_frame,
    partitions_frame,
    replicas_frame,
)
from tests.reading import computed, conditions, open_risks
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.state import ShardState
from twin.questions import whatif
from twin.rules.election.records_lost import LOSS_WINDOW_MS, RecordsLost, records_lost_field
from twin.step import step
from twin.tables.state import Partitions

SECOND = 1_000
LEADER_ENDS, FOLLOWER_ENDS = 100, 70


def part(leader: int, isr: tuple[int, ...], end: int, **more: tuple[int, ...]) -> Partition:
    """A partition on brokers 1 and 2, of which only the leader answers."""
    silent = tuple({1, 2} - {leader})
    return Partition(
        replicas=(1, 2), leader=leader, isr=isr, epoch=leader, log=Log(end), silent=silent, **more
    )


def after(state: ShardState, given: Partition, at_ms: int) -> tuple[ShardState, list[str]]:
    """The state after a whole cycle with that partition, and the texts about records lost."""
    frames = [
        brokers_frame((1, 2), at_ms),
        partitions_frame([given], at_ms),
        replicas_frame([given], at_ms),
    ]
    state, changes = step(state, frames, at_ms)
    return state, [change.text for change in changes if change.kind == "records_lost"]


def led_by_1(**more: tuple[int, ...]) -> ShardState:
    """Broker 1 leads alone in the ISR; 2 had not caught up when it went out."""
    return a_state(part(1, (1,), LEADER_ENDS, **more), brokers=(1, 2))


def test_an_unclean_leader_loses_the_records_that_it_lacks():
    state, texts = after(led_by_1(), part(2, (2,), FOLLOWER_ENDS), NOW_MS + SECOND)
    assert texts == [
        "t-0: 30 records lost, offsets 70 to 99: the new leader 2 lacks them, leader 1 had them"
    ]
    assert records_lost_field(state[RecordsLost], state[Partitions]) == [
        [
            {
                "at_ms": NOW_MS + SECOND,
                "old_leader": 1,
                "new_leader": 2,
                "start_offset": 70,
                "end_offset": 100,
            }
        ]
    ]
    assert "records_lost" in open_risks(state)
    assert computed(state, "kafka_twin_records_lost_recent") == 30
    series = computed(state, "kafka_twin_partition_records_lost")
    assert (series.row.tolist(), series.values.tolist()) == ([0], [30])


def test_nobody_leads_between_the_two_leaders():
    offline = Partition(replicas=(1, 2), leader=-1, isr=(1,), epoch=2, offline=(1,), silent=(1, 2))
    state, texts = after(led_by_1(), offline, NOW_MS + SECOND)
    assert texts == []
    listed_only = partitions_frame([part(2, (2,), FOLLOWER_ENDS)], NOW_MS + 2 * SECOND)
    state, _ = step(state, [listed_only], NOW_MS + 2 * SECOND)  # it has not answered yet
    assert not len(state[RecordsLost])
    state, texts = after(state, part(2, (2,), FOLLOWER_ENDS), NOW_MS + 3 * SECOND)
    assert len(texts) == 1
    assert state[RecordsLost].end_offset.tolist() == [LEADER_ENDS]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"isr": (1, 2)}, id="in the ISR"),
        pytest.param({"isr": (1,), "elr": (2,)}, id="in the ELR"),
    ],
)
def test_a_clean_leader_loses_nothing(given):
    """Its log end is below the old leader's, since the twin samples the two at different times."""
    before = a_state(part(1, end=LEADER_ENDS, **given), brokers=(1, 2))
    state, texts = after(before, part(2, (2,), FOLLOWER_ENDS), NOW_MS + SECOND)
    assert texts == []
    assert "records_lost" not in conditions(state)


def test_an_unclean_leader_that_has_everything_loses_nothing():
    state, texts = after(led_by_1(), part(2, (2,), LEADER_ENDS), NOW_MS + SECOND)
    assert texts == []
    assert not len(state[RecordsLost])


def test_a_loss_is_reported_once_kept_for_an_hour_and_survives_a_restart():
    lost_at_ms = NOW_MS + SECOND
    state, _ = after(led_by_1(), part(2, (2,), FOLLOWER_ENDS), lost_at_ms)
    state = codec.decode(codec.encode(state), CATALOG).state
    state, texts = after(state, part(2, (1, 2), 200), lost_at_ms + LOSS_WINDOW_MS)
    assert texts == []
    assert state[RecordsLost].start_offset.tolist() == [FOLLOWER_ENDS]
    state, _ = after(state, part(2, (1, 2), 200), lost_at_ms + LOSS_WINDOW_MS + 1)
    assert not len(state[RecordsLost])
    assert "records_lost" not in conditions(state)


def test_frames_of_one_cycle_in_any_order_give_the_same_loss():
    at_ms, given = NOW_MS + SECOND, part(2, (2,), FOLLOWER_ENDS)
    frames = [
        brokers_frame((1, 2), at_ms),
        partitions_frame([given], at_ms),
        replicas_frame([given], at_ms),
    ]
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
    lacking = whatif.loss_fields(state, whatif.lose(state, [1]), np.arange(2))["records_lost"]
    assert np.asarray(lacking).tolist() == [UNKNOWN, LEADER_ENDS - FOLLOWER_ENDS]
