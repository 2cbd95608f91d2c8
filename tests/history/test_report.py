"""The report over HTTP and on the command line, in each format, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from streaming.cli.main import main
from streaming.cli.report import newest_time_of_day
from streaming.exporter.agents.tools import tools_of
from streaming.exporter.capsule_server import source_of
from streaming.exporter.web_application import application, endpoints
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import Recorded, save
from streaming.history.moment import MomentError, time_text
from streaming.history.report.happenings import read
from streaming.history.report.making import report_of
from streaming.history.report.model import Line, Report
from streaming.history.report.scanning import scan
from streaming.history.report.writing.markdown import escaped
from streaming.history.report.writing.render import rendered
from tests.exporter.serving import served
from tests.history.recorded import RecordedPast, a_recording, at, with_events
from tests.history.test_at import LIVE
from tests.simulator.shard import Shape
from twin.builtin import CATALOG

CYCLES = 30
PATH = "/api/v1/report"
EVIL = "<img src=x onerror=alert(1)>](http://evil.example) | `x` **b** & \u202e\n# h"


@cache
def recorded() -> Recorded:
    shape = Shape(topics=3, partitions=3, brokers=5)
    return with_events(a_recording(CYCLES, 2, seed=3, shape=shape))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capsule]:
    file = tmp_path_factory.mktemp("capsule") / "c"
    save(recorded(), CATALOG, at(0), at(CYCLES - 1), file)
    with closing(Capsule(file)) as capsule:
        yield capsule


@pytest.fixture(scope="module")
def api(opened: Capsule) -> TestClient:
    return TestClient(application(source_of(opened)))


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(RecordedPast(recorded()), CATALOG, "sim", at(0), at(CYCLES - 1))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


def tags_of(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    return found


def test_a_capsule_gives_the_same_report_as_its_recording(api, report):
    answer = api.get(PATH, params={"from": time_text(at(0))})
    assert answer.status_code == 200
    assert msgspec.convert(answer.json(), Report) == report
    assert len(report.incidents) >= 2
    assert {each.cause.kind for each in report.incidents} <= {"broker_lost", "broker_back"}


def test_shards_add_up(api, report):
    summary = api.get("/api/v1/summary", params={"at": time_text(report.worst.at_ms)}).json()
    assert report.worst.partitions == summary["partitions"]
    assert report.worst.offline == summary["partitions_offline"]
    assert report.worst.at_risk == summary["at_risk"]


def test_the_page_stands_alone_and_may_not_run_anything(api):
    answer = api.get(PATH, params={"from": time_text(at(0)), "format": "html"})
    assert answer.headers["content-type"].startswith("text/html")
    page = tags_of(answer.text)
    assert "svg" in page.tags
    assert not page.tags & {"script", "img", "link", "iframe", "object", "form"}
    outside = [value for name, value in page.attributes if name in ("src", "style", "onclick")]
    assert outside == []
    links = [value or "" for name, value in page.attributes if name == "href"]
    assert all(link.startswith(("../../?at=2001-", "#cause-")) for link in links)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert re.search(r"style-src 'sha256-[^']+';", policy)
    assert "unsafe" not in policy


def test_markdown_leads_from_each_line_to_its_moment(api, report):
    answer = api.get(PATH, params={"from": time_text(at(0)), "format": "md"})
    assert answer.headers["content-type"].startswith("text/markdown")
    for incident in report.incidents:
        assert f"?at={time_text(incident.cause.at_ms)}#/>)" in answer.text
    for title in ("Blast radius", "What was foretold", "What is not known", "Timeline, by cause"):
        assert f"\n## {title}\n" in answer.text


@pytest.mark.parametrize("form", ["md", "html"])
def test_names_and_texts_of_the_cluster_are_shown_and_do_nothing(report, form):
    line = Line(at(3), at(3), "leader_moved", EVIL, 2, (EVIL,))
    evil = replace(report, cluster=EVIL, no_cause=[line], people=[line], summary=[EVIL])
    text = rendered(evil, form, "http://twin.example/")
    assert "\u202e" not in text
    if form == "html":
        assert "img" not in tags_of(text).tags
        assert "&lt;img src=x" in text
    else:
        shown = [each for each in text.splitlines() if "onerror" in each]
        assert len(shown) == 4
        for each in shown:
            outside = re.sub(r"\[\d\d:\d\d:\d\d\]\(<[^>]*>\)", "", each)
            assert not re.search(r"(?<!\\)[<\[`]", outside)
            assert "](http" not in outside.replace("\\](", "")


@given(st.text(max_size=80))
def test_markdown_shows_any_text_as_it_is(text):
    line = escaped(text)
    assert "\n" not in line
    assert not re.search(r"(?<!\\)(?:\\\\)*[<>`*_\[\]|]", line)


@pytest.mark.parametrize(
    ("parameters", "status", "why"),
    [
        ({}, 400, "from"),
        ({"from": "yesterday"}, 400, "not a moment"),
        ({"from": time_text(at(-1))}, 404, "before the beginning"),
        ({"from": time_text(at(3)), "to": time_text(at(2))}, 400, "is after"),
        ({"from": time_text(at(0)), "format": "pdf"}, 400, "none of md, html, json"),
    ],
)
def test_what_cannot_be_reported_is_refused_in_one_line(api, parameters, status, why):
    answer = api.get(PATH, params=parameters)
    assert answer.status_code == status
    assert why in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_an_exporter_of_the_present_has_no_report():
    client = TestClient(application(LIVE))
    assert client.get(PATH, params={"from": "-1h"}).status_code == 404


def test_a_span_of_too_many_cycles_is_refused_before_anything_is_computed(monkeypatch):
    past = RecordedPast(recorded())
    monkeypatch.setattr(scan, "MOST_CYCLES", CYCLES - 1)
    with pytest.raises(MomentError, match="30 cycles, and a report of this cluster at most 29"):
        report_of(past, CATALOG, "sim", at(0), at(CYCLES - 1))
    assert report_of(past, CATALOG, "sim", at(1), at(CYCLES - 1)).cycles == CYCLES - 1


def test_a_span_of_one_cycle_has_a_report_in_which_nothing_happened():
    report = report_of(RecordedPast(recorded()), CATALOG, "sim", at(4), at(4))
    assert (report.cycles, report.incidents, report.no_cause) == (1, [], [])
    assert report.blast_radius.observed_s == 0
    assert rendered(report, "html", "").startswith("<!doctype html>")


def test_events_that_cannot_be_read_or_come_twice_are_counted_and_passed_over():
    event = {"id": "a", "kind": "leader_moved", "cluster": "c", "at_ms": 5, "before": [1]}
    messages = [json.dumps(each).encode() for each in (event, event, {**event, "before": "x"})]
    found = read([*messages, b"{"], 0, 10)
    assert (found.total, found.unreadable) == (1, 2)
    assert read(messages, 5, 10).total == 0  # an event of the first cycle is of the time before


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_the_command_prints_what_the_exporter_says(opened, report, form):
    source = source_of(opened)
    with served(application(source), source.events) as url:
        given_ = ["report", "--from", time_text(at(0)), "--url", url, "--format", form]
        done = CliRunner().invoke(main, given_)
        by_clock = CliRunner().invoke(main, ["report", "--from", "01:47", "--url", url])
    assert done.exit_code == 0, done.output
    if form == "json":
        assert msgspec.convert(json.loads(done.output), Report) == report
    else:
        assert f"{url}/?at={time_text(report.incidents[0].cause.at_ms)}" in done.output
    assert by_clock.exit_code == 0, by_clock.output
    assert "01:47:00.000Z to " in by_clock.output


def test_a_time_of_day_is_the_newest_one_of_the_past():
    end_ms = at(0)  # 01:46:40
    assert time_text(newest_time_of_day("01:46", end_ms)) == "2001-09-09T01:46:00.000Z"
    assert time_text(newest_time_of_day("01:46:41", end_ms)) == "2001-09-08T01:46:41.000Z"


def test_an_agent_has_the_report_as_data_and_cannot_ask_for_a_page(opened):
    tool = tools_of(endpoints(CATALOG))["report"]
    assert {*tool.input_schema["properties"]} == {"from", "to"}
    path, given_ = tool.request({"from": "-1h", "format": "html"})
    assert (path, given_) == (PATH, [("from", "-1h")])
