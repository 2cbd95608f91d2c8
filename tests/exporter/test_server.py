"""The exporter as a program: one clear line when it cannot start, and a clean end on a signal."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.exporter.intake.bus_reading import BusReading
from streaming.exporter.intake.cluster_reading import STUCK_AFTER_S, ClusterReading
from streaming.lab.processes import free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.builders import Partition, a_state
from tests.waiting import until
from twin.declarations.table import UNKNOWN
from twin.engine import codec

WITHIN_S = 60


def a_free_port() -> int:
    return free_base_port(1)


def configured(tmp_path: Path, port: int, more: str = "") -> Path:
    """A configuration whose bus nobody answers."""
    path = tmp_path / "twin.toml"
    path.write_text(
        f'[cluster]\nbootstrap = "127.0.0.1:{a_free_port()}"\n{more}\n[exporter]\nport = {port}\n'
    )
    return path


@contextmanager
def an_exporter(path: Path, **given: str) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KAFKA_TWIN_")} | given
    with subprocess.Popen(
        [sys.executable, "-m", "streaming", "--config", str(path), "exporter"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answer_of(port: int, path: str) -> tuple[int, str]:
    """Status and text, as soon as somebody listens."""

    def answer() -> tuple[int, str] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=200) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None

    return until(answer, WITHIN_S, "nobody listens")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_a_bus_it_serves_says_so_and_ends_on_a_signal(tmp_path, number):
    port = a_free_port()
    with an_exporter(configured(tmp_path, port)) as process:
        status, text = answer_of(port, "/healthz")
        assert (status, text.startswith("no snapshot has been read yet")) == (503, True)
        status, text = answer_of(port, "/metrics")
        assert (status, 'kafka_twin_up{cluster="kafka"} 0' in text) == (200, True)
        process.send_signal(number)
        _, printed = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
    assert "Traceback" not in printed
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again


def test_several_clusters_are_served_and_come_with_the_file(tmp_path):
    port = a_free_port()
    path = configured(tmp_path, port)
    one = path.read_text().replace("[cluster]", "[clusters.{name}]")
    path.write_text(one.format(name="orders"))
    with an_exporter(path) as process:
        status, text = answer_of(port, "/healthz")
        assert (status, text.startswith("orders: no snapshot has been read yet")) == (503, True)
        assert "kafka-twin" in answer_of(port, "/")[1]
        assert answer_of(port, "/clusters/payments/healthz")[0] == 404
        two = one.format(name="payments").partition("[exporter]")[0]
        path.write_text(two + path.read_text())
        until(lambda: answer_of(port, "/clusters/payments/healthz")[0] == 503)
        _, text = answer_of(port, "/metrics")
        for name in ("orders", "payments"):
            assert f'kafka_twin_up{{cluster="{name}"}} 0' in text
        process.send_signal(signal.SIGTERM)
        _, printed = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
    assert "Traceback" not in printed


def test_of_a_fleet_one_cluster_may_be_served_as_if_it_were_alone(tmp_path):
    port = a_free_port()
    path = configured(tmp_path, port)
    both = path.read_text().replace("[cluster]", "[clusters.orders]") + "[clusters.payments]\n"
    path.write_text(both)
    with an_exporter(path, KAFKA_TWIN_CLUSTER="orders"):
        status, text = answer_of(port, "/healthz")
        assert (status, text.startswith("no snapshot has been read yet")) == (503, True)
        assert answer_of(port, "/clusters/payments/")[0] == 404
        assert answer_of(port, "/api/v1/fleet")[0] == 404


def test_a_client_that_reads_events_does_not_keep_it_from_ending(tmp_path):
    port = a_free_port()
    with an_exporter(configured(tmp_path, port)) as process:
        answer_of(port, "/healthz")
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/events", timeout=200
        ) as events:
            assert events.readline() == b"retry: 2000\n"
            process.send_signal(signal.SIGTERM)
            _, printed = process.communicate(timeout=WITHIN_S)
            assert events.read() == b"\n"
    assert process.returncode == 0
    assert "Traceback" not in printed


def test_a_port_that_is_taken_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with an_exporter(configured(tmp_path, port)) as process:
            _, printed = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert printed == (
        f"Error: exporter.port: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )


def test_its_first_line_names_what_the_environment_overrides(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        path = configured(tmp_path, a_free_port())
        with an_exporter(path, KAFKA_TWIN_EXPORTER_PORT=port) as process:
            _, printed = process.communicate(timeout=WITHIN_S)
    first, last = printed.splitlines()
    assert "the environment wins over the file" in first
    assert "settings=KAFKA_TWIN_EXPORTER_PORT" in first
    assert last.startswith(f"Error: exporter.port: cannot listen on 127.0.0.1:{port}: ")


def test_a_client_setting_that_does_not_exist_is_one_clear_line(tmp_path):
    path = configured(tmp_path, a_free_port(), 'client.colour = "red"')
    with an_exporter(path) as process:
        _, printed = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert printed == "Error: cluster.client.colour: not a setting of kafka-python's clients\n"


def test_reading_that_breaks_ends_the_exporter_and_keeps_the_cause():
    class Breaking(BusReading):
        def _read(self) -> None:
            raise ValueError("a bug")

    broken, ended = list[str](), threading.Event()
    reading = Breaking(lambda why: (broken.append(why), ended.set()))
    reading.start()
    assert ended.wait(100)
    reading.stop()
    assert broken == ["ValueError: a bug"]


def test_reading_that_stands_still_is_said_after_two_minutes():
    reader = ClusterReading(Config())
    assert reader.why_stuck == ""
    reader.turned_at_s -= STUCK_AFTER_S
    assert reader.why_stuck == "no snapshots were read for 120 s"


def test_a_view_is_rendered_at_its_first_scrape_and_copied_at_the_next():
    config = Config(cluster=ClusterConfig(name="c"), bus=BusConfig(shards=1))
    reader = ClusterReading(config)
    reader._store.take_snapshot(b"c/0", codec.encode(a_state(Partition())))
    before = reader.exposition()
    reader.publish(UNKNOWN)
    first = reader.exposition()
    reader.note_silence()
    second = reader.exposition()
    assert (len(before.view.shards), len(first.view.shards)) == (0, 1)
    assert second.blocks is first.blocks
    assert second.view is reader.view
    assert not second.view.bus.answers
