"""Plans over all shards: what is printed, and the files for Kafka's tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streaming.bus import record
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.plans import files, journal
from streaming.plans.demote import plan_demote
from streaming.plans.order import plan_order
from streaming.plans.plan import Origin, PlanError, PlannedChange
from streaming.questions.answer import WhatIfError
from tests.builders import NOW_MS, Log, Partition, a_state
from twin.builtin import CATALOG
from twin.engine import codec

COLD = {2: Log(local_start=1, size_bytes=10)}


def view(*parts: Partition, **configs: int) -> ClusterView:
    store = SnapshotStore(CATALOG, "c", 1)
    store.take_snapshot(record.key("c", 0), codec.encode(a_state(*parts, **configs)))
    return store.publish()


def cold_successor() -> ClusterView:
    return view(
        Partition("t", 0, logs=COLD),
        Partition("t", 1),
        Partition("t", 2, logs=COLD, leader=3, replicas=(2, 1, 3)),
        eligible_local_log_bytes=100,
    )


def test_a_plan_says_what_it_changes_and_what_it_cannot():
    plan = plan_order(cold_successor(), NOW_MS)
    assert [str(change) for change in plan.changes] == ["t-0"]
    assert plan.rows == (("t-0", "1", "1, 2, 3", "1, 3, 2", "2, cold", "3, warm", "-"),)
    assert list(plan.lines) == [
        "1 of 3 partitions gets another order of the same replicas; no data moves.",
        "If their leaders were lost, 1 of them would be led by a cold replica now, and 0 with "
        "this plan.",
        "Unchanged: 1 partition with a cold preferred replica (only --preferred changes that): "
        "t-2.",
        "With --preferred, a warm replica becomes their slot 0, and leader balancing then gives 1 "
        "of them to another leader.",
    ]


def test_with_slot_0_it_says_what_leader_balancing_does_then():
    plan = plan_order(cold_successor(), NOW_MS, preferred=True)
    assert plan.undone == {}
    assert plan.rows[1][-1] == "1"
    assert any(line.startswith("Leader balancing") and "1 of them" in line for line in plan.lines)


def test_without_a_threshold_that_is_said():
    plan = plan_order(view(Partition(logs=COLD)), NOW_MS)
    assert plan.changes == ()
    assert plan.lines[-1].startswith("1 partition has no threshold of KIP-1303")


@pytest.mark.parametrize("preferred", [True, False])
def test_nothing_is_planned_from_an_old_snapshot(preferred: bool):
    with pytest.raises(PlanError, match="nothing is planned: the newest observation is 100 s old"):
        plan_order(cold_successor(), NOW_MS + 100_000, preferred=preferred)
    with pytest.raises(PlanError, match="nothing is planned"):
        plan_demote(ClusterView(shards_expected=1), NOW_MS, 1)


def test_a_broker_that_does_not_exist_is_not_demoted():
    with pytest.raises(WhatIfError, match="there is no broker 9; brokers are 1, 2, 3, 4, 5"):
        plan_demote(view(Partition()), NOW_MS, 9)


def test_a_demotion_says_who_leads_how_much_then():
    plan = plan_demote(view(Partition("t", 0), Partition("t", 1, leader=2)), NOW_MS, 1)
    assert plan.rows == (
        ("t-0", "1", "1, 2, 3", "3, 2, 1", "3"),
        ("t-1", "2", "1, 2, 3", "2, 3, 1", "2"),
    )
    assert (
        "Leaders by broker, now and then: 1: 1 → 0, 2: 1 → 1, 3: 0 → 1, 4: 0 → 0, "
        in (plan.lines[3])
    )


def test_files_are_those_of_kafkas_tools_and_restore_what_was(tmp_path: Path):
    plan = plan_demote(view(Partition("t", 0)), NOW_MS, 1)
    lines = files.write(plan, tmp_path / "out", Origin("c", "id"))
    assert [line.split()[0] for line in lines] == [
        "kafka-reassign-partitions.sh",
        "kafka-leader-election.sh",
        "kafka-twin",
    ]
    [new] = json.loads((tmp_path / "out" / files.REASSIGNMENT).read_text())["partitions"]
    [old] = json.loads((tmp_path / "out" / files.RESTORE).read_text())["partitions"]
    assert new == {"topic": "t", "partition": 0, "replicas": [2, 3, 1]}
    assert (old["topic"], old["partition"], old["replicas"]) == ("t", 0, [1, 2, 3])
    elected = json.loads((tmp_path / "out" / files.ELECTION).read_text())
    assert elected == {"partitions": [{"topic": "t", "partition": 0}]}
    origin, changed = journal.read(tmp_path / "out" / files.RESTORE)
    assert (origin, changed) == (Origin("c", "id"), {("t", 0): plan.changes[0]})


def test_a_plan_that_elects_nobody_has_no_file_for_it(tmp_path: Path):
    files.write(plan_order(cold_successor(), NOW_MS), tmp_path, Origin("c", "id"))
    assert not (tmp_path / files.ELECTION).exists()


def test_a_folder_with_a_plan_is_not_written_over(tmp_path: Path):
    plan = plan_order(cold_successor(), NOW_MS)
    files.write(plan, tmp_path, Origin("c", "id"))
    with pytest.raises(PlanError, match="holds a plan already"):
        files.write(plan, tmp_path, Origin("c", "id"))


def test_a_change_is_the_same_after_its_file():
    change = PlannedChange("t", "id", 3, (1, 2), (2, 1), 1, 7, 2)
    assert files.change_from(json.loads(json.dumps(files.as_json(change)))) == change


def test_the_command_that_restores_names_the_cluster_if_there_are_several(tmp_path: Path):
    plan = plan_order(cold_successor(), NOW_MS)
    for name, of_several in (("one", False), ("several", True)):
        *_, restore = files.write(plan, tmp_path / name, Origin("c", "id"), of_several=of_several)
        named = " --cluster c" if of_several else ""
        assert restore == f"kafka-twin plan restore {tmp_path / name / files.RESTORE}{named}"
