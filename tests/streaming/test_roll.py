"""The answers to ``plan roll`` and ``gate in-sync``, from a view of snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streaming.bus import record
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.questions.gate.restart import NoSuchBrokerError, judge
from streaming.questions.gate.roll import plan_roll
from tests.builders import NOW_MS, Group, Log, Partition, a_state, group_offsets_frame, groups_frame
from tests.twin.test_gate import quorum
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.frames import Frame
from twin.questions.gate import Reason, Terms
from twin.step import step

ACROSS = (Partition("a", replicas=(1, 2, 3)), Partition("b", replicas=(4, 5, 6)))


def a_view(
    *parts: Partition, controllers: int = 3, frames: Sequence[Frame] = (), **more: Any
) -> ClusterView:
    state = a_state(*(parts or ACROSS), brokers=(1, 2, 3, 4, 5, 6), **more)
    state, _ = step(state, frames, NOW_MS)
    store = SnapshotStore(CATALOG, "c", 1)
    state = state.with_tables(quorum(*[0] * controllers))
    assert store.take_snapshot(record.key("c", 0), codec.encode(state))
    return store.publish()


def test_a_plan_lists_every_broker_that_the_twin_knows():
    answer = plan_roll(a_view(), (), Terms(), NOW_MS)
    assert answer.verdict == "safe"
    assert [batch["brokers"] for batch in answer.data()["batches"]] == [
        [2],
        [3],
        [4],
        [5],
        [6],
        [1],
    ]
    assert answer.lines()[0] == (
        "1. broker 2 in rack az-b: 0 partitions get another leader, 0 are at min ISR"
    )


def test_a_plan_by_racks_says_the_rack():
    answer = plan_roll(a_view(), (), Terms(), NOW_MS, by_rack=True)
    assert [(b["rack"], b["brokers"]) for b in answer.data()["batches"]] == [
        ("az-b", [2, 5]),
        ("az-c", [3, 6]),
        ("az-a", [4, 1]),
    ]
    assert [
        b["brokers"]
        for b in plan_roll(a_view(), (), Terms(), NOW_MS, by_rack=True, most=1).data()["batches"]
    ][-1] == [1]


def test_a_broker_that_may_not_go_is_said_with_the_reason():
    answer = plan_roll(a_view(*ACROSS, fenced=(5,)), (), Terms(), NOW_MS)
    assert answer.verdict == "unsafe"
    assert [b["brokers"] for b in answer.data()["batches"]] == [[5]]
    assert [(each["broker"], each["verdict"]) for each in answer.data()["left_out"]] == [
        (b, "unsafe") for b in (1, 2, 3, 4, 6)
    ]
    assert "not now: broker 1, unsafe to restart" in answer.lines()
    assert "  other brokers are out: broker 5" in answer.lines()


def test_it_is_unknown_what_to_do_while_a_broker_is_silent():
    answer = plan_roll(a_view(*ACROSS, silent=(2,)), (), Terms(), NOW_MS)
    assert (answer.verdict, answer.batches) == ("unknown", [])


@pytest.mark.parametrize(("now_ms", "since_ms"), [(NOW_MS + 600_000, UNKNOWN), (NOW_MS, NOW_MS)])
def test_a_stale_twin_plans_nothing(now_ms: int, since_ms: int):
    answer = plan_roll(a_view(), (), Terms(), now_ms, since_ms=since_ms)
    assert (answer.verdict, answer.batches, answer.left_out) == ("unknown", [], [])
    assert answer.lines()[0].startswith("no plan: the ")


def test_no_snapshot_is_no_plan():
    answer = plan_roll(ClusterView(shards_expected=1), (3,), Terms(), NOW_MS)
    assert (answer.verdict, answer.data()["batches"]) == ("unknown", [])


def test_a_broker_that_does_not_exist_is_refused():
    with pytest.raises(NoSuchBrokerError, match=r"there is no broker 9; brokers are 1, 2"):
        plan_roll(a_view(), (1, 9), Terms(), NOW_MS)


def test_the_cost_of_a_cold_leader_is_said_in_bytes():
    part = Partition("t", replicas=(1, 2, 3), logs={2: Log(local_start=1, size_bytes=10)})
    view = a_view(part, topics={"t": {"remote_storage": 1}}, eligible_local_log_bytes=100)
    terms = Terms(allowed=frozenset({Reason.COLD}))
    [line, by_kip1303, allowed] = plan_roll(view, (1,), terms, NOW_MS).lines()
    assert by_kip1303 == "  by KIP-1303: 1 partition gets another leader, 0 are at min ISR"
    assert line == (
        "1. broker 1 in rack az-a: 1 partition gets another leader, 1 of them a cold one "
        "(consumers of old records read 990 B from remote storage), 0 are at min ISR"
    )
    assert allowed == ("  allowed: partitions would be led by a cold replica, and are not now: t-0")


def test_the_batch_that_the_gate_is_asked_for_is_the_one_of_the_plan():
    batch = plan_roll(a_view(), (), Terms(), NOW_MS, by_rack=True).batches[0].brokers
    answer = judge(a_view(), batch, Terms(), NOW_MS)
    assert (answer.verdict, answer.lines()[0]) == ("safe", "brokers 2, 5: safe to restart")


def test_plan_and_gate_name_the_group_below_the_start_of_the_next_leaders_log():
    short = Log(start=90_000, local_start=90_000, end=100_000)
    part = Partition("t", logs={2: short}, log=Log(end=100_000))
    groups = [Group("g", [(part, 5)])]
    view = a_view(part, frames=[groups_frame(groups), group_offsets_frame(groups)])
    for answer in (judge(view, (1,), Terms(), NOW_MS), plan_roll(view, (1,), Terms(), NOW_MS)):
        assert "    g: below the start of 1 log, 0 records (0 B) of 0 partitions" in answer.lines()
    [batch] = plan_roll(view, (1,), Terms(), NOW_MS).data()["batches"]
    assert (batch["groups_hurt"], batch["groups"][0]["nowhere"]) == (1, 1)


# ---------------------------------------------------------------- all in sync


def test_all_are_in_sync():
    answer = judge(a_view(), (), Terms(), NOW_MS)
    assert (answer.verdict, answer.lines()) == ("safe", ["every broker is in sync"])


def test_a_replica_out_of_sync_is_not_in_sync_whoever_holds_it():
    answer = judge(a_view(Partition(isr=(1, 3))), (), Terms(), NOW_MS)
    assert answer.lines() == [
        "not every broker is in sync",
        "  other brokers are not in every ISR of their replicas: broker 2 (1 partition)",
    ]


def test_partitions_that_no_restart_can_spare_are_in_sync():
    assert judge(a_view(Partition(replicas=(1,))), (), Terms(), NOW_MS).verdict == "safe"


def test_a_broker_that_is_out_is_not_in_sync():
    assert judge(a_view(*ACROSS, fenced=(4,)), (), Terms(), NOW_MS).verdict == "unsafe"
