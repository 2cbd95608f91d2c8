"""Who may ask the exporter what: by a token, or by the word of a proxy."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from streaming.runtime.config import AccessConfig
from tests.exporter.agents.asking import an_application, an_exporter, called
from tests.exporter.test_exporter import a_busy_store

LOOKS, PLANS, TOOLS = "/api/v1/summary", "/api/v1/plans/order", "/mcp"
PATHS = ("/", "/metrics", LOOKS, "/api/v1/openapi.json", "/console/console.js", "/nothing")


Shown = dict[str, str] | Sequence[tuple[str, str]]


@cache
def store() -> SnapshotStore:
    return a_busy_store()


def asked(
    access: AccessConfig, path: str, headers: Shown = (), peer: str = "192.0.2.7", **config: Any
) -> httpx2.Response:
    client = TestClient(an_application(store(), access, **config), client=(peer, 40_000))
    return client.get(path, headers=headers or None, follow_redirects=False)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(token: str, user: str = "anybody") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


def user(name: str) -> dict[str, str]:
    return {"X-Forwarded-User": name}


ONE = AccessConfig(token="looks")
TWO = AccessConfig(token="looks", operator_token="plans")
PROXY = AccessConfig(proxies="192.0.2.0/28, 2001:db8::1")
NAMED = AccessConfig(proxies="192.0.2.7", operators="alice, bob")


def test_without_a_token_and_a_proxy_everybody_may_ask_everything():
    for path in (*PATHS[:-1], PLANS):
        assert asked(AccessConfig(), path).status_code == 200
    assert asked(AccessConfig(), PLANS, user("mallory")).status_code == 200


@pytest.mark.parametrize("path", [*PATHS, PLANS, TOOLS])
@pytest.mark.parametrize("access", [ONE, TWO, PROXY])
def test_who_shows_nothing_gets_nothing(access: AccessConfig, path: str):
    answer = asked(access, path)
    assert answer.status_code == 401
    assert answer.json() == {"error": "who asks is not known: send the token of access.token"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    asks_for = [v for k, v in answer.headers.multi_items() if k == "www-authenticate"]
    expected = ['Basic realm="kafka-twin", charset="UTF-8"', 'Bearer realm="kafka-twin"']
    assert asks_for == ([] if access is PROXY else expected)


@pytest.mark.parametrize("access", [ONE, TWO, PROXY])
@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready", "/healthz"])
def test_a_probe_needs_nothing(access: AccessConfig, path: str):
    assert asked(access, path).status_code == 200
    assert asked(access, f"{path}/").status_code == 401


@pytest.mark.parametrize("path", PATHS[:-1])
@pytest.mark.parametrize("shown", [bearer("looks"), basic("looks"), basic("looks", "")])
def test_a_token_opens_what_is_to_be_looked_at(shown: dict[str, str], path: str):
    assert asked(ONE, path, shown).status_code == 200
    assert asked(TWO, path, shown).status_code == 200


@pytest.mark.parametrize(
    "shown",
    [bearer(""), bearer("look"), bearer("looks2"), basic("plan"), {"Authorization": "looks"},
     {"Authorization": "Basic looks"}, {"Authorization": "Basic /w=="}, {"Authorization": ""},
     user("alice")],
)  # fmt: skip
def test_anything_else_does_not(shown: dict[str, str]):
    assert asked(TWO, LOOKS, shown).status_code == 401


def test_plans_are_for_operators_once_there_are_some():
    assert asked(ONE, PLANS, bearer("looks")).status_code == 200
    answer = asked(TWO, PLANS, bearer("looks"))
    assert answer.status_code == 403
    assert answer.json()["error"].startswith("plans are for operators: ")
    assert asked(TWO, "/api/v1/plans/roll", bearer("looks")).status_code == 200
    for shown in (bearer("plans"), basic("plans")):
        assert asked(TWO, PLANS, shown).status_code == 200
        assert asked(TWO, LOOKS, shown).status_code == 200


@pytest.mark.parametrize(
    ("peer", "status"),
    [("192.0.2.7", 200), ("::ffff:192.0.2.7", 200), ("2001:db8::1", 200), ("192.0.2.16", 401),
     ("127.0.0.1", 401), ("2001:db8::2", 401), ("testclient", 401)],
)  # fmt: skip
def test_a_proxy_is_believed_at_its_address_alone(peer: str, status: int):
    assert asked(PROXY, LOOKS, user("alice"), peer).status_code == status
    forged = user("alice") | {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7"}
    assert asked(PROXY, LOOKS, forged, peer).status_code == status


def test_users_who_are_named_fetch_plans_and_others_look():
    assert asked(PROXY, PLANS, user("carol")).status_code == 200
    assert asked(NAMED, LOOKS, user("carol")).status_code == 200
    assert asked(NAMED, PLANS, user("carol")).status_code == 403
    assert asked(NAMED, PLANS, user("bob")).status_code == 200


@pytest.mark.parametrize(
    "shown",
    [[], [("X-Forwarded-User", "")], [("X-Forwarded-User", "carol"), ("X-Forwarded-User", "bob")]],
)
def test_a_proxy_that_names_nobody_or_two_says_nothing(shown: list[tuple[str, str]]):
    assert asked(NAMED, LOOKS, shown).status_code == 401


def test_agents_need_their_own_token_or_that_of_an_operator():
    with an_exporter(store(), TWO) as url:
        answer = httpx2.post(f"{url}/mcp", headers=bearer("looks"), json={}, trust_env=False)
        assert answer.status_code == 403
        assert "or an operator's token" in answer.json()["error"]
        [result] = called(url, ("plan_order", {}), token="plans")
        assert not result.is_error
    with an_exporter(store(), TWO, mcp_token="agents") as url:
        [result] = called(url, ("in_sync", {}), token="agents")
        assert not result.is_error
        answer = httpx2.post(f"{url}/mcp", headers=bearer("plans"), json={}, trust_env=False)
        assert answer.status_code == 401
