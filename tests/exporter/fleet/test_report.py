"""What happened to all clusters, as their exporter says it, and the command that asks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from streaming.cli.main import main
from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.view_source import ViewSource
from streaming.history.moment import time_text
from tests.archive.bus import Program, SimulatedBus
from tests.exporter.fleet.views import a_fleet, a_source
from tests.exporter.serving import served
from twin.builtin import CATALOG


@pytest.fixture
def sources(tmp_path: Path) -> list[ViewSource]:
    """One with an archive in which a broker was lost, and one without an archive."""
    bus = SimulatedBus()
    for _ in range(6):
        bus.cycle()
    bus.event("a", bus.at_ms(2), "broker_fenced")
    program = Program(bus, tmp_path)
    program.run()
    return [replace(a_source("orders"), past=program.past()), a_source("payments", seed=2)]


SPAN = {"from": time_text(SimulatedBus().at_ms(0)), "to": time_text(SimulatedBus().at_ms(4))}


def test_each_cluster_is_in_it_and_one_without_a_past_is_no_error_of_all(sources):
    answer = a_fleet(*sources).get("/api/v1/report", params=SPAN)
    assert answer.status_code == 200
    orders, payments = sorted(answer.json()["clusters"], key=lambda each: each["cluster"])
    assert [each["cause"]["text"] for each in orders["incidents"]] == [
        "broker 2 was lost: it was fenced"
    ]
    assert payments["why_unknown"] == "no past of it is kept: archive.path is not set"
    own = a_fleet(*sources).get("/" + orders["incidents"][0]["report"])
    assert own.status_code == 200
    assert "broker 2 was lost" in own.text


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("md", "# What happened to 2 clusters"),
        ("html", "<h1>What happened to 2 clusters</h1>"),
    ],
)
def test_it_is_a_document_as_that_of_one_cluster(sources, form: str, says: str):
    answer = a_fleet(*sources).get("/api/v1/report", params={**SPAN, "format": form})
    assert says in answer.text
    assert "../../clusters/orders/api/v1/report?" in answer.text


def test_a_span_that_ends_before_it_begins_is_refused(sources):
    wrong = {"from": SPAN["to"], "to": SPAN["from"]}
    answer = a_fleet(*sources).get("/api/v1/report", params=wrong)
    assert (answer.status_code, "is after" in answer.json()["error"]) == (400, True)


def test_the_command_asks_about_all_clusters_or_about_one(sources, tmp_path: Path):
    path = tmp_path / "twin.toml"
    path.write_text("[clusters.orders]\n[clusters.payments]\n")
    with served(fleet_application(ServedClusters(sources), CATALOG)) as url:
        asked = ["--config", str(path), "report", "--url", url, "--from", SPAN["from"], "--to",
                 SPAN["to"]]  # fmt: skip
        of_all, of_one, unknown = (
            CliRunner().invoke(main, [*asked, *more])
            for more in ([], ["--cluster", "orders"], ["--cluster", "payments"])
        )
    assert "# What happened to 2 clusters" in of_all.output
    assert f"{url}/clusters/orders/?at=" in of_all.output
    assert f"{url}/clusters/orders/?at=" in of_one.output
    assert "# What happened to" in of_one.output
    assert unknown.exit_code == 1
    assert "present only" in unknown.output
