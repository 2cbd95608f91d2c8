"""When there were changes: counts by time and class, made of the events of a past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from streaming.exporter.capsule_server import source_of
from streaming.exporter.moments import NO_PAST
from streaming.exporter.web_application import application
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import save
from streaming.history.change_times import MOST_BUCKETS, ChangeTimes
from streaming.history.moment import time_text
from streaming.history.span import Span
from tests.history.recorded import INTERVAL_MS, a_recording, at, with_events
from tests.history.test_at import LIVE
from tests.simulator.shard import Shape
from twin.builtin import CATALOG

CYCLES = 40
PATH = "/api/v1/history/changes"
SEVERITIES = {each.name: each.severity for each in CATALOG.risks}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capsule]:
    recorded = with_events(a_recording(CYCLES, 2, seed=3, shape=Shape(topics=3, brokers=5)))
    file = tmp_path_factory.mktemp("capsule") / "c"
    save(recorded, CATALOG, at(0), at(CYCLES - 1), file)
    with closing(Capsule(file)) as capsule:
        yield capsule


@pytest.fixture(scope="module")
def api(opened: Capsule) -> TestClient:
    return TestClient(application(source_of(opened)))


def an_event(at_ms: int, kind: str = "leader_moved", detail: str = "", id_: str = "") -> bytes:
    return msgspec.json.encode(
        {"id": id_ or f"{kind}/{at_ms}", "kind": kind, "cluster": "c", "at_ms": at_ms,
         "detail": detail}
    )  # fmt: skip


def asked(api: TestClient, **parameters: Any) -> Any:
    answer = api.get(PATH, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def kinds(counts: Any) -> int:
    names = ("leader", "isr", "risk_opened", "risk_closed", "broker", "other")
    return sum(counts[name] for name in names)


@pytest.mark.parametrize("buckets", [1, 7, 240, MOST_BUCKETS])
def test_counts_add_up_to_the_events_of_the_span(api, opened, buckets):
    events = [msgspec.json.decode(each) for each in opened.events]
    found = asked(api, buckets=buckets)
    assert found["counts"]["total"] == len(events) > 20
    assert sum(each["counts"]["total"] for each in found["buckets"]) == len(events)
    assert len(found["buckets"]) <= buckets
    for each in (found, *found["buckets"]):
        assert kinds(each["counts"]) == each["counts"]["total"]
        assert sum(each["counts"]["opened_by_severity"].values()) == each["counts"]["risk_opened"]
    of_kind = Counter(each["kind"] for each in events)
    assert found["counts"]["leader"] == of_kind["leader_moved"] > 0
    assert found["counts"]["isr"] == of_kind["isr_shrank"] + of_kind["isr_expanded"] > 0
    assert found["counts"]["risk_closed"] == of_kind["risk_closed"]
    opened_as = Counter(SEVERITIES[e["detail"]] for e in events if e["kind"] == "risk_opened")
    severities = found["counts"]["opened_by_severity"]
    assert Counter({name: n for name, n in severities.items() if n}) == opened_as


def test_a_part_of_the_span_has_the_events_of_that_part_both_ends_included(api, opened):
    times = [msgspec.json.decode(each)["at_ms"] for each in opened.events]
    begin_ms, end_ms = at(10), at(20)
    found = asked(api, **{"from": time_text(begin_ms), "to": time_text(end_ms), "buckets": 10})
    assert found["counts"]["total"] == sum(begin_ms <= each <= end_ms for each in times) > 0
    assert (found["begin_ms"], found["end_ms"]) == (begin_ms, end_ms)
    assert found["span"] == {"begin_ms": at(0), "end_ms": at(CYCLES - 1)}
    for each in found["buckets"]:
        first, behind = each["begin_ms"], each["begin_ms"] + found["bucket_ms"]
        assert each["counts"]["total"] == sum(first <= t < min(behind, end_ms + 1) for t in times)


def test_the_nearest_changes_lead_through_all_of_them(api, opened):
    times = sorted({msgspec.json.decode(each)["at_ms"] for each in opened.events})
    at_ms, passed = at(0), [each for each in times if each == at(0)]
    while True:
        nearest = asked(api, around=time_text(at_ms), buckets=1)["nearest"]
        assert nearest["before_ms"] == max((t for t in times if t < at_ms), default=None)
        if nearest["after_ms"] is None:
            break
        at_ms = nearest["after_ms"]
        passed.append(at_ms)
    assert passed == times
    assert asked(api)["nearest"] is None


def test_an_event_that_is_written_twice_counts_once_and_what_is_none_not_at_all():
    sent = [
        an_event(5), an_event(5), b"no event", an_event(7, "risk_opened", "nobody_knows_it"),
        an_event(-1, "observation_refused"), an_event(1 << 62), an_event(9, "something_new"),
    ]  # fmt: skip
    times = ChangeTimes.of(sent, CATALOG)
    counts = times.counted(Span(0, 10), 0, 10, 240).counts
    assert (counts.total, counts.leader, counts.risk_opened, counts.other) == (3, 1, 1, 1)
    assert counts.opened_by_severity == {"page": 0, "warn": 0, "info": 0, "other": 1}


def test_a_past_without_a_change_and_of_one_moment_has_no_buckets():
    found = ChangeTimes.of([], CATALOG).counted(Span(5, 5), 5, 5, 240)
    assert (found.counts.total, found.buckets, found.bucket_ms) == (0, [], 1)


@pytest.mark.parametrize("path", ["history/changes", "diff?from=-15m"])
def test_an_exporter_without_a_past_refuses_in_one_line(path):
    answer = TestClient(application(LIVE)).get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()) == (404, {"error": NO_PAST})


@pytest.mark.parametrize(
    ("asked_for", "status", "why"),
    [
        ({"from": "noon"}, 400, "from: 'noon' is not a moment"),
        ({"buckets": "0"}, 400, "buckets: at least 1"),
        ({"buckets": str(MOST_BUCKETS + 1)}, 400, f"buckets: at most {MOST_BUCKETS}"),
        ({"from": "-5s", "to": "-15s"}, 400, f"from: {time_text(at(CYCLES - 2))} is after"),
        ({"from": "-10h"}, 404, "is before the beginning"),
        ({"to": "2999-01-01T00:00:00Z"}, 404, "is in the future"),
        ({"around": "-10h"}, 404, "around: "),
        ({"at": "-5s"}, 400, "at: there is no such parameter"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(api, asked_for, status, why):
    answer = api.get(PATH, params=asked_for)
    assert answer.status_code == status
    assert why in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_stretches_are_whole_milliseconds_and_as_many_as_were_asked_for(api):
    found = asked(api, buckets=3)
    assert found["bucket_ms"] == ((CYCLES - 1) * INTERVAL_MS + 1 + 2) // 3
