"""What programs ask the gate is kept, and what the console asks is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from streaming.bus.connection import BusError
from streaming.exporter.events import asked as asking
from streaming.exporter.events.asked import AGAIN_AFTER_S, AskedGate, sending
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.routes.questions import CONSOLE_HEADER
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime.config import ClusterConfig, Config, ExporterConfig
from tests.builders import NOW_MS
from tests.exporter.test_exporter import a_full_store
from twin.builtin import CATALOG

CONFIG = Config(cluster=ClusterConfig(name="c"))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The verdicts whose events were sent."""
    found: list[Mapping[str, Any]] = []
    monkeypatch.setattr(asking, "send_judged", lambda _, given, __: found.append(given))
    return found


def verdict(broker: int, said: str) -> Any:
    return {"brokers": [broker], "verdict": said}


def test_an_answer_to_a_program_is_kept_and_one_to_the_console_is_not():
    kept: list[Mapping[str, Any]] = []
    rendered = Renderer(CATALOG, "c", ExporterConfig()).render(a_full_store().view)
    source = ViewSource(CATALOG, "c", lambda: rendered, lambda: NOW_MS, asked=kept.append)
    client = TestClient(application(source, ExporterConfig()))
    path = "/api/v1/brokers/1/restart"
    seen = client.get(path, headers={CONSOLE_HEADER: "1"})
    assert (seen.status_code, kept) == (200, [])
    answer = client.get(path)
    assert kept == [answer.json()]
    assert client.get("/api/v1/brokers/99/restart").status_code == 404
    client.get("/api/v1/brokers/in-sync")
    assert len(kept) == 1


def test_a_verdict_is_sent_once_until_it_changes_or_time_has_passed(
    sent: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    gate, now_s = AskedGate(CONFIG), [1_000.0]
    monkeypatch.setattr(asking.time, "monotonic", lambda: now_s[0])
    given = [(1, "unsafe"), (1, "unsafe"), (2, "unsafe"), (1, "safe"), (1, "unsafe")]
    for broker, said in given:
        gate(verdict(broker, said))
    now_s[0] += AGAIN_AFTER_S
    gate(verdict(1, "unsafe"))
    gate.end()
    gate.send()
    assert sent == [
        verdict(*each)
        for each in [(1, "unsafe"), (2, "unsafe"), (1, "safe"), (1, "unsafe"), (1, "unsafe")]
    ]


def test_verdicts_that_cannot_be_sent_are_said_and_those_after_them_are_sent(
    monkeypatch: pytest.MonkeyPatch,
):
    tried: list[Mapping[str, Any]] = []

    def refuse(config: Config, given: Mapping[str, Any], at_ms: int) -> None:
        tried.append(given)
        raise BusError("no right")

    monkeypatch.setattr(asking, "send_judged", refuse)
    gate = AskedGate(CONFIG)
    with capture_logs() as logged:
        gate(verdict(1, "safe"))
        gate(verdict(2, "safe"))
        with sending(gate):
            pass  # what waits is sent before the end
    assert len(tried) == 2
    assert [each["why"] for each in logged] == ["no right"]  # the same reason once
