"""The exporter as a program: what it says when it cannot start, and that it ends when told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.exporter.server import Reading
from streaming.lab.processes import free_base_port
from streaming.runtime.config import Config

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
def an_exporter(path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KAFKA_TWIN_")}
    with subprocess.Popen(
        [sys.executable, "-m", "streaming", "--config", str(path), "exporter"],
        stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and text, as soon as somebody listens."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            assert time.monotonic() < deadline, "nobody listens"
            time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_a_bus_it_serves_says_so_and_ends_when_told(tmp_path, number):
    port = a_free_port()
    with an_exporter(configured(tmp_path, port)) as process:
        assert asked(port, "/healthz") == (503, "no snapshot has been read yet\n")
        status, text = asked(port, "/metrics")
        assert (status, 'kafka_twin_up{cluster="kafka"} 0' in text) == (200, True)
        process.send_signal(number)
        _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
    assert "Traceback" not in said
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again


def test_a_port_that_is_taken_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with an_exporter(configured(tmp_path, port)) as process:
            _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert said == (
        f"Error: exporter.port: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )


def test_a_client_setting_that_does_not_exist_is_one_clear_line(tmp_path):
    path = configured(tmp_path, a_free_port(), 'client.colour = "red"')
    with an_exporter(path) as process:
        _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert said == "Error: cluster.client.colour: is no setting of kafka-python's clients\n"


def test_reading_that_breaks_ends_the_exporter_and_leaves_its_last_words():
    class Breaking(Reading):
        def _read(self) -> None:
            raise ValueError("a bug")

    ended = threading.Event()
    reading = Breaking(Config(), ended.set)
    reading.start()
    assert ended.wait(10)
    reading.stop()
    assert reading.broken == "ValueError: a bug"
