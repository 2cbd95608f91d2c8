"""A broker that was scaled away: registered and fenced, without a replica."""

from __future__ import annotations

import pytest

from streaming.questions.gate.restart import judge
from streaming.questions.gate.roll import plan_roll
from tests.builders import NOW_MS, Partition, a_state
from tests.streaming.test_roll import a_view
from tests.twin.test_gate import quorum
from tests.twin.test_silent_brokers import each_after
from twin.builtin import CATALOG
from twin.engine.cluster_risks import ClusterRisks
from twin.questions import gate
from twin.questions.gate import Reason, Terms

HERE = Partition("a", replicas=(1, 2, 3))
ALSO_HERE = Partition("b", replicas=(4, 5, 3))
"""All but broker 6."""


def test_it_holds_up_no_restart():
    view = a_view(HERE, ALSO_HERE, fenced=(6,), silent=(6,))
    answer = judge(view, (1,), Terms(), NOW_MS)
    assert (answer.verdict, answer.reasons) == ("safe", [])


def test_every_broker_is_in_sync_though_it_is_not_there():
    view = a_view(HERE, ALSO_HERE, fenced=(6,), silent=(6,))
    assert judge(view, (), Terms(), NOW_MS).lines() == ["every broker is in sync"]


def test_a_roll_is_planned_without_it():
    plan = plan_roll(a_view(HERE, ALSO_HERE, fenced=(6,), silent=(6,)), (), Terms(), NOW_MS)
    assert plan.verdict == "safe"
    assert [batch.brokers for batch in plan.batches] == [[2], [3], [4], [5], [1]]
    racks = plan_roll(
        a_view(HERE, ALSO_HERE, fenced=(6,), silent=(6,)), (), Terms(), NOW_MS, by_rack=True
    )
    assert {b for batch in racks.batches for b in batch.brokers} == {1, 2, 3, 4, 5}


def test_one_that_holds_a_replica_in_any_shard_holds_up_restarts():
    shards = [a_state(part, brokers=(1, 2, 3, 4, 5), fenced=(5,)) for part in (HERE, ALSO_HERE)]
    shards = [state.with_tables(quorum(0, 0, 0)) for state in shards]
    assert gate.reasons(shards, [1], Terms())[Reason.BROKER_OUT] == ["broker 5"]
    assert gate.reasons(shards[:1], [1], Terms()) == {}


@pytest.mark.parametrize("shards", [1, 4])
def test_nobody_is_paged_for_it_and_it_is_said_once_after_ten_minutes(shards: int):
    told = {"ids": (1, 2, 3, 4), "fenced": (4,), "silent": (4,)}
    states = each_after(615, shards, **told)
    assert all(state[ClusterRisks].brokers("broker_silent") == [] for state in states)
    opened = [state[ClusterRisks].brokers("broker_left_over") for state in states]
    assert opened[-1] == [4]
    assert opened[100] == []


def test_a_fenced_broker_with_replicas_is_silent_and_not_left_over():
    *_, late = each_after(615, fenced=(3,), silent=(3,))
    assert late[ClusterRisks].brokers("broker_silent") == [3]
    assert late[ClusterRisks].brokers("broker_left_over") == []


def test_a_broker_that_is_new_and_serves_is_not_left_over():
    *_, late = each_after(615, ids=(1, 2, 3, 4))
    assert late[ClusterRisks].brokers("broker_left_over") == []


def test_the_alert_has_the_command_that_ends_it():
    [risk] = [each for each in CATALOG.all_risks if each.name == "broker_left_over"]
    assert "kafka-cluster.sh unregister --bootstrap-server" in risk.alert.description
    assert risk.severity == "info"
