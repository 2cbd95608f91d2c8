"""A report over a fleet: who was hurt worst, whose forecasts were off, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt

from streaming.history.archive.archive_past import ArchivePast
from streaming.history.archive.delta import ArchiveTables
from streaming.history.report.fleet import fleet_report, in_span
from streaming.history.report.fleet_model import ClusterInSpan, FleetReport
from streaming.history.report.writing.fleet_document import rendered_fleet
from tests.archive.bus import Program, SimulatedBus
from tests.history.archive.archived import INTERVAL_MS, START_MS
from twin.builtin import CATALOG

CYCLES = 12


def at(cycle: int) -> int:
    return START_MS + cycle * INTERVAL_MS


def a_bus() -> SimulatedBus:
    bus = SimulatedBus()
    for _ in range(CYCLES):
        bus.cycle()
    return bus


def archived(bus: SimulatedBus, folder: Path) -> ArchivePast:
    program = Program(bus, folder)
    program.run()
    return program.past()


def of(past: ArchivePast | None, name: str, begin: int = 0, end: int = CYCLES) -> ClusterInSpan:
    return in_span(past, CATALOG, name, at(begin), at(end))


@pytest.fixture
def fleet(tmp_path: Path) -> FleetReport:
    """One that lost a broker, one that warned, one without an event, and one without tables."""
    hurt, warned, quiet = a_bus(), a_bus(), a_bus()
    hurt.event("a", at(2), "broker_fenced")
    hurt.event("b", at(2), "leader_moved", before=[2], after=[1])
    hurt.event("c", at(3), "risk_opened", detail="partition_offline")
    hurt.event("d", at(7), "risk_closed", detail="partition_offline")
    for number, result in enumerate(("right", "right", "wrong", "overtaken")):
        hurt.event(f"p{number}", at(3), "prediction_judged", detail=result)
    warned.event("a", at(5), "risk_opened", detail="at_min_isr")
    broken = ArchivePast(ArchiveTables(str(tmp_path / "none")), CATALOG, "sim", INTERVAL_MS)
    clusters = [
        of(None, "not_kept"),
        of(archived(quiet, tmp_path / "quiet"), "quiet"),
        of(archived(warned, tmp_path / "warned"), "warned"),
        of(broken, "broken"),
        of(archived(hurt, tmp_path / "hurt"), "hurt"),
    ]
    return fleet_report(clusters, at(0), at(CYCLES))


def test_the_worst_is_first_and_what_is_unknown_is_no_less_than_unknown(fleet: FleetReport):
    assert [(each.cluster, each.severity) for each in fleet.clusters] == [
        ("hurt", "critical"), ("warned", "warning"), ("broken", "unknown"), ("not_kept", "unknown"),
        ("quiet", "ok"),
    ]  # fmt: skip
    unknown = fleet.clusters[3]
    assert unknown.incidents_in_all is None
    assert unknown.judged is None
    assert "archive.path is not set" in unknown.why_unknown
    assert fleet.clusters[2].why_unknown == "nothing is archived yet"


def test_an_incident_has_its_effects_and_leads_to_the_report_of_its_own_cluster(fleet: FleetReport):
    hurt = fleet.clusters[0]
    [incident] = hurt.incidents
    assert incident.cause.text == "broker 2 was lost: it was fenced"
    assert incident.effects >= 1
    assert incident.report.startswith("clusters/hurt/api/v1/report?from=")
    [risk] = hurt.risks
    assert (risk.risk, risk.opened, risk.still_open) == ("partition_offline", 1, 0)
    assert risk.open_s == 4 * INTERVAL_MS / 1_000
    assert hurt.judged is not None
    assert (hurt.judged.right, hurt.judged.wrong, hurt.judged.not_judged) == (2, 1, 1)
    [open_still] = fleet.clusters[1].risks
    assert open_still.still_open == 1


def test_a_past_that_does_not_reach_all_of_the_span_says_so(tmp_path: Path):
    past = archived(a_bus(), tmp_path)
    found = of(past, "a", -5, CYCLES + 3)
    assert [text.partition(" at ")[0] for text in found.not_known] == [
        "its past begins", "its past ends",
    ]  # fmt: skip
    assert (found.begin_ms, found.end_ms) == (past.span.begin_ms, past.span.end_ms)
    later = of(past, "a", CYCLES + 3, CYCLES + 5)
    assert later.why_unknown.startswith("its past is from ")


def test_it_is_the_same_after_it_was_sent(fleet: FleetReport):
    assert msgspec.json.decode(msgspec.json.encode(fleet), type=FleetReport) == fleet


def test_markdown_leads_to_each_clusters_console_and_report(fleet: FleetReport):
    text = rendered_fleet(fleet, "md", "http://twin/")
    html = MarkdownIt().render(text)
    assert 'href="http://twin/clusters/hurt/api/v1/report?from=' in html
    assert 'href="http://twin/clusters/hurt/?at=' in html
    assert "not\\_kept: no past of it is kept" in text
    assert "2 of 5 clusters had risks that warn or page somebody, hurt the worst" in text


def test_html_stands_alone_and_escapes_names(fleet: FleetReport):
    [first, *others] = fleet.clusters
    evil = replace(fleet, clusters=[replace(first, cluster="<script>x</script>"), *others])
    page = rendered_fleet(evil, "html", "../../")
    assert "<script" not in page
    assert 'href="../../clusters/warned/api/v1/report?' in page
