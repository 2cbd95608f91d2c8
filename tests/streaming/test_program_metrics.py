"""The metrics port of every program."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streaming.cli.main import main
from streaming.lab.local_cluster import free_base_port
from streaming.runtime.program_metrics import MetricsPortError, ProgramMetrics, served
from tests.scraping import Scraped, assert_declared, judged, needs_promtool, scrape
from tests.web import get
from twin.declarations.declare import Metric

DONE = Metric("test_done", "Things that were done.", type="counter")
DONE_BY = Metric("test_done_by", "Things that were done, by who.", labels=("who",), type="counter")
SIZE = Metric("test_size_bytes", "Size of the thing.")
SPENT = Metric("test_spent_seconds", "Time that a thing took.", type="histogram")
DECLARED = (DONE, DONE_BY, SIZE, SPENT)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def served_once(metrics: ProgramMetrics, host: str = "127.0.0.1") -> Scraped:
    port = free_base_port(span=1)
    with served(metrics.registry, host, port, "x"):
        return scrape(port, host)


def test_what_was_counted_is_served_with_the_cluster():
    metrics = ProgramMetrics("c", DECLARED)
    metrics.add(DONE, 2)
    metrics.add(DONE)
    metrics.add(DONE_BY, 1, 'a "quoted"\nname')
    metrics.set(SIZE, 4)
    metrics.observe(SPENT, 0.3)
    scraped = served_once(metrics)
    assert_declared(scraped, DECLARED)
    assert scraped.series("test_done_total") == [({"cluster": "c"}, 3)]
    assert scraped.series("test_done_by_total") == [
        ({"cluster": "c", "who": 'a "quoted"\nname'}, 1)
    ]
    assert scraped.value("test_size_bytes") == 4
    assert scraped.value("test_spent_seconds_sum") == 0.3
    assert scraped.value("test_spent_seconds_bucket", le="0.25") == 0
    assert scraped.value("test_spent_seconds_bucket", le="0.5") == 1


def test_counters_begin_at_zero_and_a_gauge_that_is_unknown_has_no_series():
    scraped = served_once(ProgramMetrics("c", DECLARED))
    assert scraped.value("test_done_total") == 0
    assert scraped.value("test_spent_seconds_count") == 0
    assert scraped.series("test_size_bytes") == []
    assert scraped.series("test_done_created") == []


@needs_promtool
def test_promtool_finds_nothing_to_say():
    metrics = ProgramMetrics("c", DECLARED)
    metrics.set(SIZE, 4)
    assert judged(served_once(metrics)) == ""


def test_nothing_is_served_at_port_0_nor_after_the_program_has_ended():
    registry = ProgramMetrics("c", DECLARED).registry
    with served(registry, "no.such.host.invalid", 0, "x"):
        pass
    port = free_base_port(span=1)
    with served(registry, "127.0.0.1", port, "x"):
        assert get(f"http://127.0.0.1:{port}/metrics")[0] == 200
    assert get(f"http://127.0.0.1:{port}/metrics")[0] == 0
    with served(registry, "127.0.0.1", port, "x"):  # it is free again at once
        assert get(f"http://127.0.0.1:{port}/metrics")[0] == 200


def test_health_is_a_sentence_while_something_is_wrong_and_none_where_nobody_can_tell():
    registry = ProgramMetrics("c", DECLARED).registry
    port, wrong = free_base_port(span=1), [""]
    url = f"http://127.0.0.1:{port}"
    with served(registry, "127.0.0.1", port, "x", lambda: wrong[0]):
        assert get(f"{url}/healthz") == (200, "ok\n")
        wrong[0] = "nobody works"
        assert get(f"{url}/healthz") == (503, "nobody works\n")
        assert "kafka_twin_test_done_total" in get(f"{url}/metrics")[1]
    with served(registry, "127.0.0.1", port, "x"):
        assert get(f"{url}/healthz")[0] == 404


def test_a_host_that_this_machine_does_not_have_is_one_line():
    registry = ProgramMetrics("c", DECLARED).registry
    for host in ("no.such.host.invalid", "192.0.2.1"):
        with (
            pytest.raises(MetricsPortError, match=rf"^x: cannot listen on {host}:9412: \S.*$"),
            served(registry, host, 9412, "x"),
        ):
            pass


@pytest.mark.parametrize(
    ("program", "arguments"), [("collector", []), ("query", []), ("tap", ["1={log}"])]
)
def test_a_port_that_is_taken_is_one_line_before_anything_else_is_started(
    program: str, arguments: list[str], taken: int, tmp_path: Path
):
    if program == "query":
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    log = tmp_path / "server.log"
    log.touch()
    ended = CliRunner().invoke(
        main,
        [program, *(argument.format(log=log) for argument in arguments)],
        env={f"KAFKA_TWIN_METRICS_{program.upper()}_PORT": str(taken)},
    )
    assert ended.exit_code == 1
    assert ended.output == (
        f"Error: metrics.{program}_port: cannot listen on 127.0.0.1:{taken}: "
        "Address already in use\n"
    )


def test_the_option_of_the_tap_wins_over_its_setting(taken: int, tmp_path: Path):
    ended = CliRunner().invoke(
        main,
        ["tap", "--metrics-port", str(taken), f"1={tmp_path}/server.log"],
        env={"KAFKA_TWIN_METRICS_TAP_PORT": "1"},
    )
    assert ended.output == (
        f"Error: --metrics-port: cannot listen on 127.0.0.1:{taken}: Address already in use\n"
    )
