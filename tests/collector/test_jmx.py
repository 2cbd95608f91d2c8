"""Brokers' own metrics: what is exported has Kafka's meaning, and what is not is absent."""

from __future__ import annotations

import math
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.problem import Problem
from streaming.collector.scraping.scrape import scrape_all
from streaming.collector.scraping.signals import Samples, Scrape, served, signals_of
from streaming.collector.sources.jmx import MetricsSource, ScrapedMetrics, urls
from streaming.collector.wire.connections import Address, BrokerConnections
from streaming.runtime.config import BusConfig, CollectorConfig, Config
from tests.collector.fake_broker import Partition, Topic, World, fake_cluster
from tests.collector.fake_exporter import NEVER_S, TEXT, Exporter
from tests.waiting import AMPLE_MS, patient_ms, until
from twin.engine import frames
from twin.tables.broker_columns import BROKER_METRICS
from twin.tables.observations import BrokerMetricsFrame


def samples_of(text: str) -> Samples:
    return served(text).samples


RULES = Path(__file__).parents[2] / "deploy" / "jmx" / "kafka.yml"

NEEDS_TWO = {
    "remote_copy_errors_per_s",
    "remote_delete_errors_per_s",
    "remote_fetch_requests_per_s",
    "remote_fetch_bytes_per_s",
    "remote_fetch_errors_per_s",
    "remote_read_mean_ms",
    "aux_state_builds_per_s",
    "aux_state_errors_per_s",
    "isr_shrinks_per_s",
    "isr_expands_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "replication_bytes_in_per_s",
    "replication_bytes_out_per_s",
}
"""Signals that one scrape cannot give."""

SUMS = {"remote_copy_lag_bytes", "remote_copy_lag_segments", "uncleanable_partitions"}
"""Signals of several series."""


def changed(**values: float) -> str:
    """The text with other values of series that have no labels."""
    lines = []
    for line in TEXT.splitlines():
        name = line.split(" ")[0]
        lines.append(f"{name} {values[name]}" if name in values else line)
    return "\n".join(lines) + "\n"


def signals(text: str, before: str | None = None, after_s: float = 10.0) -> dict[str, float]:
    earlier = None if before is None else Scrape(100.0, samples_of(before))
    return signals_of(Scrape(100.0 + after_s, samples_of(text)), earlier)


def present(values: dict[str, float]) -> set[str]:
    return {name for name, value in values.items() if not math.isnan(value)}


# ---------------------------------------------------------------- from text to signals


def test_one_scrape_gives_every_signal_but_those_that_need_two() -> None:
    values = signals(TEXT)
    assert set(values) == set(BROKER_METRICS)
    assert {name: value for name, value in values.items() if name in present(values)} == {
        "fetch_follower_p99_ms": 503.0,
        "fetch_follower_local_p99_ms": 1.5,
        "fetch_follower_queue_p99_ms": 0.5,
        "fetch_consumer_p99_ms": 40.0,
        "request_queue_size": 7.0,
        "request_handlers_idle_ratio": 0.99,
        "fetch_purgatory_size": 12.0,
        "remote_copy_lag_bytes": 4300.0,
        "remote_copy_lag_segments": 4.0,
        "remote_reader_queue_size": 1.0,
        "remote_reader_idle_ratio": 0.9,
        "log_cleaner_dead_threads": 0.0,
        "uncleanable_partitions": 3.0,
    }
    assert set(BROKER_METRICS) - present(values) == NEEDS_TWO


def test_counters_become_rates_by_the_second_between_two_scrapes() -> None:
    later = changed(
        kafka_broker_remote_fetch_requests_total=150,
        kafka_isr_shrinks_total=4,
        kafka_remote_reads_total=15,
    )
    values = signals(later, before=TEXT, after_s=10)
    assert values["remote_fetch_requests_per_s"] == 5.0
    assert values["isr_shrinks_per_s"] == 0.1
    assert values["isr_expands_per_s"] == 0.0


def test_the_mean_of_remote_reads_is_that_of_the_reads_in_between() -> None:
    """10 reads took 50 ms; 5 more took 100 ms, so the mean of all 15 is 10 ms."""
    later = changed(kafka_remote_reads_total=15, kafka_remote_read_mean_ms=10)
    assert signals(later, before=TEXT)["remote_read_mean_ms"] == pytest.approx(20.0)
    assert math.isnan(signals(TEXT, before=TEXT)["remote_read_mean_ms"])


@pytest.mark.parametrize(
    "again",
    [
        changed(kafka_isr_shrinks_total=0, process_start_time_seconds=1.8e9),
        changed(kafka_isr_shrinks_total=900, process_start_time_seconds=1.8e9),
        changed(kafka_isr_shrinks_total=0),
    ],
)
def test_a_broker_that_was_started_anew_gives_what_a_first_scrape_does(again: str) -> None:
    """Also where one counter has already passed what it was: all began at 0 again."""
    assert present(signals(again, before=TEXT)) == set(BROKER_METRICS) - NEEDS_TWO


def test_a_quantile_of_requests_that_ended_long_ago_is_absent() -> None:
    """Kafka reports the last quantile for ever: nobody consumes since the scrape before."""
    later = TEXT.replace('{request="FetchFollower"} 20', '{request="FetchFollower"} 21')
    values = signals(later, before=TEXT)
    assert values["fetch_follower_p99_ms"] == 503.0
    assert math.isnan(values["fetch_consumer_p99_ms"])


def test_a_quantile_of_no_request_at_all_is_absent_and_not_0() -> None:
    idle = TEXT.replace('{request="FetchConsumer"} 10', '{request="FetchConsumer"} 0')
    assert math.isnan(signals(idle)["fetch_consumer_p99_ms"])


def test_a_meter_that_has_not_ticked_is_absent_and_not_0() -> None:
    assert math.isnan(
        signals(changed(kafka_request_handlers_idle_ratio=0.0))["request_handlers_idle_ratio"]
    )


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_values_that_are_no_number_are_absent(value: str) -> None:
    values = signals(
        TEXT.replace("kafka_request_queue_size 7.0", f"kafka_request_queue_size {value}")
    )
    assert math.isnan(values["request_queue_size"])
    assert values["remote_reader_queue_size"] == 1.0


def test_a_family_that_is_not_exported_makes_its_signal_absent_and_no_other() -> None:
    for family in ("kafka_delayed_operations", "kafka_isr_shrinks_total",
                   "kafka_remote_reads_total", "kafka_broker_remote_copy_lag_bytes",
                   "kafka_requests_total"):  # fmt: skip
        without = "\n".join(x for x in TEXT.split("\n") if not x.startswith(family))
        assert present(signals(without, before=TEXT)) < set(BROKER_METRICS)
        assert math.isnan(signals(TEXT, before=without)["isr_shrinks_per_s"]) == (
            family == "kafka_isr_shrinks_total"
        )


def test_a_broker_before_4_2_reports_its_readers_by_the_name_of_that_time() -> None:
    old = TEXT.replace("kafka_remote_reader_idle_ratio 0.9\n", "")
    assert signals(old)["remote_reader_idle_ratio"] == 0.8


def test_a_lag_is_0_where_only_internal_topics_have_one() -> None:
    """Read a moment later, theirs may even be more than the sum was."""
    values = signals(changed(kafka_broker_remote_copy_lag_bytes=600))
    assert values["remote_copy_lag_bytes"] == 0.0


def test_the_last_line_of_text_that_was_cut_off_is_not_believed() -> None:
    cut = TEXT[: TEXT.index("kafka_request_queue_size 7.0") + len("kafka_request_queue_size 7")]
    assert math.isnan(signals(cut)["request_queue_size"])


def test_much_that_is_not_needed_costs_little() -> None:
    """Other series are not even parsed: here they could not be."""
    other = "".join(f'kafka_log_size{{partition="{n}" is no series\n' for n in range(25_000))
    text = other + TEXT
    assert len(text) > 900_000
    assert samples_of(text) == samples_of(TEXT)
    with pytest.raises(ValueError, match="could not convert"):
        list(text_string_to_metric_families(other))


@given(st.text() | st.text(alphabet='kafka_requsize{}="0.9\\\n #NaInf-+eE\x00\u2028'))
def test_text_of_any_kind_is_read_or_refused(text: str) -> None:
    for whole in (text, f"kafka_request_queue_size{text}\n",
                  f"kafka_delayed_operations{{{text}}} 1\n",
                  f'kafka_request_queue_size{{a="{text}"}} {text}\n'):  # fmt: skip
        try:
            values = signals(whole)
        except ValueError:
            continue
        assert set(values) == set(BROKER_METRICS)
        assert not any(math.isinf(value) for value in values.values())


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_cut_text_gives_nothing_that_the_whole_does_not(first: int, second: int) -> None:
    whole, part = signals(TEXT), signals(TEXT[:first])
    for name in present(part) - SUMS:
        assert part[name] == whole[name] or name == "remote_reader_idle_ratio"
    assert set(signals(TEXT[:first], before=TEXT[:second])) == set(BROKER_METRICS)


# ---------------------------------------------------------------- exporters


def address(broker: int, host: str = "127.0.0.1", port: int = 9092) -> Address:
    return Address(broker, host, port, "")


def section(*exporters: Exporter, **settings: Any) -> CollectorConfig:
    """Brokers 1, 2 ... have these exporters."""
    values = {"deadline_ms": patient_ms(400), "metrics_interval_ms": 200,
              "metrics_urls": {str(n): e.url for n, e in enumerate(exporters, 1)}}  # fmt: skip
    return CollectorConfig(**(values | settings))


@pytest.fixture
def measure() -> Iterator[Callable[..., MetricsSource]]:
    """Starts asking; ends it."""
    started: list[MetricsSource] = []

    def make(wanted: CollectorConfig, brokers: int = 3) -> MetricsSource:
        metrics = MetricsSource(wanted)
        started.append(metrics)
        metrics.update_metadata(address(n) for n in range(1, brokers + 1))
        return metrics

    yield make
    for metrics in started:
        metrics.close()


def taken(metrics: MetricsSource) -> pa.Table:
    """The next measurements; fails if there are none in time."""

    def tables() -> list[pa.Table]:
        return [] if (table := metrics.take()) is None else [table]

    [measured] = until(tables, 10, "no measurements", pause_s=0.01)
    return measured


def test_each_broker_has_a_row_of_its_own(exporter, measure) -> None:
    queues = [changed(kafka_request_queue_size=n) for n in (1, 2, 3)]
    before_ms = int(time.time() * 1_000)
    table = taken(measure(section(*(exporter(text=text) for text in queues))))
    assert table.schema.equals(BrokerMetricsFrame.schema())
    rows = table.to_pylist()
    assert [(r["broker"], r["request_queue_size"]) for r in rows] == [(1, 1), (2, 2), (3, 3)]
    assert all(before_ms <= r["measured_at_ms"] <= time.time() * 1_000 for r in rows)
    assert all(math.isnan(r["isr_shrinks_per_s"]) for r in rows)


def test_the_next_scrape_has_rates_and_a_later_time(exporter) -> None:
    one = exporter()
    metrics = MetricsSource(section(one, deadline_ms=AMPLE_MS), background=False)
    metrics.update_metadata([address(1)])
    before_s = time.monotonic()
    metrics.read_now()
    after_s = time.monotonic()
    (first,) = taken(metrics).to_pylist()
    one.text = changed(kafka_isr_shrinks_total=1_003)
    time.sleep(0.1)
    began_s = time.monotonic()
    metrics.read_now()
    (second,) = taken(metrics).to_pylist()
    assert second["measured_at_ms"] > first["measured_at_ms"]
    assert second["isr_shrinks_per_s"] >= 1_000 / (time.monotonic() - before_s)
    assert second["isr_shrinks_per_s"] <= 1_000 / (began_s - after_s)


def test_what_was_taken_is_not_given_again(exporter, measure) -> None:
    metrics = MetricsSource(section(exporter()), background=False)
    metrics.update_metadata([address(1)])
    metrics.read_now()
    assert taken(metrics).num_rows == 1
    assert metrics.take() is None
    metrics.read_now()
    assert taken(metrics).num_rows == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"status": 404}, "HTTP status 404"),
        ({"status": 401}, "HTTP status 401"),
        ({"delay_s": NEVER_S}, "did not answer within the deadline"),
        ({"drip_s": 0.05}, "did not answer within the deadline"),
        ({"cut": 10}, "not to the end"),
        (
            {"text": "<html></html>"},
            "has no signal: it serves no series; known are the names of deploy/jmx/kafka.yml, ",
        ),
        ({"text": ""}, "has no signal"),
        (
            {"text": "process_start_time_seconds 1.7E9\n"},
            "has no signal: it serves process_start_time_seconds and others",
        ),
        ({"text": "kafka_request_queue_size much\n"}, "is not in Prometheus' text format"),
        ({"text": "kafka_request_queue_size 1" + "0" * 400 + "\n"}, "has no signal"),
    ],
)
def test_an_exporter_that_fails_has_no_row_and_one_line_says_why(
    exporter, measure, wrong: dict[str, Any], says: str
) -> None:
    metrics = measure(section(exporter(), exporter(**wrong)), 2)
    assert taken(metrics).column("broker").to_pylist() == [1]
    (problem,) = metrics.problems
    assert problem.place == ("metrics", 2)
    assert says in problem.text
    assert "\n" not in problem.text


def test_nobody_listening_is_said_too(measure) -> None:
    metrics = measure(
        CollectorConfig(metrics_url="http://127.0.0.1:1/metrics", metrics_interval_ms=200), 1
    )
    until(lambda: metrics.problems, 10, "no problem", pause_s=0.01)
    text = "http://127.0.0.1:1/metrics: Connection refused"
    assert metrics.problems == (Problem("metrics", 1, "ConnectionRefused", text),)
    assert metrics.take() is None


def test_an_answer_that_is_too_large_is_given_up(exporter) -> None:
    size = len(TEXT.encode())
    url = exporter().url
    assert scrape_all({1: url}, 60.0, max_bytes=size)[1].problem is None
    problem = scrape_all({1: url}, 60.0, max_bytes=size - 1)[1].problem
    assert problem == Problem("metrics", 1, "TooLarge", f"{url}: sends more than {size - 1} bytes")


def test_all_are_asked_at_once(exporter) -> None:
    """Each waits until all have been asked, so that one after the other would never end."""
    everybody = threading.Barrier(8)
    asked = {n: exporter(before=lambda: everybody.wait(200)).url for n in range(8)}
    results = scrape_all(asked, 250.0)
    assert [r.problem for r in results.values()] == [None] * 8


def test_redirects_are_not_followed(exporter) -> None:
    there = exporter()
    problem = scrape_all({1: exporter(status=302, location=there.url).url}, 60.0)[1].problem
    assert problem is not None
    assert problem.error == "HTTP302"
    assert there.asked == []


def test_proxies_of_the_environment_are_not_used(exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert scrape_all({1: exporter().url}, 60.0)[1].problem is None


def test_a_compressed_answer_is_not_asked_for(exporter) -> None:
    one = exporter()
    scrape_all({1: one.url}, 60.0)
    assert one.headers[0]["Accept-Encoding"] == "identity"


def test_a_broker_that_answers_again_has_a_rate_over_all_of_the_time(exporter) -> None:
    one = exporter()
    metrics = MetricsSource(section(one, deadline_ms=AMPLE_MS), background=False)
    metrics.update_metadata([address(1)])
    metrics.read_now()
    one.status = 500
    metrics.read_now()
    one.status, one.text = 200, changed(kafka_isr_shrinks_total=4)
    metrics.read_now()
    (row,) = taken(metrics).to_pylist()
    assert row["isr_shrinks_per_s"] > 0
    assert metrics.problems == ()


class RawServer(socketserver.ThreadingTCPServer):
    """Sends the same bytes to everybody and hangs up."""

    daemon_threads = True
    sent = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/metrics"


class RawHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            self.request.recv(1 << 16)
            self.request.sendall(self.server.sent)


@pytest.fixture(scope="module")
def raw_server() -> Iterator[RawServer]:
    with RawServer(("127.0.0.1", 0), RawHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@given(
    st.sampled_from(
        (
            b"",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
    ),
    st.binary(max_size=300),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_bytes_of_any_kind_are_an_answer_or_a_reason(
    raw_server: RawServer, head: bytes, body: bytes
) -> None:
    raw_server.sent = head + body
    (result,) = scrape_all({1: raw_server.url}, 200.0).values()
    assert (result.problem is None) == bool(result.samples)
    assert result.problem is None or "\n" not in result.problem.text


def test_a_url_is_filled_in_and_a_brokers_own_wins() -> None:
    wanted = CollectorConfig(
        metrics_url="https://{host}:7071/b{broker}?p={port}", metrics_urls={"2": "http://x/m"}
    )
    brokers = [address(1, "a"), address(2, "b"), address(3, "::1"), address(4, "", -1)]
    assert urls(wanted, brokers) == {
        1: "https://a:7071/b1?p=9092",
        2: "http://x/m",
        3: "https://[::1]:7071/b3?p=9092",
    }


def test_nothing_is_started_where_no_url_is_configured() -> None:
    with MetricsSource(CollectorConfig()) as metrics:
        metrics.update_metadata([address(1)])
        assert metrics.take() is None
        assert "metrics" not in {thread.name for thread in threading.enumerate()}


def test_a_bug_in_the_background_is_not_silence(exporter, measure) -> None:
    metrics = measure(section(exporter(), deadline_ms="soon"))
    with pytest.raises(TypeError):
        taken(metrics)


# ---------------------------------------------------------------- in a cycle


def test_a_cycle_sends_every_shard_what_is_new_and_the_next_does_not(exporter, measure) -> None:
    world = World(topics={"plain": Topic({0: Partition([3])})}, racks={1: "", 2: "", 3: ""})
    wanted = section(exporter(), exporter(), exporter(status=404), metrics_interval_ms=60_000)
    config = Config(bus=BusConfig(shards=4), collector=wanted)
    with (
        fake_cluster(world) as cluster,
        BrokerConnections(cluster.bootstrap, {}, patient_ms(600)) as brokers,
        MetricsSource(wanted) as metrics,
    ):
        collector = Collector(config, brokers, metrics)

        def cycle() -> list[frames.Frame]:
            observation = collector.observe()
            assert observation is not None
            messages = [message for _, message in ObservationEncoder().encode(observation)]
            return [frame for message in messages for frame in frames.decode(message).frames]

        def measurements() -> list[frames.Frame]:
            return [f for f in cycle() if f.header.kind == "broker_metrics"]

        measured = until(measurements, 10, pause_s=0.01)
        assert {f.header.shard for f in measured} == {0, 1, 2, 3}
        assert len({(f.header.observed_at_ms, f.header.cycle) for f in measured}) == 1
        assert measured[0].rows.column("broker").to_pylist() == [1, 2]
        assert ("metrics", 3, "HTTP404") in {p.cause for p in collector.problems}
        again = cycle()
        assert not any(f.header.kind == "broker_metrics" for f in again)
        assert ("metrics", 3, "HTTP404") in {p.cause for p in collector.problems}


def test_a_silent_exporter_does_not_delay_a_cycle(exporter) -> None:
    """It answers when the cycles are over, or never."""
    world = World(topics={"plain": Topic({0: Partition([1])})}, racks={1: ""})
    over, asked = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        over.wait(600)

    wanted = section(exporter(before=wait), deadline_ms=patient_ms(10_000))
    with (
        fake_cluster(world) as cluster,
        BrokerConnections(cluster.bootstrap, {}, patient_ms(2_000)) as brokers,
        MetricsSource(wanted) as metrics,
    ):
        collector = Collector(Config(collector=wanted), brokers, metrics)
        collector.observe()
        assert asked.wait(200)
        observation = collector.observe()
        assert observation is not None
        assert observation.readings.get(ScrapedMetrics) is None
        assert not over.is_set()
        over.set()


# ---------------------------------------------------------------- rules


def test_every_rule_is_anchored_typed_and_of_a_name_of_its_own() -> None:
    rules = yaml.safe_load(RULES.read_text())["rules"]
    for rule in rules:
        assert rule["pattern"].startswith("^"), rule
        assert rule["pattern"].endswith(":"), rule  # else Mean takes MeanRate as well
        assert rule["type"] in ("GAUGE", "COUNTER")
        assert (rule["type"] == "COUNTER") == rule["name"].endswith("_total")
        assert rule["name"].startswith("kafka_")
    assert len({rule["pattern"] for rule in rules}) == len(rules)
