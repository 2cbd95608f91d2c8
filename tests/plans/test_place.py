"""Replicas that move so that a loss harms fewer partitions; and reassignments that are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streaming.bus.view import ClusterView
from streaming.plans import files
from streaming.plans.judge import judge
from streaming.plans.place import plan_place
from streaming.plans.plan import Origin, PlanError
from streaming.plans.proposed import read_proposal
from tests.builders import NOW_MS, Log, Partition
from tests.plans.test_files import view

# Brokers 1 and 4 are in one rack, 2 and 5 in another, 3 in the third.
SAME_RACK = (Partition("t", 0, replicas=(1, 4)), Partition("t", 1, replicas=(2, 5)))


def judged(of: ClusterView, proposed: dict[tuple[str, int], tuple[int, ...]]):
    return judge(of, NOW_MS, proposed)


def test_two_replicas_change_places_and_the_plan_says_what_that_is_good_for():
    plan = plan_place(view(*SAME_RACK), NOW_MS)
    assert [(str(c), c.replicas, c.planned) for c in plan.changes] == [
        ("t-0", (1, 4), (1, 5)),
        ("t-1", (2, 5), (2, 4)),
    ]
    assert plan.rows == (
        ("t-0", "1", "1, 4", "1, 5", "offline", "takes writes", "1000 B"),
        ("t-1", "2", "2, 5", "2, 4", "offline", "takes writes", "1000 B"),
    )
    assert list(plan.lines) == [
        "2 partitions are harmed more by the loss of a rack than 3 racks require.",
        "1 step; in each two replicas change places, so that brokers hold as many as before. "
        "Kafka's tools move them; kafka-twin does not.",
        "The loss of one broker, with all replicas in sync: 0 under min ISR, 0 of them offline; "
        "with this plan 0 and 0.",
        "The loss of one rack, with all replicas in sync: 2 under min ISR, 2 of them offline; with "
        "this plan 0 and 0.",
        "The loss of a rack and one broker, with all replicas in sync: 2 under min ISR, 2 of them "
        "offline; with this plan 2 and 2.",
        "The loss of the worst pair of brokers, with all replicas in sync: 1 under min ISR, 1 of "
        "them offline; with this plan 1 and 1.",
        "2 replicas are copied, 1.953 KiB in all.",
        "Nobody knows whether it fits on brokers 4, 5: disks of unknown size, or not listed "
        "lately.",
    ]


def test_the_files_are_for_kafkas_tool_both_ways_and_nothing_of_ours_moves_data(tmp_path: Path):
    plan = plan_place(view(*SAME_RACK), NOW_MS)
    commands = files.write(plan, tmp_path, Origin("c", "id"))
    assert all(each.startswith("kafka-reassign-partitions.sh") for each in commands)
    assert all(each.endswith("--execute --throttle BYTES_PER_S") for each in commands)
    planned = json.loads((tmp_path / "reassignment.json").read_text())
    assert [each["replicas"] for each in planned["partitions"]] == [[1, 5], [2, 4]]
    before = json.loads((tmp_path / "restore.json").read_text())
    assert [each["replicas"] for each in before["partitions"]] == [[1, 4], [2, 5]]
    assert not (tmp_path / "election.json").exists()


def test_partitions_that_may_not_move_are_named_with_the_reason():
    parts = (
        Partition("t", 0, replicas=(1, 4), isr=(1,)),
        Partition("t", 1, replicas=(2, 5), adding=(5,)),
        Partition("t", 2, replicas=(4, 1)),
    )
    plan = plan_place(view(*parts), NOW_MS)
    assert plan.undone == {
        "being reassigned": ["t-1"],
        "with a replica that is not in sync or does not answer (it has to catch up first)": ["t-0"],
    }
    assert [str(change) for change in plan.changes] == ["t-2"]
    assert plan.lines[0].startswith("3 partitions are harmed more by the loss of a rack")
    assert plan.lines[1].startswith("1 step; in 0 of them two replicas change places")


def test_no_replica_goes_to_a_broker_that_does_not_answer_or_is_fenced():
    part = Partition("t", 0, replicas=(1, 4))
    for away in ({"silent": (2, 3)}, {"fenced": (2, 3)}):
        [change] = plan_place(view(part, **away), NOW_MS).changes  # type: ignore[arg-type]
        assert change.planned == (1, 5)
    assert plan_place(view(part, silent=(2, 3, 5)), NOW_MS).changes == ()  # type: ignore[arg-type]


def test_without_racks_that_is_said_and_pairs_are_compared():
    plan = plan_place(view(*SAME_RACK, has_racks=False), NOW_MS)
    assert plan.lines == (
        "No broker has a rack (broker.rack), so only pairs of brokers are compared.",
        "No replica has to move, or none may.",
    )


def test_the_first_steps_say_what_is_left():
    parts = [Partition("t", n, replicas=(1, 4)) for n in range(4)]
    plan = plan_place(view(*parts), NOW_MS, most=1)
    assert len(plan.changes) == 1
    assert plan.lines[-3] == (
        "These are the first 1 steps; 3 partitions are still harmed more by the loss of a rack "
        "than required."
    )


def test_sizes_that_are_not_known_are_in_no_sum():
    logs = {1: Log(size_bytes=-1), 4: Log(size_bytes=-1)}
    plan = plan_place(view(Partition("t", 0, replicas=(1, 4), logs=logs), SAME_RACK[1]), NOW_MS)
    assert [row[-1] for row in plan.rows] == ["unknown", "1000 B"]
    assert plan.lines[-2] == "2 replicas are copied, 1000 B in all and 1 of unknown size."


def test_a_proposal_is_judged_by_what_losses_would_do_then():
    answer = judged(view(*SAME_RACK), {("t", 0): (1, 5), ("t", 1): (2, 4)})
    assert answer.data["better"] == ["one rack"]
    assert (answer.data["worse"], answer.data["copied_replicas"]) == ([], 2)
    assert answer.lines[0] == "The proposal is better: one rack."
    assert answer.rows[1] == ("one rack", 2, 2, 0, 0)
    back = judged(
        view(Partition("t", 0, replicas=(1, 5)), Partition("t", 1, replicas=(2, 4))),
        {("t", 0): (1, 4), ("t", 1): (2, 5)},
    )
    assert (back.data["better"], back.data["worse"]) == ([], ["one rack"])


def test_a_proposal_with_fewer_replicas_is_worse_and_says_so():
    answer = judged(view(Partition("t", 0), min_insync_replicas=2), {("t", 0): (1,)})
    assert answer.data["fewer_replicas"] == 1
    assert "one broker" in answer.data["worse"]
    assert "1 partition gets fewer replicas." in answer.lines
    more = judged(view(Partition("t", 0, replicas=(1,))), {("t", 0): (1, 2, 3)})
    assert "one broker" in more.data["better"]
    assert more.data["copied_replicas"] == 2


def test_another_order_of_the_same_replicas_changes_nothing():
    answer = judged(view(Partition("t", 0)), {("t", 0): (3, 1, 2)})
    assert answer.lines[0] == "The proposal is neither better nor worse."
    assert answer.data["copied_replicas"] == 0


@pytest.mark.parametrize(
    ("proposed", "says"),
    [
        ({("t", 0): (1, 9)}, "names brokers that the twin has not seen: 9; it knows 1, 2, 3, 4, 5"),
        ({("u", 7): (1, 2)}, "names 1 partition that the twin does not know: u-7"),
    ],
)
def test_what_the_twin_does_not_know_is_not_judged(proposed, says):
    with pytest.raises(PlanError, match=says):
        judged(view(Partition("t", 0)), proposed)


KAFKA = {
    "version": 1,
    "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 5], "log_dirs": ["any", "any"]}],
}
CRUISE_CONTROL = {
    "summary": {"numReplicaMovements": 1},
    "proposals": [{"topicPartition": {"hash": 0, "topic": "t", "partition": 0}, "oldLeader": 1,
                   "oldReplicas": [1, 4], "newReplicas": [1, 5]}],
    "version": 1,
}  # fmt: skip


@pytest.mark.parametrize("value", [KAFKA, CRUISE_CONTROL], ids=["kafka", "cruise-control"])
def test_both_formats_are_read(value, tmp_path: Path):
    path = tmp_path / "proposal.json"
    path.write_text(json.dumps(value))
    assert read_proposal(path) == {("t", 0): (1, 5)}


def part(**other: object) -> dict[str, object]:
    return {"topic": "t", "partition": 0, "replicas": [1, 2], **other}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a reassignment: Input data was truncated"),
        ("{}", "has neither partitions .* nor proposals"),
        ("[" * 100_000, "is not a reassignment"),
        (json.dumps({"partitions": [part(), part()]}), "names t-0 twice"),
        (json.dumps({"partitions": [part(replicas=[1, 1])]}), r"a replica of t-0 twice: \[1, 1\]"),
        (
            json.dumps({"partitions": [part(replicas=[])]}),
            r"length >= 1.*partitions\[0\]\.replicas",
        ),
        (json.dumps({"partitions": [part(replicas=["1"])]}), r"Expected `int`, got `str`"),
        (json.dumps({"partitions": [part(partition=-1)]}), r"`int` >= 0"),
        (json.dumps({"partitions": [part(partition=2**40)]}), r"`int` <= 2147483647"),
        (json.dumps({"partitions": [{"topic": "t"}]}), r"missing required field `partition`"),
    ],
)
def test_what_is_no_reassignment_is_refused_in_one_line(text, says, tmp_path: Path):
    path = tmp_path / "proposal.json"
    path.write_text(text)
    with pytest.raises(PlanError, match=says) as error:
        read_proposal(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_too_large_is_said(tmp_path: Path):
    path = tmp_path / "proposal.json"
    with pytest.raises(PlanError, match="No such file"):
        read_proposal(path)
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(PlanError, match="more than 268435456 are not read"):
        read_proposal(path)
