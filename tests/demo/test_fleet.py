"""``make demo ARGS="--clusters 3"``: three clusters on one page, and Ctrl-C ends all of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from streaming.cli.main import main
from streaming.lab import processes
from streaming.lab.fleet_demo import LABELS, MOST_CLUSTERS, draw_fleet
from streaming.lab.local_cluster import free_base_port
from tests.demo.playing import PORTS, commands

SHOWN: Final = "worst first"
GIVES_UP_AFTER_S: Final = 900


def test_a_row_says_what_is_worst_and_what_is_not_known():
    rows = [
        {"cluster": "orders", "severity": "critical", "sentence": "A disk is full.", "brokers": 3,
         "partitions": 40, "age_ms": 1_500},
        {"cluster": "stock", "severity": "unknown", "sentence": "No snapshot has been read yet.",
         "brokers": None, "partitions": None, "age_ms": None},
    ]  # fmt: skip
    text = draw_fleet({"clusters": rows}, "http://h:1", "home")
    assert "A disk is full." in text
    assert text.count("unknown") == 4
    assert "http://h:1/clusters/stock/" in text


@pytest.mark.parametrize("options", [["--clusters", "6"],
                                     ["--clusters", "2", "--script", "failover"]])  # fmt: skip
def test_there_are_so_many_clusters_and_incidents_are_of_one(options: list[str]):
    assert len(LABELS) == MOST_CLUSTERS == 5
    refused = CliRunner().invoke(main, ["demo", *options])
    assert refused.exit_code in (1, 2)
    assert "Traceback" not in refused.output


@pytest.mark.incidents
def test_three_clusters_are_shown_and_nothing_is_left(tmp_path: Path) -> None:
    base = free_base_port(110, PORTS)
    ports = {"--port": base, "--metrics-port": base + 100, "--prometheus-port": base + 104}
    options = [f"{name}={port}" for name, port in ports.items()]
    command = ["demo", "--clusters=3", "--home", str(tmp_path), *options]
    demo = subprocess.Popen(
        [sys.executable, "-m", "streaming", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    give_up = threading.Timer(GIVES_UP_AFTER_S, demo.terminate)
    give_up.start()
    printed: list[str] = []
    assert demo.stdout is not None
    for line in demo.stdout:  # until it ends
        if SHOWN in line and not any(SHOWN in each for each in printed):
            demo.send_signal(signal.SIGINT)
        printed.append(line)
    give_up.cancel()
    text = "".join(printed)
    assert demo.wait(60) == 0, text
    for name in ("orders", "payments", "stock"):
        assert f"/clusters/{name}/" in text
    assert "Traceback" not in text
    assert printed[-1] == "stopped: no process and no port is left\n"
    assert [port for port in range(base, base + 110) if processes.is_listening(port)] == []
    assert [command for command in commands() if str(tmp_path) in command] == []
