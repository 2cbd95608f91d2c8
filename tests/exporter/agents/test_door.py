"""Who may come in at /mcp, and what is counted and logged of it."""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any

import httpx2
import pytest

from streaming.bus.view import SnapshotStore
from streaming.runtime.config import ExporterConfig
from tests.documented import undocumented
from tests.exporter.agents.asking import an_exporter, called
from tests.exporter.test_exporter import a_busy_store


@cache
def store() -> SnapshotStore:
    return a_busy_store()


TOKEN = "s3cret-and-long"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def posted(url: str, body: dict[str, Any] = PING, **headers: str) -> httpx2.Response:
    given = {"Accept": "application/json, text/event-stream"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(f"{url}/mcp", json=body, headers=given, trust_env=False, timeout=200)


def scraped(url: str) -> str:
    return httpx2.get(f"{url}/metrics", trust_env=False, timeout=200).text


def test_on_loopback_it_is_open_and_beyond_it_is_not():
    with an_exporter(store()) as url:
        assert posted(url).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    with an_exporter(store(), host="0.0.0.0") as url:
        answer = posted(url)
    assert (answer.status_code, answer.json()) == (
        404,
        {
            "error": "MCP is off where the exporter listens beyond loopback: exporter.mcp = true "
            "and exporter.mcp_token open it"
        },
    )


def test_it_can_be_switched_off():
    with an_exporter(store(), mcp=False) as url:
        answer = posted(url)
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "MCP is off: exporter.mcp = true opens it",
    )


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer s3cret", f"Basic {TOKEN}", "Bearer ä"])
def test_without_the_token_nobody_comes_in(given):
    with an_exporter(store(), host="0.0.0.0", mcp=True, mcp_token=TOKEN) as url:
        headers = [("Authorization", given.encode())] if given else []
        request = httpx2.Request("POST", f"{url}/mcp", headers=headers, json=PING)
        with httpx2.Client(trust_env=False, timeout=200) as client:
            answer = client.send(request)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json() == {"error": "a bearer token is needed: that of exporter.mcp_token"}
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_with_the_token_an_agent_comes_in():
    with an_exporter(store(), host="0.0.0.0", mcp=True, mcp_token=TOKEN) as url:
        [result] = called(url, ("in_sync", {}), token=TOKEN)
    assert not result.is_error


def test_a_page_that_calls_itself_by_another_name_does_not_reach_a_server_on_loopback():
    with an_exporter(store()) as url:
        assert posted(url, Host="evil.example.org").status_code == 421
        assert posted(url, Origin="http://evil.example.org").status_code == 403


def test_names_of_the_server_are_a_setting():
    with an_exporter(store(), mcp_hosts="twin.example.org, other.example.org") as url:
        assert posted(url, Host="twin.example.org").status_code == 200
        assert posted(url, Host="other.example.org:9410").status_code == 200
        assert posted(url, Host="evil.example.org").status_code == 421
    beyond = {"host": "0.0.0.0", "mcp": True, "mcp_token": TOKEN}
    with an_exporter(store(), mcp_hosts="twin.example.org", **beyond) as url:
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert posted(url, Host="twin.example.org", **allowed).status_code == 200
        assert posted(url, **allowed).status_code == 421  # 127.0.0.1 is not among them


def test_there_is_nothing_but_post():
    with an_exporter(store()) as url, httpx2.Client(trust_env=False, timeout=200) as client:
        for method in ("GET", "DELETE", "PUT"):
            answer = client.request(method, f"{url}/mcp")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), method


def test_a_request_that_is_too_large_is_refused():
    with an_exporter(store()) as url:
        answer = posted(url, {**PING, "params": {"text": "x" * 64_000}})
    assert answer.status_code == 413


def test_calls_are_counted_by_tool_and_outcome():
    with an_exporter(store()) as url:
        called(url, ("in_sync", {}), ("in_sync", {}), ("partitions", {"limit": -1}), ("x" * 99, {}))
        text = scraped(url)
    counted = [line for line in text.splitlines() if line.startswith("kafka_twin_mcp_calls_total")]
    assert counted == [
        'kafka_twin_mcp_calls_total{cluster="c",tool="in_sync",outcome="answered"} 2',
        'kafka_twin_mcp_calls_total{cluster="c",tool="partitions",outcome="refused"} 1',
        'kafka_twin_mcp_calls_total{cluster="c",tool="unknown",outcome="refused"} 1',
    ]
    assert undocumented(text) == []


def test_a_call_is_logged_without_its_arguments(caplog, capsys):
    caplog.set_level(logging.INFO)
    with an_exporter(store()) as url:
        called(url, ("partitions", {"search": "a-secret"}))
    printed = caplog.text + "".join(capsys.readouterr())
    assert "partitions" in printed
    assert "answered" in printed
    assert "a-secret" not in printed


@pytest.mark.parametrize(
    ("host", "is_on_loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("twin.example.org", False)],
)  # fmt: skip
def test_what_loopback_is(host, is_on_loopback):
    assert ExporterConfig(host=host).is_on_loopback is is_on_loopback


def test_the_answer_to_a_wrong_request_is_json_rpcs():
    with an_exporter(store()) as url:
        answer = posted(url, {**PING, "method": "restart"})
    assert json.loads(answer.text)["error"]["code"] == -32_601
