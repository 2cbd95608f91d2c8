"""Links of the dashboards lead to dashboards and to views of the console that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from grafana.__main__ import DASHBOARDS
from grafana.layout import Dashboard
from grafana.queries import ELECTION_POLICIES
from tests.grafana.pages import ROOT, each_dashboard, panels

CONSOLE: Final = "${console:raw}/clusters/${cluster:percentencode}/#/"
ROOT_OF_CONSOLE: Final = "${console:raw}/"


def links(dashboard: Dashboard) -> Iterator[str]:
    """URLs of all links: of cells, of series, and of the bar at the top."""
    yield from (link["url"] for link in dashboard.json()["links"] if "url" in link)
    for panel in panels(dashboard):
        config = panel["fieldConfig"]
        properties = [p for override in config["overrides"] for p in override["properties"]]
        overriding = [p["value"] for p in properties if p["id"] == "links"]
        for each in [config["defaults"].get("links", []), *overriding]:
            yield from (link["url"] for link in each)


def console_source(place: str) -> str:
    """The source of the console's file, or of all files in its folder."""
    root = ROOT / "streaming" / "exporter" / "console" / place
    files = [root] if root.is_file() else sorted(root.glob("*.js"))
    return "\n".join(path.read_text() for path in files)


@each_dashboard
def test_every_link_goes_to_a_dashboard_that_exists_and_fills_its_variables_in(dashboard):
    pages = {d.uid: {variable["name"] for variable in d.variables} for d in DASHBOARDS}
    for url in links(dashboard):
        if url.startswith(ROOT_OF_CONSOLE):
            continue
        parts = urlsplit(url)
        uid = parts.path.removeprefix("/d/")
        assert uid in pages, url
        filled = {name.removeprefix("var-") for name in parse_qs(parts.query)}
        assert filled <= pages[uid], url
        assert "${console:queryparam}" in url, "an address that was typed is handed on"


@each_dashboard
def test_every_link_into_the_console_names_a_view_and_parameters_that_it_reads(dashboard):
    views = set(re.findall(r'(?:path|p)\[0\] === "(\w+)"', console_source("app.js")))
    cluster_reads, list_reads = console_source("cluster"), console_source("partitions")
    if dashboard.is_of_fleet:
        of_one = f"{ROOT_OF_CONSOLE}clusters/${{__data.fields.cluster:percentencode}}/"
        into_console = {url for url in links(dashboard) if url.startswith(ROOT_OF_CONSOLE)}
        assert into_console == {ROOT_OF_CONSOLE, of_one}
        return
    into_console = [url for url in links(dashboard) if url.startswith(CONSOLE)]
    assert into_console
    for url in into_console:
        path, _, query = url.removeprefix(CONSOLE).partition("?")
        view = path.split("/")[0]
        assert view in {"", *views}, url
        for name in parse_qs(query):
            assert f'"{name}"' in (list_reads if view == "partitions" else cluster_reads), url
        if view == "partitions":
            assert len(path.split("/")) in (1, 3), "the list, or a topic and a number"


@each_dashboard
def test_what_a_row_of_a_table_is_about_leads_to_it(dashboard):
    """A partition to its pages, a group to its own, a broker and a rack to what their loss does."""
    for panel in panels(dashboard):
        if panel["type"] == "table":
            [organize] = [t for t in panel["transformations"] if t["id"] == "organize"]
            keys = set(organize["options"]["renameByName"])
            linked = {
                override["matcher"]["options"].lower(): [link["url"] for link in each["value"]]
                for override in panel["fieldConfig"]["overrides"]
                for each in override["properties"]
                if each["id"] == "links"
            }
            expected = {"broker", "cluster", "group", "rack"} | (
                {"topic"} if "partition" in keys else set()
            )
            assert linked.keys() == keys & expected, panel["title"]
            for key, urls in linked.items():
                assert all(f"${{__data.fields.{key}" in url for url in urls), panel["title"]


def test_a_partition_in_a_row_leads_to_its_dashboard_and_to_the_console():
    [cluster] = [d for d in DASHBOARDS if d.uid == "kafka-twin-cluster"]
    [table] = [p for p in panels(cluster) if p["title"] == "Partitions at risk"]
    [links] = [
        each["value"]
        for override in table["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "links"
    ]
    dashboard, console = (link["url"] for link in links)
    topic, partition = "${__data.fields.topic}", "${__data.fields.partition}"
    assert dashboard.startswith("/d/kafka-twin-partition?")
    assert f"var-topic={topic}&var-partition={partition}" in dashboard
    assert console == f"{CONSOLE}partitions/{topic}/{partition}"


@pytest.mark.parametrize("rule", ELECTION_POLICIES)
def test_a_broker_in_a_matrix_leads_to_its_loss_by_the_same_rule(rule):
    [cluster] = [d for d in DASHBOARDS if d.uid == "kafka-twin-cluster"]
    title = f"If a broker were lost now: {ELECTION_POLICIES[rule]}"
    [matrix] = [p for p in panels(cluster) if p["title"] == title]
    urls = {url for url in re.findall(r'"url": "(.*?)"', json.dumps(matrix)) if "?lose=" in url}
    assert urls == {f"{CONSOLE}?lose=${{__data.fields.broker}}&rule={rule}"}


def test_the_consoles_address_is_that_of_the_compose_file_until_somebody_types_another():
    settings = (ROOT / ".env").read_text()
    [port] = re.findall(r"^EXPORTER_PORT=(\d+)$", settings, re.MULTILINE)
    for dashboard in DASHBOARDS:
        [variable] = [v for v in dashboard.variables if v["name"] == "console"]
        assert variable["type"] == "textbox"
        address = f"http://localhost:{port}"
        assert variable["query"] == variable["current"]["value"] == address
