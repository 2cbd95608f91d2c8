"""``at=`` on the API: declared once, answered from the past that an exporter has."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from streaming.bus.view import ClusterView
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.moments import NO_PAST
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application, endpoints
from streaming.history.change_times import ChangeTimes
from streaming.history.moment import AT
from streaming.history.past import Past, PastView
from streaming.history.span import Span
from streaming.runtime.quantities import utc_text
from tests.asking import a_view
from tests.builders import NOW_MS, Partition, a_state
from tests.exporter.serving import served
from tests.waiting import until
from tests.web import get
from twin.builtin import CATALOG

VIEW = a_view(a_state(Partition("orders"), brokers=(1, 2, 3)))
BEFORE = a_view(a_state(Partition("audit"), brokers=(1, 2, 3), at_ms=NOW_MS - 60_000))
LIVE = ViewSource(
    CATALOG, "c", lambda: Exposition(VIEW), lambda: NOW_MS + 1_000, newest=lambda: VIEW
)


class ArchivedMinute:
    """A past of one minute, such as an archive has beside a live exporter."""

    def __init__(self, view: ClusterView = BEFORE) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = 0
        self._view = view

    @property
    def span(self) -> Span:
        return Span(NOW_MS - 60_000, NOW_MS)

    @property
    def changes(self) -> ChangeTimes:
        return ChangeTimes.of([], CATALOG)

    def cycles(self, from_ms: int, to_ms: int) -> list[int]:
        return [NOW_MS - 60_000] if from_ms <= NOW_MS - 60_000 <= to_ms else []

    def events(self, from_ms: int, to_ms: int) -> list[bytes]:
        return []

    def view(self, at_ms: int, topic: str | None = None) -> PastView:
        self.asked += 1
        assert self.may_answer.wait(60)
        return PastView(self._view, NOW_MS - 60_000, 60_000, at_ms < NOW_MS - 10_000)


def test_every_path_that_answers_from_the_state_has_the_parameter_and_no_other():
    without = {
        "/metrics", "/healthz", "/-/healthy", "/-/ready", "/", "/api/v1/events",
        "/api/v1/openapi.json", "/api/v1/diff", "/api/v1/report", "/api/v1/history/changes",
        "/api/v1/history/events",
    }  # fmt: skip
    for each in endpoints(CATALOG):
        has_it = (each.parameters or {}).get("at") is AT
        assert has_it == (each.path not in without), each.path


def test_an_exporter_without_a_past_refuses_in_one_line():
    client = TestClient(application(LIVE))
    for path in ("summary", "partitions", "whatif/lose?broker=1", "plans/order"):
        answer = client.get(f"/api/v1/{path}{'&' if '?' in path else '?'}at=-15m")
        assert (answer.status_code, answer.json()) == (404, {"error": f"at: {NO_PAST}"})
    assert client.get("/api/v1/summary", params={"at": "noon"}).status_code == 400
    assert client.get("/api/v1/events", params={"at": "-15m"}).status_code == 400


def test_a_live_exporter_with_a_past_answers_of_both():
    client = TestClient(application(replace(LIVE, past=ArchivedMinute())))
    now = client.get("/api/v1/partitions").json()
    assert now["partitions"][0]["topic"] == "orders"
    assert not {"at", "resolution_ms", "complete"} & now.keys()
    then = client.get("/api/v1/partitions", params={"at": "-31s"}).json()
    assert then["partitions"][0]["topic"] == "audit"
    assert then["partitions"][0]["age_seconds"] == 30  # as it was at that moment
    assert (then["resolution_ms"], then["complete"]) == (60_000, True)
    summary = client.get("/api/v1/summary", params={"at": "-5s"}).json()
    assert not summary["complete"]
    assert not summary["up"]
    assert summary["not_live"].startswith("the past; shown is ")
    assert summary["not_live"].endswith(", of which not all was recorded")
    assert client.get("/api/v1/summary").json()["not_live"] is None
    archived = f"archived: {utc_text(NOW_MS - 60_000)} to {utc_text(NOW_MS)}\n"
    assert client.get("/healthz").text == f"ok\n{archived}"
    for asked, why in (("-2m", "before the beginning"), ("2999-01-01T00:00:00Z", "in the future")):
        answer = client.get("/api/v1/summary", params={"at": asked})
        assert answer.status_code == 404
        assert why in answer.json()["error"]


def test_what_is_refused_of_now_is_refused_of_then():
    client = TestClient(application(replace(LIVE, past=ArchivedMinute())))
    answer = client.get("/api/v1/brokers/9/restart", params={"at": "-30s"})
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "there is no broker 9; brokers are 1, 2, 3",
    )
    assert client.get("/api/v1/partitions/orders/0", params={"at": "-30s"}).status_code == 404


def test_a_past_in_which_a_shard_is_missing_answers_no_question():
    lacking = replace(BEFORE, shards_expected=2)
    client = TestClient(application(replace(LIVE, past=ArchivedMinute(lacking))))
    answer = client.get("/api/v1/whatif/lose", params={"broker": 1, "at": "-30s"})
    assert answer.status_code == 503
    assert answer.json() == {"error": "snapshots of 1 of 2 shards were read"}


@pytest.mark.parametrize("many", [50])
def test_nothing_of_now_waits_for_the_past(many: int):
    past = ArchivedMinute()
    past.may_answer.clear()
    source = replace(LIVE, past=past)
    with served(application(source)) as url, ThreadPoolExecutor(many) as people:
        asked = f"{url}/api/v1/summary?at=-30s"
        answers = [people.submit(get, asked, timeout_s=60) for _ in range(many)]
        try:
            until(lambda: past.asked == 1, pause_s=0.01)
            for path in ("/metrics", "/healthz", "/api/v1/summary", "/api/v1/whatif/lose?broker=1"):
                assert get(url + path)[0] == 200
            assert not any(each.done() for each in answers)
        finally:
            past.may_answer.set()
        assert {each.result()[0] for each in answers} == {200}
    assert past.asked == 1  # the moment is kept


def test_an_agent_asks_about_the_past_and_is_told_that_it_is():
    pytest.importorskip("mcp", reason="mcp is not installed")
    from tests.exporter.agents.asking import called, text_of

    with served(application(replace(LIVE, past=ArchivedMinute()))) as url:
        now, then = called(
            url, ("may_restart", {"broker": 1}), ("may_restart", {"broker": 1, "at": "-31s"})
        )
    assert "past" not in text_of(now)
    assert "This is of the past: 2" in text_of(then)
    assert then.structured_content is not None
    assert then.structured_content["complete"] is True


def test_a_past_is_whoever_answers_so():
    assert isinstance(ArchivedMinute().span, Span)
    past: Past = ArchivedMinute()
    assert past.view(NOW_MS - 30_000).view is BEFORE
