"""Metrics that the tap serves about itself while it follows logs."""

from __future__ import annotations

from pathlib import Path

from streaming.lab.local_cluster import free_base_port
from streaming.runtime.program_metrics import served
from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.broker_tap import MAX_ROWS, BrokerTap
from streaming.tap.counters import registry_of
from streaming.tap.encode import Deployment
from streaming.tap.own_metrics import OWN
from streaming.tap.sources import FileSource
from streaming.tap.topic_ids import LATER, Later, Topic
from tests.scraping import Scraped, assert_declared, judged, needs_promtool, scrape
from tests.tap.lines import SAMPLE, T0_MS, TOPIC_ID, UTC_ZONE, opening

DEPLOYMENT = Deployment("c", 4)


def a_tap(*sources: FileSource, max_rows: int = MAX_ROWS) -> BrokerTap:
    return BrokerTap(BrokerLogParser(1, UTC_ZONE), sources, max_rows)


def scraped_from(tap: BrokerTap) -> Scraped:
    port = free_base_port(span=1)
    with served(registry_of({1: tap}, "c"), "127.0.0.1", port, "x"):
        return scrape(port)


def resolve(key: str) -> Topic | Later | None:
    return Topic("orders", b"o" * 16) if key == TOPIC_ID else None


def test_it_serves_what_is_declared_of_each_broker(tmp_path: Path):
    log = tmp_path / "request.log"
    log.write_bytes(SAMPLE.read_bytes() + b"[x] DEBUG Completed request:{\n")
    tap = a_tap(FileSource(log, from_beginning=True), FileSource(tmp_path / "server.log"))
    tap.read()
    scraped = scraped_from(tap)
    assert_declared(scraped, OWN)
    lines = SAMPLE.read_bytes().count(b"\n")
    assert scraped.series("tap_lines_total") == [({"cluster": "c", "broker": "1"}, lines + 1)]
    assert scraped.value("tap_logs", state="readable") == 1
    assert scraped.value("tap_logs", state="unreadable") == 1
    assert scraped.value("tap_behind_bytes") == 0
    assert scraped.value("tap_messages_total") == 0
    assert {labels["what"] for labels, _ in scraped.series("tap_dropped_total")} == {
        "rows",
        "unknown_topic",
        "messages",
    }


@needs_promtool
def test_promtool_finds_nothing_to_say():
    assert judged(scraped_from(a_tap())) == ""


def test_rows_wait_until_their_topic_is_known_and_then_are_encoded(tmp_path: Path):
    log = tmp_path / "request.log"
    log.write_bytes(opening(T0_MS, {0: 40, 1: 7}) + b"\n")
    tap = a_tap(FileSource(log, from_beginning=True))
    tap.read()
    assert list(tap.messages(DEPLOYMENT, lambda _: LATER, flush=True)) == []
    scraped = scraped_from(tap)
    assert scraped.value("tap_rows_waiting") == 2
    assert scraped.series("tap_rows_total") == []
    assert len(list(tap.messages(DEPLOYMENT, resolve, flush=True))) == 1
    scraped = scraped_from(tap)
    assert scraped.value("tap_rows_waiting") == 0
    assert scraped.value("tap_rows_total", table="fetches") == 2


def test_dropped_rows_and_messages_are_counted_apart(tmp_path: Path):
    log = tmp_path / "request.log"
    log.write_bytes(opening(T0_MS, {0: 40, 1: 7, 2: 9}) + b"\n")
    tap = a_tap(FileSource(log, from_beginning=True), max_rows=1)
    tap.read()
    assert list(tap.messages(DEPLOYMENT, lambda _: None, flush=True)) == []
    scraped = scraped_from(tap)
    assert scraped.value("tap_dropped_total", what="rows") == 2
    assert scraped.value("tap_dropped_total", what="unknown_topic") == 1
    assert scraped.value("tap_dropped_total", what="messages") == 0


def test_a_file_that_grows_faster_than_it_is_read_is_behind_and_then_skipped(tmp_path: Path):
    log = tmp_path / "server.log"
    log.write_bytes(b"a line\n" * 100)
    tap = a_tap(FileSource(log, from_beginning=True, chunk_bytes=70, max_behind_bytes=700))
    tap.read()
    assert scraped_from(tap).value("tap_behind_bytes") == 630
    with log.open("ab") as file:
        file.write(b"a line\n" * 100)
    tap.read()
    scraped = scraped_from(tap)
    assert scraped.value("tap_behind_bytes") == 0
    assert scraped.value("tap_skipped_bytes_total") == 1_330 - 70
