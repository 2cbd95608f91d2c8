"""The judges of a soak: what they object to, and what they let pass."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.soak.controller_log import Change, parse
from tests.soak.judge import (
    AHEAD_MS,
    BEHIND_MS,
    Agreement,
    Decides,
    Note,
    NoteResult,
    Span,
    compare_all,
    compare_leaders,
    judge_note,
    own_record,
)
from tests.soak.record import Prediction

KEY = ("t", 0)
SPAN = Span(0, 1_000_000)
EVERY_2_S = range(2_000, 100_000, 2_000)


def moves(*leaders_at: tuple[int, int], first: int = 1) -> list[Change]:
    """Changes of the leader, each (at_ms, new leader)."""
    changes, old = [], first
    for offset, (at_ms, new) in enumerate(leaders_at):
        changes.append(Change(KEY, at_ms, offset, old, new, ("leader",)))
        old = new
    return changes


def record(at_ms: int, old: int, new: int, **other: Any) -> Prediction:
    values = {"cause": "loss", "result": "right", "overtaken_by": "", "predicted_leader": new}
    return Prediction(*KEY, at_ms=at_ms, old_leader=old, new_leader=new, **(values | other))


def compared(changes: list[Change], *records: Prediction) -> Agreement:
    return compare_leaders(1, changes, records, EVERY_2_S, SPAN)


# The record against Kafka's log


def test_a_change_in_both_agrees() -> None:
    result = compared(moves((5_500, 2)), record(6_000, 1, 2))
    assert (result.kafka, result.twin, result.paired) == (1, 1, 1)
    assert not result.disagreements
    assert not result.superseded_ms


def test_a_change_that_the_record_has_not_is_missing_once_however_long_it_lasts() -> None:
    [disagreement] = compared(moves((5_500, 2))).disagreements
    assert disagreement.kind == "missing"
    assert (disagreement.twin, disagreement.kafka) == (1, (2,))
    # The first observation at which no broker can still answer with the old leader.
    assert disagreement.at_ms == 12_000


def test_a_change_that_kafka_has_not_is_invented() -> None:
    [disagreement] = compared([], record(6_000, 1, 2)).disagreements
    assert disagreement.kind == "invented"
    assert (disagreement.twin, disagreement.kafka) == (2, (1,))


def test_a_change_to_another_leader_than_kafkas_disagrees() -> None:
    result = compared(moves((5_500, 2)), record(6_000, 1, 3))
    assert [d.kind for d in result.disagreements] == ["invented"]
    assert result.paired == 0


def test_a_record_after_the_last_observation_is_invented() -> None:
    late = record(EVERY_2_S[-1] + 1, 1, 2)
    assert [d.kind for d in compared(moves((5_500, 2)), late).disagreements][-1] == "invented"


def test_a_leader_superseded_before_an_observation_need_not_be_in_the_record() -> None:
    result = compared(moves((5_100, 2), (5_900, 3)), record(6_000, 1, 3))
    assert not result.disagreements
    assert (result.kafka, result.paired) == (2, 1)
    assert result.superseded_ms == [800]


def test_a_change_undone_before_an_observation_need_not_be_in_the_record() -> None:
    result = compared(moves((5_100, 2), (5_900, 1), (50_000, 3)), record(50_001, 1, 3))
    assert not result.disagreements
    assert (result.kafka, result.paired) == (3, 1)
    assert result.superseded_ms == [800], "the leader that came back was observed"


def test_a_leader_that_was_there_and_back_for_several_observations_must_be_in_the_record() -> None:
    result = compared(moves((5_500, 2), (25_500, 1)))
    assert [d.kind for d in result.disagreements] == ["missing"]
    assert not result.superseded_ms


def test_a_record_whose_old_leader_is_not_the_one_before_lacks_a_record() -> None:
    changes = moves((5_500, 2), (6_500, 3))
    [disagreement] = compared(changes, record(8_000, 2, 3)).disagreements
    assert disagreement.kind == "missing"
    assert (disagreement.twin, disagreement.kafka) == (1, (2,))


def test_a_missing_change_is_not_counted_again_with_the_next_record() -> None:
    changes = moves((5_500, 2), (50_500, 3))
    [disagreement] = compared(changes, record(52_000, 2, 3)).disagreements
    assert disagreement.at_ms == 12_000


@pytest.mark.parametrize(
    ("changed_at_ms", "agrees"),
    [
        (8_000 - BEHIND_MS + 1, True),
        (8_000 - BEHIND_MS, False),  # every broker's metadata is newer
        (8_000 + AHEAD_MS, True),
        (8_000 + AHEAD_MS + 1, True),  # not seen yet, and cannot have been
    ],
)
def test_an_observation_may_be_as_old_as_a_brokers_metadata(
    changed_at_ms: int, agrees: bool
) -> None:
    result = compare_leaders(1, moves((changed_at_ms, 2)), [], [8_000], Span(0, 9_000))
    assert (not result.disagreements) == agrees


def test_an_observation_may_be_as_new_as_its_deadline() -> None:
    for after_ms, agrees in ((AHEAD_MS, True), (AHEAD_MS + 1, False)):
        changes = moves((6_000 + after_ms, 2))
        result = compare_leaders(1, changes, [record(6_000, 1, 2)], [6_000], SPAN)
        assert (not result.disagreements) == agrees


def test_what_is_outside_the_span_is_not_judged() -> None:
    changes = moves((5_500, 2), (50_500, 3))
    result = compare_leaders(
        1, changes, [record(6_000, 1, 2), record(51_000, 2, 3)], EVERY_2_S, Span(10_000, 40_000)
    )
    assert (result.kafka, result.twin) == (0, 0)
    assert not result.disagreements


def test_partitions_that_no_log_names_are_an_objection() -> None:
    comparison = compare_all({}, {}, [record(6_000, 1, 2)], {}, SPAN)
    assert "1 partition of the record is in no log" in comparison.objections
    assert "Kafka's log has no leader change" in comparison.objections


def test_a_log_and_a_record_that_agree_are_no_objection() -> None:
    comparison = compare_all(
        {KEY: 1}, {KEY: moves((5_500, 2))}, [record(6_000, 1, 2)], {KEY: EVERY_2_S}, SPAN
    )
    assert not comparison.objections


# The record alone


def test_a_wrong_prediction_is_an_objection() -> None:
    wrong = record(2, 2, 1, result="wrong", predicted_leader=3)
    assert own_record([record(1, 1, 2), wrong]).objections == ["1 predictions are wrong"]


def test_a_record_without_a_right_prediction_is_an_objection() -> None:
    assert own_record([]).objections == ["no leader change was predicted right"]


@pytest.mark.parametrize(("result", "predicted"), [("right", 3), ("overtaken", 2)])
def test_a_result_that_its_leaders_contradict_is_an_objection(result: str, predicted: int) -> None:
    miscalled = record(1, 1, 2, result=result, overtaken_by="isr", predicted_leader=predicted)
    rows = [miscalled, *(record(n, 1, 2) for n in range(99))]
    assert own_record(rows).objections == ["1 have a result that their leaders contradict"]


def unsure(count: int, right: int, result: str, by: str = "isr") -> list[str]:
    """Objections to a record with that many overtaken or unforeseen changes."""
    rows = [
        record(n, 1, 2, result=result, overtaken_by=by, predicted_leader=3) for n in range(count)
    ]
    return own_record([*rows, *(record(n, 1, 2) for n in range(right))]).objections


@pytest.mark.parametrize("result", ["overtaken", "unforeseen"])
def test_more_than_five_percent_overtaken_or_unforeseen_are_an_objection(result: str) -> None:
    assert not unsure(5, 95, result)
    assert unsure(6, 94, result) == [f"6 of 100 are {result}, with one broker away at most"]


def test_more_may_be_overtaken_while_several_brokers_are_away() -> None:
    rows = [
        *(record(n, 1, 2) for n in range(1, 100)),
        *(
            record(n, 1, 2, result="overtaken", overtaken_by="broker", predicted_leader=3)
            for n in range(101, 130)
        ),
    ]
    assert own_record(rows).objections
    assert not own_record(rows, [Span(100, 130)]).objections
    assert own_record(rows, [Span(100, 115)]).objections


@pytest.mark.parametrize("by", ["", "nothing"])
def test_an_overtaken_prediction_must_name_by_what(by: str) -> None:
    assert unsure(1, 99, "overtaken", by) == ["1 are overtaken by nothing that is named"]


# Predictions noted before a fault


def noted(predicted: int, *changes: Change, to_ms: int = 100_000) -> NoteResult:
    return judge_note(Note("killed", {KEY: 1_000}, {KEY: predicted}, to_ms), {KEY: changes})


def test_a_noted_prediction_is_about_the_first_leader_that_follows() -> None:
    changes = moves((500, 3), (9_000, 2), (20_000, 1))
    assert noted(2, *changes).right == 1
    [text] = noted(1, *changes).wrong
    assert text == "killed: t-0 went from 3 to 2 at 9000, predicted 1"


def test_a_noted_prediction_is_overtaken_if_the_isr_changed_before() -> None:
    shrunk = Change(KEY, 5_000, 0, 1, 1, ("isr", "leaderEpoch"))
    result = noted(2, shrunk, *moves((9_000, 3)))
    assert not result.wrong
    assert result.overtaken == [
        "killed: t-0 went from 1 to 3 at 9000, predicted 2; isr changed before"
    ]


def test_the_last_leader_decides_where_several_brokers_were_lost() -> None:
    changes = moves((9_000, 2), (20_000, 3))
    note = Note("two", {KEY: 1_000}, {KEY: 3}, 30_000, Decides.LAST)
    assert judge_note(note, {KEY: changes}).right == 1
    assert judge_note(replace(note, predicted={KEY: 2}), {KEY: changes}).wrong


def test_a_change_that_no_election_depends_on_overtakes_nothing() -> None:
    epoch = Change(KEY, 5_000, 0, 1, 1, ("leader", "partitionEpoch"))
    assert noted(2, epoch, *moves((9_000, 3))).wrong


def test_a_partition_that_does_not_move_while_the_brokers_are_away_is_not_judged() -> None:
    assert noted(2, *moves((9_000, 3)), to_ms=8_999).unmoved == 1


def test_noted_predictions_of_which_none_came_true_are_an_objection() -> None:
    assert NoteResult().objections == ["none came true"]
    assert NoteResult(right=9, wrong=["one"]).objections == ["1 are wrong"]
    assert not NoteResult(right=9, overtaken=["one"]).objections


# The controllers' log


def line(offset: int, kind: str, **data: Any) -> str:
    if kind.startswith("Partition"):
        data = {"partitionId": 0, "topicId": "id"} | data
    return json.dumps({"offset": offset, "at_ms": 10 * offset, "type": kind, "data": data})


def test_changes_of_a_partition_say_which_fields_have_another_value() -> None:
    log = parse(
        [
            line(1, "TopicRecord", name="t", topicId="id"),
            line(2, "PartitionRecord", leader=1, isr=[1, 2], replicas=[1, 2], removingReplicas=[]),
            line(3, "PartitionChangeRecord", isr=[2], leader=2, eligibleLeaderReplicas=[1]),
            line(4, "PartitionChangeRecord", isr=[2], leader=2, directories=["d"]),
            line(5, "FenceBrokerRecord", id=1),
        ]
    )
    assert log.first_leader == {KEY: 1}
    first, second = log.changes[KEY]
    assert (first.old_leader, first.new_leader, first.moves_leader) == (1, 2, True)
    assert first.fields == ("eligibleLeaderReplicas", "isr", "leader")
    assert (second.moves_leader, second.fields) == (False, ())
    assert log.end_offset == 6
