"""Each cluster of an exporter of several is served below a path of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import schemathesis
from starlette.testclient import TestClient

from streaming.exporter.fleet.below import path_of
from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.web_application import application
from streaming.runtime.config import AccessConfig
from tests.exporter.fleet.views import a_fleet, a_source
from tests.exporter.test_openapi import strict
from twin.builtin import CATALOG

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
    answer = a_fleet(ORDERS, PAYMENTS).get("/clusters/", follow_redirects=False)
    assert answer.headers["location"] == "../"


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


def test_probes_name_each_cluster_that_is_not_fresh_and_each_that_stands_still():
    late = replace(PAYMENTS, now_ms=lambda: PAYMENTS.view.observed_at_ms + 600_000)
    fleet = a_fleet(ORDERS, PAYMENTS)
    assert fleet.get("/healthz").text == "ok\n"
    assert fleet.get("/-/ready").text == "ready; fresh\n"
    assert fleet.get("/-/healthy").text == "alive\n"
    fleet = a_fleet(ORDERS, late)
    answer = fleet.get("/healthz")
    assert answer.status_code == 503
    assert answer.text.startswith("payments: the newest observation is 600 s old")
    assert "orders" not in answer.text
    ready = fleet.get("/-/ready")
    assert (ready.status_code, ready.text[:26]) == (200, "ready; not fresh: payments")
    stuck = a_fleet(ORDERS, replace(PAYMENTS, stuck=lambda: "no snapshots were read for 121 s"))
    answer = stuck.get("/-/healthy")
    assert (answer.status_code, answer.text) == (
        503, "payments: no snapshots were read for 121 s\n",
    )  # fmt: skip


def test_an_error_is_said_to_whoever_may_see_it():
    """It may name topics and hosts."""
    error = "bus kafka-7:9092: Not authorized to access topics: secret"
    fleet = a_fleet(ORDERS, replace(PAYMENTS, broken=lambda: error))
    rows = fleet.get("/api/v1/fleet").json()["clusters"]
    assert error in next(row for row in rows if row["cluster"] == "payments")["why_not_up"]
    for path in ("/healthz", "/-/ready", "/clusters/payments/healthz"):
        assert "its snapshots cannot be read: the log says why" in fleet.get(path).text
        assert "secret" not in fleet.get(path).text


def test_prometheus_finds_a_target_for_each_cluster_with_its_labels():
    answer = a_fleet(ORDERS, PAYMENTS).get("/api/v1/http_sd", headers={"Host": "exporter:9410"})
    assert answer.json() == [
        {
            "targets": ["exporter:9410"],
            "labels": {
                "env": "prod", "__param_cluster": "orders",
                "instance": "exporter:9410/clusters/orders",
            },
        },
        {
            "targets": ["exporter:9410"],
            "labels": {
                "__param_cluster": "payments", "instance": "exporter:9410/clusters/payments",
            },
        },
    ]  # fmt: skip


def test_the_description_lists_the_paths_about_all_and_that_of_a_cluster_its_own():
    fleet = a_fleet(ORDERS)
    described = fleet.get("/api/v1/openapi.json").json()
    assert {"/", "/metrics", "/api/v1/fleet", "/api/v1/http_sd", "/healthz"} < {*described["paths"]}
    api = schemathesis.openapi.from_dict(strict(described))
    api.validate()
    for path in ("/api/v1/fleet", "/api/v1/http_sd"):
        api[path]["GET"].validate_response(fleet.get(path))
    below = fleet.get("/clusters/orders/api/v1/openapi.json").json()
    assert below == TestClient(application(ORDERS)).get("/api/v1/openapi.json").json()


def test_who_shows_no_token_sees_probes_alone_at_the_root_and_below():
    fleet = a_fleet(ORDERS, access=AccessConfig(token="secret"))
    for below in ("", "/clusters/orders"):
        for path in ("/healthz", "/-/ready", "/-/healthy"):
            assert fleet.get(below + path).status_code == 200
        for path in ("/", "/metrics", "/api/v1/openapi.json", "/console/console.js", "/none"):
            answer = fleet.get(below + path)
            assert answer.status_code == 401, path
            assert answer.headers["x-content-type-options"] == "nosniff"
            with_token = {"Authorization": "Bearer secret"}
            assert fleet.get(below + path, headers=with_token).status_code in (200, 404)


def test_who_shows_no_token_learns_no_names_of_clusters():
    fleet = a_fleet(ORDERS, access=AccessConfig(token="secret"), mcp_token="other")
    for path in ("healthz", "mcp", "", "api/v1/summary"):
        answer = fleet.get(f"/clusters/none/{path}")
        assert answer.status_code == (404 if path == "healthz" else 401)
        assert "orders" not in answer.text


def test_plans_are_for_operators_below_a_cluster_as_well():
    access = AccessConfig(token="looks", operator_token="may")
    fleet = a_fleet(ORDERS, access=access)
    path = "/clusters/orders/api/v1/plans/order"
    statuses = [
        fleet.get(path, headers={"Authorization": f"Bearer {token}"}).status_code
        for token in ("looks", "may")
    ]
    assert statuses == [403, 200]


def test_clusters_come_and_go_while_they_are_served():
    clusters = ServedClusters([ORDERS])
    client = TestClient(fleet_application(clusters, CATALOG))
    path = "/clusters/payments/api/v1/summary"
    assert client.get(path).status_code == 404
    clusters.serve([ORDERS, PAYMENTS])
    assert client.get(path).status_code == 200
    clusters.serve([PAYMENTS])
    assert client.get(path).status_code == 200
    assert client.get("/clusters/orders/").status_code == 404


@pytest.mark.parametrize("name", ["my cluster", "ä", "a.b_c-d", "100%"])
def test_a_single_cluster_may_have_any_name(name):
    client = TestClient(application(a_source(name)))
    answer = client.get(f"{path_of(name)}/api/v1/summary")
    assert (answer.status_code, answer.json()) == (200, client.get("/api/v1/summary").json())
