"""Each cluster of an exporter of several is served below a path of its own."""

from __future__ import annotations

from starlette.testclient import TestClient

from streaming.exporter.web_application import application
from tests.exporter.fleet.views import a_fleet, a_source

ORDERS, PAYMENTS = a_source("orders", labels={"env": "prod"}), a_source("payments", seed=2)


def test_each_cluster_is_served_below_its_path():
    fleet = a_fleet(ORDERS, PAYMENTS)
    for source in (ORDERS, PAYMENTS):
        below = fleet.get(f"/clusters/{source.cluster}/api/v1/summary")
        alone = TestClient(application(source)).get("/api/v1/summary")
        assert below.status_code == 200
        assert below.json() == alone.json()


def test_one_cluster_is_served_at_the_root_and_below_its_path():
    client = TestClient(application(ORDERS))
    for path in ("/", "/api/v1/summary", "/console/console.js", "/api/v1/none"):
        at_root, below = client.get(path), client.get(f"/clusters/orders{path}")
        assert (at_root.status_code, len(at_root.content)) == (
            below.status_code, len(below.content.replace(b"/clusters/orders", b"")),
        )  # fmt: skip


def test_the_path_without_a_slash_leads_to_the_console_however_a_proxy_calls_the_root():
    answer = a_fleet(ORDERS, PAYMENTS).get("/clusters/orders", follow_redirects=False)
    assert answer.headers["location"] == "orders/"


def test_a_cluster_that_is_not_there_is_refused_in_one_line_with_those_that_are():
    answer = a_fleet(ORDERS, PAYMENTS).get("/clusters/none/api/v1/summary")
    assert answer.status_code == 404
    assert answer.json() == {"error": "there is no cluster none; there is orders, payments"}


def test_the_fleet_has_a_row_of_each():
    rows = a_fleet(ORDERS, PAYMENTS).get("/api/v1/fleet").json()
    assert rows["labels"] == {"env": ["prod"]}
    assert {each["cluster"]: each["up"] for each in rows["clusters"]} == {
        "orders": True, "payments": True,
    }  # fmt: skip
