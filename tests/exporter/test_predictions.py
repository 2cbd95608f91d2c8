"""The track record in the JSON API: newest first, a page at a time, by cause and result."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.builders import NOW_MS, Partition, a_state
from tests.exporter.test_exporter import a_client, with_events

CYCLE_MS = 5_000
HELD = (Partition("a"), Partition("b"))
FAILED_OVER = (
    Partition("a", leader=2, isr=(2, 3), epoch=2),
    Partition("b", leader=3, isr=(2, 3), epoch=2),
)
BALANCED = (Partition("a", epoch=3), FAILED_OVER[1])


@pytest.fixture(scope="module")
def client() -> TestClient:
    """Broker 1 is lost: a as predicted, b not; then a is led by its preferred replica again."""
    state = a_state(*HELD)
    state = a_state(*FAILED_OVER, at_ms=NOW_MS + CYCLE_MS, fenced=(1,), since=state)
    state = a_state(*BALANCED, at_ms=NOW_MS + 2 * CYCLE_MS, since=state)
    return a_client(with_events(state))


def asked(client: TestClient, **parameters: object) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/api/v1/predictions", params=parameters).json()
    return answer


def test_changes_are_listed_newest_first_with_prediction_and_deed(client: TestClient):
    answer = asked(client)
    assert answer["total"] == 3
    changes = [
        (p["topic"], p["cause"], p["result"], p["predicted_leader"], p["new_leader"])
        for p in answer["predictions"]
    ]
    assert changes[0] == ("a", "balance", "overtaken", 2, 1)
    assert sorted(changes[1:]) == [("a", "loss", "right", 2, 2), ("b", "loss", "wrong", 2, 3)]


@pytest.mark.parametrize(
    ("parameters", "topics"),
    [
        ({"result": "wrong"}, ["b"]),
        ({"cause": "balance"}, ["a"]),
        ({"topic": "a", "partition": 0}, ["a", "a"]),
        ({"topic": "a", "partition": 1}, []),
        ({"limit": 1}, ["a"]),
        ({"offset": 3}, []),
    ],
)
def test_parameters_narrow_the_answer(
    client: TestClient, parameters: dict[str, object], topics: list[str]
):
    assert [each["topic"] for each in asked(client, **parameters)["predictions"]] == topics


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"result": "good"}, "result: 'good' is none of right, wrong, overtaken, unforeseen"),
        ({"limit": 1_001}, "limit: at most 1000"),
        ({"partition": "x"}, "partition: 'x' is not a number"),
        ({"broker": 1}, "broker: there is no such parameter"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    client: TestClient, parameters: dict[str, object], why: str
):
    answer = client.get("/api/v1/predictions", params=parameters)
    assert (answer.status_code, answer.json()) == (400, {"error": why})


def test_the_summary_has_the_counters(client: TestClient):
    counts = client.get("/api/v1/summary").json()["predictions"]
    assert counts["loss"] == {"right": 1, "wrong": 1, "overtaken": 0, "unforeseen": 0}
    assert counts["balance"]["overtaken"] == 1
