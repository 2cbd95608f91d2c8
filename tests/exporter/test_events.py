"""Events over HTTP, on real sockets: in order, from where a client left off, and with an end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from streaming.bus.record import Record
from streaming.bus.view import Event
from streaming.exporter.events.log import Cursor, EventLog, position_of
from streaming.exporter.events.stream import MAX_STREAMS
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from tests.builders import NOW_MS
from tests.exporter.serving import served
from tests.waiting import PATIENCE, until
from tests.web import get
from twin.builtin import CATALOG

WITHIN_S = 20


class Bus:
    """Writes events to a log as the reading thread does, by turns to each partition."""

    def __init__(self, *, kept: int = 10_000, partitions: int = 2, **more: Any) -> None:
        self.log = EventLog(kept, **more)
        self.log.begin(dict.fromkeys(range(partitions), (0, 0)))
        self.log.publish()
        self._partitions, self._count = partitions, 0

    def report(self, times: int = 1, *, kind: str = "leader_moved", text: str = "", **more: Any):
        for _ in range(times):
            n, self._count = self._count, self._count + 1
            value = msgspec.json.encode(
                {"id": str(n), "kind": kind, "cluster": "c", "text": text or str(n), **more}
            )
            partition, offset = n % self._partitions, n // self._partitions
            record = Record("events", partition, offset, None, value, NOW_MS)
            self.log.take(record, msgspec.json.decode(value, type=Event))
        self.log.publish()


class Stream:
    """A client's side: messages as a browser's EventSource reports them."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.iter_lines()
        self.id = ""

    def __next__(self) -> tuple[str, Any]:
        """Kind and data of the next message; those without data only move the id."""
        kind, data = "message", ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            match name:
                case "id":
                    self.id = value
                case "event":
                    kind = value
                case "data":
                    data += value
                case "" if data and not line:
                    return kind, json.loads(data)
        raise StopIteration

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self

    def texts(self, count: int) -> list[str]:
        """The texts of the next events."""
        events = [next(self) for _ in range(count)]
        assert [kind for kind, _ in events] == ["message"] * count
        return [event["text"] for _, event in events]

    def begun(self) -> Stream:
        """Wait until the server has sent the client its position."""
        while not self.id:
            line = next(self._lines)
            self.id = line.removeprefix("id: ") if line.startswith("id: ") else ""
        return self


@pytest.fixture
def bus() -> Bus:
    return Bus()


def serving(bus: Bus, **more: Any) -> AbstractContextManager[str]:
    """The URL of an exporter over that log, which ends as the exporter does."""
    source = ViewSource(CATALOG, "c", Exposition, events=bus.log)
    return served(application(source), bus.log, **more)


@contextmanager
def reading(url: str, last_id: str = "", **asked: Any) -> Iterator[Stream]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with httpx2.stream(
        "GET", f"{url}/api/v1/events", params=asked, headers=headers, timeout=WITHIN_S
    ) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response).begun() if not last_id else Stream(response)


def metric(url: str, name: str) -> float:
    [line] = [each for each in get(f"{url}/metrics")[1].splitlines()
              if each.startswith(f"kafka_twin_{name}{{")]  # fmt: skip
    return float(line.rpartition(" ")[2])


def test_a_new_client_gets_what_happens_from_now_on(bus: Bus):
    bus.report(3)
    with serving(bus) as url, reading(url) as stream:
        bus.report(text="now")
        kind, event = next(stream)
    assert (kind, event["text"], event["kind"]) == ("message", "now", "leader_moved")


def test_a_client_goes_on_behind_the_event_that_it_names(bus: Bus):
    with serving(bus) as url:
        with reading(url) as stream:
            bus.report(5)
            assert stream.texts(2) == ["0", "1"]
            last_id = stream.id
        bus.report(1)
        with reading(url, last_id) as stream:
            assert stream.texts(4) == ["2", "3", "4", "5"]


def test_the_id_means_the_same_to_another_exporter_and_after_a_restart():
    bus, other = Bus(), Bus()
    with serving(bus) as url, reading(url) as stream:
        bus.report(3)
        stream.texts(2)
    other.report(4)
    with serving(other) as url, reading(url, stream.id) as stream:
        assert stream.texts(2) == ["2", "3"]


def test_two_clients_read_at_once_each_at_its_own_place(bus: Bus):
    with serving(bus) as url, reading(url) as one, reading(url) as two:
        bus.report(2)
        assert one.texts(2) == ["0", "1"]
        bus.report(1)
        assert two.texts(3) == ["0", "1", "2"]
        assert one.texts(1) == ["2"]
        assert metric(url, "event_streams") == 2


def test_filters_leave_the_others_out_and_the_id_moves_past_them(bus: Bus):
    with serving(bus) as url:
        with reading(url, kind=["isr_shrank", "leader_moved"], topic="t", broker=1) as stream:
            bus.report(topic="t", broker=1, text="both")
            bus.report(topic="u", broker=1)
            bus.report(topic="t", broker=2)
            bus.report(kind="reassigned", topic="t", broker=1)
            bus.report(kind="isr_shrank", topic="t", broker=1, text="last")
            assert stream.texts(2) == ["both", "last"]
        assert position_of(stream.id) == {0: 3, 1: 2}


def test_events_that_are_no_longer_kept_are_a_gap_and_those_that_are_follow():
    bus = Bus(kept=4, partitions=1)
    bus.report(10)
    with serving(bus) as url:
        with reading(url, "0:3") as stream:
            kind, gap = next(stream)
            assert (kind, "no longer kept" in gap["text"]) == ("gap", True)
            assert stream.id == "0:6"
            assert stream.texts(4) == ["6", "7", "8", "9"]
        with reading(url, "0:6") as stream:
            assert stream.texts(1) == ["6"]
        assert metric(url, "event_stream_gaps_total") == 1


def test_an_id_from_beyond_the_end_is_a_gap_since_the_topic_is_another_one(bus: Bus):
    bus.report(4)
    with serving(bus) as url, reading(url, "0:2,1:700") as stream:
        assert next(stream)[0] == "gap"
        assert stream.texts(2) == ["1", "3"]


def test_what_was_on_the_bus_before_the_exporter_read_it_is_a_gap():
    log = EventLog(kept=10)
    log.begin({0: (0, 100), 1: (95, 100)})
    for partition in (0, 1):
        log.take(Record("events", partition, 99, None, b"", NOW_MS), None)
    log.publish()
    assert log.pull(Cursor({0: 95, 1: 95})).missed is False
    assert log.pull(Cursor({0: 94, 1: 95})).missed
    assert log.pull(Cursor({0: 95, 1: 94})).missed


def test_a_topic_that_is_created_anew_is_a_gap_for_those_who_read_the_old_one(bus: Bus):
    with serving(bus) as url, reading(url) as stream:
        bus.report(4)
        stream.texts(4)
        bus.log.begin({0: (0, 1), 1: (0, 1)})
        bus.log.publish()
        assert next(stream)[0] == "gap"
        assert stream.id == "0:0,1:0"


def test_what_the_bus_dropped_during_an_outage_is_a_gap(bus: Bus):
    with serving(bus) as url, reading(url) as stream:
        bus.report(4)
        stream.texts(4)
        bus.log.begin({0: (2, 9), 1: (5, 9)})
        bus.log.publish()
        assert next(stream)[0] == "gap"
        assert stream.id == "0:2,1:5"


def test_repeated_records_are_read_past():
    bus = Bus(partitions=1)
    with serving(bus) as url, reading(url) as stream:
        bus.report(1)
        bus.log.take(Record("events", 0, 1, None, b"", NOW_MS), None)
        bus._count += 1
        bus.report(1)
        assert stream.texts(2) == ["0", "2"]
    assert stream.id == "0:3"


def test_before_the_topic_was_read_once_a_new_client_gets_nothing_of_the_past():
    log = EventLog()
    log.begin({0: (0, 2)})
    cursor = Cursor()
    log.take(Record("events", 0, 0, None, b"{}", NOW_MS), Event("1", "k", "c"))
    log.publish(is_ready=False)
    assert log.pull(cursor).entries == ()
    log.publish()
    assert log.pull(cursor).entries == ()
    assert cursor.id == "0:1"


# ---------------------------------------------------------------- limits


@contextmanager
def stuck(url: str, last_id: str) -> Iterator[socket.socket]:
    """A client that asks and reads nothing, with a small buffer of its own."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        lines = ("GET /api/v1/events HTTP/1.1", f"Host: {host}", f"Last-Event-ID: {last_id}")
        client.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        yield client


def a_large_bus(kept: int = 64) -> Bus:
    bus = Bus(kept=kept, partitions=1)
    bus.report(kept, padding="x" * 100_000)
    return bus


def test_a_slow_reader_holds_up_nobody_and_learns_what_it_missed():
    bus = a_large_bus()
    with serving(bus) as url, stuck(url, "0:0") as slow, reading(url) as quick:
        until(lambda: metric(url, "event_streams") == 2, WITHIN_S)
        for _ in range(100):
            bus.report(padding="x" * 100_000)
            quick.texts(1)
        slow.settimeout(WITHIN_S)
        received = bytearray()
        while b"event: gap" not in received:
            received += slow.recv(1 << 20)
        assert metric(url, "event_stream_gaps_total") == 1


def test_what_is_kept_has_an_end_in_bytes_as_well():
    bus = Bus(kept_bytes=1_000_000, partitions=1)
    bus.report(100, padding="x" * 100_000)
    entries = bus.log.pull(Cursor({0: 0}))
    assert entries.missed
    assert 0 < sum(len(entry.data) for entry in bus.log._entries) <= 1_000_000


def test_so_many_read_at_once_and_the_next_one_is_refused():
    bus = Bus()
    with (
        serving(bus) as url,
        httpx2.Client(limits=httpx2.Limits(max_connections=None), timeout=WITHIN_S) as client,
    ):
        path = f"{url}/api/v1/events"
        open_ones = [
            client.send(client.build_request("GET", path), stream=True) for _ in range(MAX_STREAMS)
        ]
        assert {each.status_code for each in open_ones} == {200}
        refused = client.get(path)
        assert (refused.status_code, refused.json()) == (
            503,
            {"error": "100 others read events already"},
        )
        for each in open_ones:
            each.close()
        until(lambda: metric(url, "event_streams") == 0, WITHIN_S)


@pytest.mark.parametrize(
    ("asked", "last_id", "why"),
    [
        ({}, "yesterday", "Last-Event-ID: 'yesterday' is no id of an event"),
        ({"topic": ["a", "b"]}, "0:1", "topic: it is given twice"),
        ({"kind": "leader_moved", "colour": "red"}, "0:1", "colour: there is no such parameter"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(bus: Bus, asked: Any, last_id: str, why: str):
    with serving(bus) as url:
        path = f"{url}/api/v1/events"
        refused = httpx2.get(path, params=asked, headers={"Last-Event-ID": last_id})
        assert (refused.status_code, refused.json()) == (400, {"error": why})
        unknown = httpx2.get(path, params={"kind": "rain"})
        assert unknown.json()["error"].startswith("kind: 'rain' is none of broker_answers, ")
        assert httpx2.head(path).status_code == 200


# ---------------------------------------------------------------- the end


def test_a_reader_that_takes_nothing_does_not_keep_the_exporter_from_ending(caplog: Any):
    bus = a_large_bus()
    with ExitStack() as clients, serving(bus) as url:
        clients.enter_context(stuck(url, "0:0"))
        until(lambda: metric(url, "event_streams") == 1, WITHIN_S)
    # Uvicorn logs clients that it has to cut off itself.
    assert [each.getMessage() for each in caplog.records if each.name.startswith("uvicorn")] == []


def test_a_reader_that_takes_nothing_for_long_is_cut_off():
    bus = a_large_bus()
    with serving(bus, stalled_after_ms=1_000) as url, stuck(url, "0:0") as client:
        client.settimeout(PATIENCE * WITHIN_S)
        # The response has begun. A metric may be read too late to show that.
        assert client.recv(1, socket.MSG_PEEK)
        until(lambda: metric(url, "event_streams") == 0, WITHIN_S)


def test_streams_end_when_the_exporter_does(bus: Bus):
    with serving(bus) as url, reading(url) as one, reading(url) as two:
        bus.report()
        one.texts(1), two.texts(1)
        bus.log.close()
        assert list(one) == list(two) == []
