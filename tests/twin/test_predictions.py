"""The track record: leader changes compared with what was predicted before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from tests.reading import computed, conditions
from twin.arrays import plain
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.rules.election.prediction_reports import WRONG_SHOWN_MS
from twin.rules.election.predictions import MAX_PREDICTIONS, Predictions
from twin.step import step

CYCLE_MS = 5_000
HELD = Partition()  # on brokers 1, 2, 3, all in sync, led by 1
NOBODY = -1


def led(by: int, *isr: int, since: Partition = HELD, **more: Any) -> Partition:
    """The partition one election later."""
    return replace(since, leader=by, isr=isr, epoch=since.epoch + 1, **more)


def cycle(
    state: ShardState, part: Partition, fenced: tuple[int, ...] = (), at_ms: int = 0,
    silent: tuple[int, ...] = (),
) -> tuple[ShardState, list[str]]:  # fmt: skip
    """The state after the next whole cycle, and the texts of judged predictions."""
    at_ms = at_ms or state.observed_at_ms + CYCLE_MS
    frames = [
        brokers_frame((1, 2, 3, 4, 5), at_ms, fenced=fenced, silent=silent),
        partitions_frame([part], at_ms),
        replicas_frame([replace(part, silent=fenced)], at_ms),
    ]
    state, changes = step(state, frames, at_ms)
    return state, [change.text for change in changes if change.kind == "prediction_judged"]


def last(state: ShardState) -> dict[str, Any]:
    """The newest judged change, as plain data."""
    table = state[Predictions]
    row = int(table.at_ms.argmax())
    return {c.name: plain.column_values(c, getattr(table, c.name))[row] for c in table.columns}


def verdict(
    before: Partition, after: Partition, fenced: tuple[int, ...] = (), **more: Any
) -> tuple[str, str, str]:
    """Cause, result and what overtook the prediction of one change."""
    state, _ = cycle(a_state(before, **more), after, fenced)
    judged = last(state)
    return judged["cause"], judged["result"], judged["overtaken_by"]


def counted(state: ShardState) -> dict[tuple[str, ...], int]:
    """The counters that are not zero."""
    return {labels: n for labels, n in computed(state, "kafka_twin_predictions_total").items() if n}


# ---------------------------------------------------------------- losses


def test_a_lost_leader_is_replaced_as_predicted():
    state, texts = cycle(a_state(HELD), led(2, 2, 3), fenced=(1,))
    assert last(state) | {"local_bytes": 0} == {
        "row": 0,
        "at_ms": NOW_MS + CYCLE_MS,
        "predicted_at_ms": NOW_MS,
        "cause": "loss",
        "result": "right",
        "overtaken_by": "nothing",
        "leader_epoch": 2,
        "old_leader": 1,
        "new_leader": 2,
        "predicted_leader": 2,
        "predicted_outcome": "clean",
        "predicted_coverage": "not_judged",
        "warm_was_passed_over": None,
        "local_records": 100,
        "local_bytes": 0,
    }
    assert texts == ["t-0: leader 1 was lost; broker 2 leads, broker 2 was predicted"]
    assert counted(state) == {("loss", "right"): 1}


def test_a_partition_that_goes_offline_is_predicted_too():
    alone = replace(HELD, replicas=(1,), isr=(1,))
    assert verdict(alone, led(NOBODY, 1, since=alone), fenced=(1,)) == ("loss", "right", "nothing")


def test_another_leader_than_predicted_is_wrong_where_nothing_explains_it():
    state, texts = cycle(a_state(HELD), led(3, 2, 3), fenced=(1,))
    assert (last(state)["result"], last(state)["predicted_leader"]) == ("wrong", 2)
    assert texts == [
        "t-0: leader 1 was lost; broker 3 leads, broker 2 was predicted: the prediction was wrong"
    ]
    assert "prediction_wrong" in conditions(state)


def test_a_successor_that_came_back_from_a_crash_may_have_registered_after_the_election():
    """Without a quorum no broker is fenced: the list has 2 as it was before its crash."""
    after = led(3, 2, 3)
    assert verdict(HELD, after, fenced=(1,), silent=(2,)) == ("loss", "overtaken", "broker")
    assert verdict(HELD, after, fenced=(1,), silent=(3,)) == ("loss", "wrong", "nothing")


@pytest.mark.parametrize(("missed", "result"), [(1, "wrong"), (3, "overtaken")])
def test_a_successor_that_was_late_once_has_not_crashed(missed: int, result: str):
    state = a_state(HELD)
    for _ in range(missed):
        state, _ = cycle(state, HELD, silent=(2,))
    state, _ = cycle(state, led(3, 2, 3), fenced=(1,))
    assert last(state)["result"] == result


def test_a_successor_that_came_back_and_leads_was_predicted():
    assert verdict(HELD, led(2, 2, 3), fenced=(1,), silent=(2,)) == ("loss", "right", "nothing")


def test_a_wrong_prediction_is_a_risk_for_an_hour():
    state, _ = cycle(a_state(HELD), led(3, 2, 3), fenced=(1,))
    wrong_ms = state.observed_at_ms
    for after_ms, holds in ((WRONG_SHOWN_MS, True), (WRONG_SHOWN_MS + 1, False)):
        later, _ = cycle(state, led(3, 2, 3), (1,), wrong_ms + after_ms)
        assert ("prediction_wrong" in conditions(later)) is holds
        assert counted(later) == {("loss", "wrong"): 1}


@pytest.mark.parametrize(
    ("before", "after", "fenced", "why"),
    [
        (HELD, led(3, 3), (1, 2), "broker"),
        (HELD, led(3, 3), (1,), "isr"),  # 2 had left the ISR before 1 was lost
        (replace(HELD, isr=(1, 3)), led(2, 2, 3, since=replace(HELD, isr=(1, 3))), (1,), "isr"),
        (HELD, led(NOBODY, 3), (1, 2, 3), "broker"),
    ],
    ids=["two lost", "successor out of sync", "another joined", "all lost"],
)
def test_what_changed_after_the_last_observation_overtakes_a_prediction(
    before: Partition, after: Partition, fenced: tuple[int, ...], why: str
):
    assert verdict(before, after, fenced) == ("loss", "overtaken", why)


def test_the_event_says_what_overtook_the_prediction():
    _, texts = cycle(a_state(HELD), led(3, 3), fenced=(1, 2))
    assert texts == [
        "t-0: leader 1 was lost; broker 3 leads, broker 2 was predicted: "
        "another broker was lost or came back after the last observation"
    ]


def test_several_elections_between_two_observations_overtake_a_prediction():
    after = replace(led(3, 1, 2, 3), epoch=HELD.epoch + 3)
    assert verdict(HELD, after) == ("loss", "overtaken", "elections")


def test_a_broker_that_was_restarted_between_two_observations_was_lost():
    assert verdict(HELD, led(2, 1, 2, 3)) == ("loss", "right", "nothing")


# ---------------------------------------------------------------- other causes


def test_a_preferred_election_is_predicted_by_its_own_rule():
    away = replace(HELD, leader=3, isr=(1, 2, 3))
    assert verdict(away, led(1, 1, 2, 3, since=away)) == ("balance", "right", "nothing")


def test_a_preferred_replica_that_joined_since_overtakes_the_prediction():
    away = replace(HELD, leader=3, isr=(2, 3))
    assert verdict(away, led(1, 1, 2, 3, since=away)) == ("balance", "overtaken", "isr")


def test_a_new_order_of_replicas_overtakes_the_prediction():
    reordered = replace(led(2, 1, 2, 3), replicas=(2, 1, 3))
    assert verdict(HELD, reordered) == ("balance", "overtaken", "assignment")


def test_the_end_of_a_reassignment_is_predicted_while_it_is_in_progress():
    moving = replace(
        HELD, replicas=(4, 2, 3, 1), leader=1, isr=(1, 2, 3), adding=(4,), removing=(1,)
    )
    moved = replace(moving, replicas=(4, 2, 3), adding=(), removing=())
    assert verdict(moving, led(4, 4, 2, 3, since=moved)) == ("reassignment", "right", "nothing")


def test_a_replica_that_was_not_assigned_before_is_unforeseen():
    moved = replace(led(4, 4, 2, 3), replicas=(4, 2, 3))
    assert verdict(HELD, moved) == ("reassignment", "unforeseen", "nothing")


def test_a_partition_that_moved_to_other_brokers_altogether_is_in_the_record():
    held = replace(HELD, replicas=(1, 2), isr=(1, 2))
    moved = replace(led(5, 4, 5, since=held), replicas=(5, 4))
    assert verdict(held, moved) == ("reassignment", "unforeseen", "nothing")


OFFLINE = replace(HELD, leader=NOBODY, isr=(2, 3))


def test_a_replica_that_returns_to_a_partition_without_leader_leads_as_predicted():
    before = a_state(OFFLINE, fenced=(1, 2, 3))
    state, _ = cycle(before, led(3, 3, since=OFFLINE), fenced=(1, 2))
    assert (last(state)["cause"], last(state)["result"]) == ("return", "right")


def test_a_list_that_has_the_new_leader_fenced_still_is_older_than_its_election():
    alone = replace(HELD, replicas=(1,), leader=NOBODY, isr=(1,))
    before = a_state(alone, fenced=(1,))
    state, _ = cycle(before, led(1, 1, since=alone), fenced=(1,))
    assert (last(state)["cause"], last(state)["result"]) == ("return", "right")


def test_of_two_that_returned_the_first_may_lead():
    before = a_state(OFFLINE, fenced=(1, 2, 3))
    state, _ = cycle(before, led(3, 2, 3, since=OFFLINE), fenced=(1,))
    judged = last(state)
    assert (judged["result"], judged["overtaken_by"]) == ("overtaken", "broker")


ELIGIBLE = replace(HELD, leader=NOBODY, isr=(), elr=(3,), last_known=(1,))
"""Kafka 4.4, seen in a soak: all brokers had crashed, and 1, which led last, was back already."""


def test_the_last_known_leader_leads_if_the_eligible_one_returns_from_a_crash():
    before = a_state(ELIGIBLE, fenced=(2, 3))
    state, _ = cycle(before, led(1, 1, since=ELIGIBLE, elr=(), last_known=()), fenced=(2,))
    judged = last(state)
    assert (judged["cause"], judged["predicted_leader"]) == ("return", 3)
    assert (judged["result"], judged["overtaken_by"]) == ("overtaken", "broker")


def test_the_last_known_leader_does_not_lead_while_the_eligible_one_is_away():
    before = a_state(ELIGIBLE, fenced=(2, 3))
    state, _ = cycle(before, led(1, 1, since=ELIGIBLE, elr=(), last_known=()), fenced=(2, 3))
    assert last(state)["result"] == "wrong"


def test_an_unclean_election_that_the_configuration_forbids_was_held_by_somebody():
    offline = replace(HELD, leader=NOBODY, isr=(1,))
    before = a_state(offline, fenced=(1,), topics={"t": {"unclean_leader_election": 0}})
    state, texts = cycle(before, led(2, 2, since=offline), fenced=(1,))
    assert (last(state)["cause"], last(state)["result"]) == ("operator", "right")
    assert texts == [
        "t-0: somebody held an unclean election; broker 2 leads, broker 2 was predicted"
    ]


# ---------------------------------------------------------------- what is counted


def test_partitions_that_come_or_are_recreated_have_no_prediction():
    state, texts = cycle(a_state(Partition("u")), HELD)
    assert not texts
    state, texts = cycle(state, replace(HELD, leader=2, topic_id=b"new", epoch=0))
    assert not texts
    assert not counted(state)


def test_frames_of_a_cycle_that_are_repeated_count_once():
    state, _ = cycle(a_state(HELD), led(2, 2, 3), fenced=(1,))
    again, texts = cycle(state, led(2, 2, 3), (1,), state.observed_at_ms)
    assert not texts
    assert counted(again) == {("loss", "right"): 1}


def test_counters_and_changes_survive_a_restart():
    state, _ = cycle(a_state(HELD), led(2, 2, 3), fenced=(1,))
    restarted = codec.decode(codec.encode(state), CATALOG).state
    after, _ = cycle(restarted, led(3, 3, since=led(2, 2, 3)), fenced=(1, 2))
    assert counted(after) == {("loss", "right"): 2}
    assert len(after[Predictions]) == 2


def test_a_change_right_after_a_restart_is_compared_with_the_forecast_before_it():
    restarted = codec.decode(codec.encode(a_state(HELD)), CATALOG).state
    state, _ = cycle(restarted, led(3, 2, 3), fenced=(1,))
    assert counted(state) == {("loss", "wrong"): 1}


def test_a_cold_replica_elected_while_a_warm_one_was_in_sync_is_counted():
    hour_ms = 3_600_000
    logs = {2: Log(local_start=90, started_ms=NOW_MS)}
    topics = {"t": {"eligible_local_log_ms": hour_ms // 2}}
    state = a_state(replace(HELD, logs=logs), topics=topics)
    state, _ = cycle(state, led(2, 2, 3, logs=logs), fenced=(1,))
    judged = last(state)
    predicted = judged["predicted_outcome"], judged["predicted_coverage"]
    assert predicted == ("clean", "cold")
    assert judged["warm_was_passed_over"]
    assert judged["local_records"] == 10
    assert computed(state, "kafka_twin_cold_elections_total") == 1


def test_a_shard_keeps_the_newest_changes_one_by_one():
    state, _ = cycle(a_state(HELD), led(2, 2, 3), fenced=(1,))
    full = state[Predictions].pick(np.zeros(MAX_PREDICTIONS, int))
    state, _ = cycle(state.with_tables(full), led(3, 3, since=led(2, 2, 3)), fenced=(1, 2))
    at_ms = state[Predictions].at_ms
    assert len(at_ms) == MAX_PREDICTIONS
    assert (at_ms == state.observed_at_ms).sum() == 1
