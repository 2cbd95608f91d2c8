"""The questions of ``kafka-twin whatif`` over HTTP: the same answers, and what cannot be asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from tests.asking import answered
from tests.builders import NOW_MS, Log, Partition, a_state
from tests.exporter.test_exporter import a_client, with_events
from twin.builtin import CATALOG

MIB = 1 << 20
STATE = a_state(
    Partition("orders", log=Log(local_start=50)),
    Partition("audit", replicas=(1,), log=Log(local_start=1, size_bytes=10)),
    Partition("late", isr=(1,)),
    topics={"orders": {"remote_storage": 1}},
)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return a_client(with_events(STATE))


def asked(client: TestClient, question: str, **parameters: object) -> dict[str, Any]:
    response = client.get(f"/api/v1/whatif/{question}", params=parameters)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert answer.pop("observed_at_ms") == NOW_MS
    assert answer.pop("stale") is None
    return answer


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """The data after a way through JSON."""
    copy: dict[str, Any] = json.loads(json.dumps(data))
    return copy


def test_lost_brokers_and_racks_may_be_repeated(client: TestClient):
    answer = asked(client, "lose", broker=[1, 2], rack=["az-c"])
    assert answer == plain(answered("lose", STATE, broker=[1, 2], rack=["az-c"]).data)
    assert answer["brokers"] == [1, 2, 3]


def test_a_limit_keeps_the_worst_and_counts_all(client: TestClient):
    whole = asked(client, "lose", broker=1)
    worst = asked(client, "lose", broker=1, limit=1)
    assert [whole[name] for name in ("total", "offline")] == [3, 2]
    assert [worst[name] for name in ("total", "offline")] == [3, 2]
    assert len(worst["partitions"]) == 1
    assert worst["partitions"][0] in whole["partitions"][:2]
    by_kafka = [p["next_leaders"]["kafka"]["outcome"] for p in whole["partitions"]]
    assert by_kafka == ["none", "none", "clean"]


def test_thresholds_are_durations_and_sizes(client: TestClient):
    answer = asked(client, "threshold", ms="10m", bytes="1MiB", grid="true")
    assert answer == plain(answered("threshold", STATE, ms=600_000, bytes=MIB, grid=True).data)
    one = asked(client, "threshold", ms="10m", topic="orders")
    assert one == plain(answered("threshold", STATE, ms=600_000, topic="orders").data)


def test_an_empty_broker_copies_at_a_rate(client: TestClient):
    assert asked(client, "bootstrap", broker=2) == plain(
        answered("bootstrap", STATE, broker=2, rate=50 * MIB).data
    )
    new = asked(client, "bootstrap", broker=9, new="true", rate="10MiB")
    assert new == plain(answered("bootstrap", STATE, broker=9, rate=10 * MIB, new=True).data)


def test_another_retention(client: TestClient):
    answer = asked(client, "retention", local_ms="1h")
    assert answer == plain(answered("retention", STATE, local_ms=3_600_000).data)


@pytest.mark.parametrize(
    ("question", "parameters", "status", "why"),
    [
        ("lose", {}, 400, "at least one is needed of: broker, rack"),
        ("lose", {"broker": 9}, 404, "there is no broker 9; brokers are 1, 2, 3, 4, 5"),
        ("lose", {"rack": "x"}, 404,
         "no broker is in rack 'x'; racks are ['az-a', 'az-b', 'az-c']"),
        ("lose", {"broker": 1, "grid": "true"}, 400, "grid: there is no such parameter"),
        ("lose", {"broker": 1, "limit": 1_001}, 400, "limit: at most 1000"),
        ("threshold", {}, 400, "at least one is needed of: ms, bytes"),
        ("threshold", {"ms": "10q"}, 400,
         "ms: '10q' is no duration; write 10m, 90s, 2h or milliseconds"),
        ("threshold", {"ms": "0"}, 400, "ms: it must be positive"),
        ("threshold", {"ms": ["1m", "2m"]}, 400, "ms: it is given twice"),
        ("threshold", {"ms": "1m", "topic": "rain"}, 404, "there is no topic rain"),
        ("bootstrap", {}, 400,
         "broker: it is missing: the broker whose disk is empty"),
        ("bootstrap", {"broker": 1, "rate": "0"}, 400, "rate: it must be positive"),
        ("bootstrap", {"broker": [1, 2]}, 400, "broker: it is given twice"),
        ("bootstrap", {"broker": 1, "new": "true"}, 409,
         "broker 1 is there already, so it is not new"),
        ("retention", {}, 400, "at least one is needed of: local_ms, local_bytes"),
        ("retention", {"local_bytes": "5MB"}, 400,
         "local_bytes: '5MB' is no size; write 100MiB, 2GiB or bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_one_line(
    client: TestClient, question: str, parameters: dict[str, Any], status: int, why: str
):
    response = client.get(f"/api/v1/whatif/{question}", params=parameters)
    assert (response.status_code, response.json()) == (status, {"error": why})


def test_an_incomplete_picture_answers_nothing():
    incomplete = a_client(SnapshotStore(CATALOG, "c", 1))
    response = incomplete.get("/api/v1/whatif/lose", params={"broker": 1})
    assert response.status_code == 503
    assert response.json() == {"error": "no snapshot has been read yet"}
