"""A live exporter with an archive answers of its past, and of now as before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from starlette.testclient import TestClient

from streaming.bus.view import view_of
from streaming.exporter.archived import past_of
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.history.moment import MomentError, time_text
from streaming.runtime.config import ArchiveConfig, ClusterConfig, Config
from tests.archive.bus import CLUSTER, SHARDS, Program, SimulatedBus
from twin.builtin import CATALOG
from twin.tables.state import Assignment, Partitions


def a_client(bus: SimulatedBus, folder: Path) -> TestClient:
    config = Config(cluster=ClusterConfig(name=CLUSTER), archive=ArchiveConfig(path=str(folder)))
    newest = bus.states[-1]
    view = view_of(CATALOG, [newest[n] for n in range(SHARDS)], newest[-1], SHARDS, 5_000)
    now_ms, past = bus.at_ms(len(bus.states)), past_of(config)
    assert past is not None
    with suppress(MomentError):  # as the exporter's thread does
        past.look()
    source = ViewSource(
        CATALOG, CLUSTER, lambda: Exposition(view), lambda: now_ms, newest=lambda: view,
        past=past,
    )  # fmt: skip
    return TestClient(application(source))


def test_a_partition_a_loss_and_the_changes_are_answered_from_the_archive(tmp_path: Path):
    bus = SimulatedBus()
    for _ in range(12):
        bus.cycle()
    bus.event("a", bus.at_ms(5))
    Program(bus, tmp_path).run()
    client = a_client(bus, tmp_path)
    for cycle in (0, 4, 10):
        at = time_text(bus.at_ms(cycle))
        state = bus.states[cycle][1]
        found = client.get("/api/v1/partitions/topic-1-1/2", params={"at": at}).json()
        row = state.topic_names().tolist().index("topic-1-1") + 2
        assert found["leader"] == state[Partitions].leader[row]
        assert found["at"] == at
        assert found["complete"]
        brokers = [replica["broker"] for replica in found["replicas"]]
        assert brokers == state[Assignment].broker[row].tolist()
    at = time_text(bus.at_ms(6))
    loss = client.get("/api/v1/whatif/lose", params={"broker": 1, "at": at})
    assert (loss.status_code, loss.json()["at"]) == (200, at)
    changes = client.get("/api/v1/history/changes").json()
    assert changes["counts"]["leader"] == 1
    difference = client.get("/api/v1/diff", params={"from": time_text(bus.at_ms(2)), "to": at})
    assert difference.status_code == 200
    events = client.get("/api/v1/history/events", params={"from": time_text(bus.at_ms(5))}).json()
    assert [each["at_ms"] for each in events["events"]] == [bus.at_ms(5)]
    span = {"from": time_text(bus.at_ms(2)), "to": time_text(bus.at_ms(9)), "format": "json"}
    report = client.get("/api/v1/report", params=span)
    assert report.status_code == 200, report.text
    assert report.json()["cycles"] == 8
    now = client.get("/api/v1/partitions/topic-1-1/2").json()
    assert "complete" not in now


def test_an_archive_without_a_cycle_is_said_and_the_present_is_served(tmp_path: Path):
    bus = SimulatedBus()
    bus.cycle()
    client = a_client(bus, tmp_path / "nothing")
    assert client.get("/api/v1/summary").status_code == 200
    refused = client.get("/api/v1/summary", params={"at": "-1m"})
    assert (refused.status_code, refused.json()) == (404, {"error": "at: nothing is archived yet"})
    assert client.get("/api/v1/history/changes").status_code == 404
