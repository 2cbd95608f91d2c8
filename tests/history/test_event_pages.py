"""All events of a span of the past, paged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from streaming.exporter.events.log import KEPT
from streaming.exporter.web_application import application
from streaming.history.moment import time_text
from tests.history.recorded import RecordedPast, a_recording, at
from tests.history.test_at import LIVE
from tests.simulator.shard import Shape

MANY = KEPT + 2_500
PATH = "/api/v1/history/events"


def an_event(number: int) -> bytes:
    kind = "leader_moved" if number % 3 else "isr_shrank"
    return msgspec.json.encode(
        {"id": f"e{number}", "kind": kind, "cluster": "sim", "topic": f"t{number % 2}",
         "at_ms": at(0) + 1 + number % 4_000, "text": f"event {number}", "partition": 0}
    )  # fmt: skip


@pytest.fixture(scope="module")
def api() -> TestClient:
    recorded = a_recording(3, 1, shape=Shape(topics=1, partitions=1, brokers=3))
    events = sorted(map(an_event, range(MANY)), key=lambda e: msgspec.json.decode(e)["at_ms"])
    past = RecordedPast(replace(recorded, events=[*events, events[-1]]))
    return TestClient(application(replace(LIVE, past=past)))


def asked(api: TestClient, **parameters: Any) -> Any:
    answer = api.get(PATH, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_pages_have_every_event_once_also_more_than_the_stream_keeps(api: TestClient):
    found: list[str] = []
    while True:
        page = asked(api, limit=1_000, offset=len(found))
        assert page["total"] == MANY
        if not page["events"]:
            break
        found += [each["id"] for each in page["events"]]
    assert sorted(found) == sorted(f"e{number}" for number in range(MANY))


def test_the_newest_come_first_if_asked_for(api: TestClient):
    times = [each["at_ms"] for each in asked(api, sort="newest", limit=500)["events"]]
    assert times == sorted(times, reverse=True)
    assert times[0] == at(0) + 4_000
    oldest = [each["at_ms"] for each in asked(api, limit=500)["events"]]
    assert oldest == sorted(oldest)


def test_a_span_and_a_filter_choose_events(api: TestClient):
    to_ms = at(0) + 50
    page = asked(api, to=time_text(to_ms), kind="isr_shrank", topic="t0", limit=1_000)
    expected = [
        number
        for number in range(MANY)
        if 1 + number % 4_000 <= 50 and number % 3 == 0 and number % 2 == 0
    ]
    assert sorted(each["id"] for each in page["events"]) == sorted(f"e{n}" for n in expected)
    assert page["total"] == len(expected)


def test_an_exporter_of_the_present_has_no_events_of_the_past():
    assert TestClient(application(LIVE)).get(PATH).status_code == 404
