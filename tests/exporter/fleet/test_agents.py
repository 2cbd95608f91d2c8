"""Agents of an exporter of several clusters name the cluster with each call."""

from __future__ import annotations

import pytest

from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.web_application import endpoints
from tests.exporter.agents.asking import called, listed, text_of
from tests.exporter.agents.test_stdio import over_stdio
from tests.exporter.fleet.views import a_fleet, a_source
from tests.exporter.serving import served
from twin.builtin import CATALOG

CALLS = (
    ("fleet", {}),
    ("summary", {"cluster": "payments"}),
    ("summary", {"cluster": "none"}),
    ("summary", {}),
)


@pytest.fixture
def sources():
    return a_source("orders"), a_source("payments", seed=2)


@pytest.mark.parametrize("door", [called, over_stdio])
def test_each_tool_is_about_the_cluster_that_is_named_and_one_about_all(door, sources):
    with served(fleet_application(ServedClusters(sources), CATALOG)) as url:
        fleet, summary, unknown, unnamed = door(url, *CALLS)
    api = a_fleet(*sources)
    assert {row["cluster"] for row in fleet.structured_content["clusters"]} == {
        "orders", "payments",
    }  # fmt: skip
    expected = api.get("/clusters/payments/api/v1/summary").json()
    assert summary.structured_content == expected
    assert text_of(unknown) == "there is no cluster none; there is orders, payments"
    assert (unnamed.is_error, "cluster" in text_of(unnamed)) == (True, True)


def test_every_tool_of_one_cluster_is_there_and_needs_its_name(sources):
    with served(fleet_application(ServedClusters(sources), CATALOG)) as url:
        tools = listed(url)
    of_one = {each.tool for each in endpoints(CATALOG) if each.tool}
    assert set(tools) == of_one | {"fleet", "fleet_report"}
    for name in of_one:
        assert "cluster" in tools[name].input_schema["required"]
        assert tools[name].annotations.read_only_hint


def test_calls_are_counted_for_the_cluster_that_they_name(sources):
    with served(fleet_application(ServedClusters(sources), CATALOG)) as url:
        called(url, *CALLS)
    orders, payments = sources
    assert (orders.calls.now(), payments.calls.now()) == ({}, {("summary", "answered"): 1})
