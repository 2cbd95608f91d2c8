"""The gate over HTTP: verdict, reasons, terms; and what cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from streaming.questions.gate.restart import ALLOWABLE, judge
from tests.builders import NOW_MS, Group, Log, Partition, a_state, group_offsets_frame, groups_frame
from tests.exporter.test_exporter import a_client, a_store, with_events
from tests.twin.test_gate import quorum
from twin.engine.shard_state import ShardState
from twin.questions.gate import Reason, Terms
from twin.step import step

HEALTHY = (Partition("a"), Partition("b"))


def client_of(*parts: Partition, **more: Any) -> TestClient:
    state: ShardState = a_state(*parts, brokers=(1, 2, 3), **more)
    return a_client(with_events(state.with_tables(quorum(0, 0, 0))))


def asked(client: TestClient, broker: int = 1, **parameters: object) -> dict[str, Any]:
    response = client.get(f"/api/v1/brokers/{broker}/restart", params=parameters)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_broker_that_all_can_do_without_is_safe_to_restart():
    answer = asked(client_of(*HEALTHY))
    assert answer == {
        "brokers": [1], "verdict": "safe", "once_allowed": "safe", "stale": None,
        "reasons": [], "allowed": [],
        "leaders": 2, "groups": [], "groups_hurt": 0, "groups_remote_bytes": 0,
        "observed_at_ms": NOW_MS,
        "costs": {
            rule: {
                "leaders_moved": 2, "offline": 0, "under_min_isr": 0, "at_min_isr": 0,
                "cold_leaders": 0, "remote_bytes": 0, "remote_bytes_unknown": 0,
            }
            for rule in ("kafka", "kip1303", "kip501")
        },
    }  # fmt: skip


def test_an_unsafe_restart_names_reason_and_partitions():
    answer = asked(client_of(Partition("a", isr=(1,)), Partition("b")))
    by_name = {each["reason"]: each for each in answer["reasons"]}
    assert answer["verdict"] == "unsafe"
    assert by_name["offline"]["names"] == ["a-0"]
    assert by_name["offline"]["meaning"] == "partitions would have no leader"
    assert by_name["broker_not_in_sync"]["count"] == 2


def test_a_silent_broker_makes_it_unknown():
    assert asked(client_of(*HEALTHY, silent=(2,)))["verdict"] == "unknown"


def test_what_is_certain_wins_over_what_is_unknown():
    assert asked(client_of(Partition(isr=(1,)), silent=(2,)))["verdict"] == "unsafe"


def test_a_stale_twin_knows_nothing():
    answer = asked(client_of(*HEALTHY, at_ms=NOW_MS - 600_000))
    assert answer["verdict"] == "unknown"
    assert answer["stale"].startswith("the newest observation is")


def test_what_no_restart_can_avoid_blocks_until_it_is_allowed():
    client = client_of(Partition(replicas=(1,)))
    assert asked(client)["verdict"] == "unsafe"
    answer = asked(client, allow_rf1="true")
    assert (answer["verdict"], answer["allowed"][0]["reason"]) == ("safe", "one_replica")


def test_a_margin_is_a_term():
    client = client_of(Partition(replicas=(1, 2, 3)), min_insync_replicas=1)
    assert asked(client, margin=1)["verdict"] == "safe"
    assert asked(client_of(Partition(isr=(1, 2))), margin=1)["verdict"] == "unsafe"


def test_an_observation_from_before_the_time_asked_for_is_no_answer():
    first = a_state(*HEALTHY, brokers=(1, 2, 3), at_ms=NOW_MS - 5_000)
    client = client_of(*HEALTHY, since=first)
    # The cycle before the newest began at the earlier time: the newest is all later than that.
    assert asked(client, since=(NOW_MS - 5_000) // 1_000)["verdict"] == "safe"
    later = asked(client, since=NOW_MS // 1_000)
    assert (later["verdict"], later["stale"]) == (
        "unknown",
        "the twin has not observed the whole cluster since that time yet",
    )


def test_the_cost_is_said_with_the_verdict():
    client = client_of(Partition(replicas=(1, 2)), min_insync_replicas=2)
    cost = asked(client, allow_rf_min_isr="true")["costs"]["kafka"]
    assert (cost["leaders_moved"], cost["under_min_isr"]) == (1, 1)


@pytest.mark.parametrize(
    ("broker", "parameters", "status", "why"),
    [
        (9, {}, 404, "there is no broker 9; brokers are 1, 2, 3"),
        (1, {"since": "noon"}, 400, "since: 'noon' is not a number"),
        (1, {"margin": "x"}, 400, "margin: 'x' is not a number"),
        (1, {"allow_rain": "true"}, 400, "allow_rain: there is no such parameter"),
        (1, {"allow_rf1": "1"}, 400, "allow_rf1: '1' is neither true nor false"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    broker: int, parameters: dict[str, str], status: int, why: str
):
    response = client_of(*HEALTHY).get(f"/api/v1/brokers/{broker}/restart", params=parameters)
    assert (response.status_code, response.json()) == (status, {"error": why})


def test_every_option_of_the_command_is_a_parameter():
    client = client_of(*HEALTHY)
    assert asked(client, **{f"allow_{name}": "true" for name in ALLOWABLE})["verdict"] == "safe"


def test_what_a_restart_costs_consumers_is_said_and_is_no_reason_against_it():
    part = Partition(log=Log(size_bytes=1_000), logs={2: Log(local_start=90)})
    state = a_state(part, topics={"t": {"remote_storage": 1}})
    read = [Group("g", [(part, 50)])]
    state = step(state, [groups_frame(read), group_offsets_frame(read)], NOW_MS)[0]
    answer = judge(a_store(state).view, [1], Terms(), NOW_MS)
    assert Reason.COLD not in [Reason(given["meaning"]) for given in answer.reasons]
    (group,) = answer.data()["groups"]
    assert (group["group"], group["remote_records"], group["remote_bytes"]) == ("g", 40, 400)
    assert "  1 group of consumers is hurt; it reads 400 B more from remote storage." in (
        answer.lines()
    )


def test_what_no_restart_can_avoid_is_said_apart():
    answer = asked(client_of(*HEALTHY, Partition("one", replicas=(1,))))
    assert (answer["verdict"], answer["once_allowed"]) == ("unsafe", "safe")
    assert answer["reasons"][0]["remedy"].startswith("--allow-rf1, or for good")
    worse = asked(client_of(Partition("a", isr=(1,)), Partition("one", replicas=(1,))))
    assert (worse["verdict"], worse["once_allowed"]) == ("unsafe", "unsafe")
