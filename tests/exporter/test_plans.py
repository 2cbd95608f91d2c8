"""Plans over HTTP: the same as ``kafka-twin plan`` makes, and nothing that changes the cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.plans.demote import plan_demote
from streaming.plans.order import plan_order
from streaming.plans.place import plan_place
from streaming.plans.plan_data import plan_data
from streaming.questions.gate.roll import plan_roll
from tests.builders import NOW_MS, Log, Partition, a_state
from tests.exporter.test_exporter import a_client, a_store
from tests.twin.test_gate import quorum
from twin.questions.gate import Reason, Terms

COLD = Log(local_start=95, size_bytes=5)
PARTS = (
    *(Partition("orders", number, replicas=(1, 2, 3), logs={2: COLD}) for number in range(5)),
    Partition("audit", replicas=(1, 3, 2), logs={1: COLD}),
    Partition("alone", replicas=(4,)),
)
STATE = a_state(*PARTS, eligible_local_log_bytes=50, min_insync_replicas=1).with_tables(
    quorum(0, 0, 0)
)
STORE = a_store(STATE)
CLIENT = a_client(STORE)
SOON_MS = NOW_MS + 1_000
"""The clock of the client."""


def asked(path: str, **parameters: object) -> dict[str, Any]:
    answer = CLIENT.get(f"/api/v1/plans/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()
    return data


def test_the_order_is_that_of_the_command():
    answer = asked("order", limit=1_000)
    assert answer == json.loads(json.dumps(plan_data(plan_order(STORE.view, SOON_MS), 1_000)))
    assert answer["total"] == 5
    assert answer["changes"][0]["replicas"] == [1, 2, 3]
    assert answer["changes"][0]["planned"] == [1, 3, 2]
    assert answer["unchanged"][0]["names"] == ["audit-0"]
    assert "5 of 7 partitions get another order" in answer["lines"][0]
    assert len(answer["rows"]) == 5


def test_with_preferred_slot_0_moves_as_well():
    assert asked("order", preferred="true")["total"] == 6


def test_the_changes_of_an_answer_are_limited_and_all_are_counted():
    answer = asked("order", limit=2)
    assert (answer["total"], len(answer["changes"]), len(answer["rows"])) == (5, 2, 2)


def test_a_broker_is_demoted_as_by_the_command():
    answer = asked("demote", broker=1)
    assert answer == json.loads(json.dumps(plan_data(plan_demote(STORE.view, SOON_MS, 1), 100)))
    orders = [each["elect"] for each in answer["changes"] if each["topic"] == "orders"]
    assert orders == [3] * 5


def test_replicas_are_placed_as_by_the_command():
    data = plan_data(plan_place(STORE.view, SOON_MS, most=3), 100)
    assert asked("place", most=3) == json.loads(json.dumps(data))
    assert CLIENT.get("/api/v1/plans/place", params={"most": 1_001}).status_code == 400


def test_the_order_of_restarts_is_that_of_the_command():
    plan = plan_roll(STORE.view, (), Terms(), SOON_MS)
    answer = asked("roll")
    assert answer == json.loads(json.dumps(plan.data()))
    left_out = {each["broker"]: each["verdict"] for each in answer["left_out"]}
    assert left_out == {1: "unsafe", 4: "unsafe"}
    assert [each["brokers"] for each in answer["batches"]] == [[2], [3], [5]]


def test_restarts_are_asked_for_with_terms():
    terms = Terms(allowed=frozenset({Reason.ONE_REPLICA}))
    answer = asked("roll", broker=[4, 5], racks="true", most=1, allow_rf1="true")
    by_rack = plan_roll(STORE.view, (4, 5), terms, SOON_MS, by_rack=True, most=1)
    assert answer == json.loads(json.dumps(by_rack.data()))
    assert [each["brokers"] for each in answer["batches"]] == [[4], [5]]


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("demote", 400, "broker: it is missing"),
        ("demote?broker=9", 404, "there is no broker 9"),
        ("roll?broker=9", 404, "there is no broker 9"),
        ("roll?most=0", 400, "most: at least 1"),
        ("order?preferred=yes", 400, "'yes' is neither true nor false"),
        ("restore", 404, "there is nothing at"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(path: str, status: int, why: str):
    answer = CLIENT.get(f"/api/v1/plans/{path}")
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_nothing_is_planned_from_an_old_state():
    late = a_client(STORE, now_ms=NOW_MS + 120_000)
    for path in ("order", "demote?broker=1"):
        answer = late.get(f"/api/v1/plans/{path}")
        assert answer.status_code == 503
        assert answer.json()["error"].startswith("nothing is planned: the newest observation is")
    roll = late.get("/api/v1/plans/roll").json()
    assert (roll["verdict"], roll["batches"]) == ("unknown", [])
    assert "observation is 120 s old" in roll["stale"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_plans_cannot_be_applied_over_http(method: str):
    assert CLIENT.request(method, "/api/v1/plans/order").status_code == 405
