"""``make demo`` as a newcomer starts it: it is live, it answers, and Ctrl-C ends all of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from streaming.lab import processes
from streaming.lab.local_cluster import free_base_port
from tests.demo.playing import PORTS, commands

pytestmark = pytest.mark.demo

TABLE: Final = "last known leader"
"""A column of the table of what each loss does, which is the demo's answer."""

GIVES_UP_AFTER_S: Final = 900


def test_the_demo_starts_answers_and_leaves_nothing(tmp_path: Path) -> None:
    base = free_base_port(60, PORTS)
    ports = {"--port": base, "--metrics-port": base + 50, "--prometheus-port": base + 54}
    options = [f"{name}={port}" for name, port in ports.items()]
    demo = subprocess.Popen(
        [sys.executable, "-m", "streaming", "demo", "--home", str(tmp_path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    give_up = threading.Timer(GIVES_UP_AFTER_S, demo.terminate)
    give_up.start()
    printed = []
    assert demo.stdout is not None
    for line in demo.stdout:  # until it ends
        if TABLE in line and not any(TABLE in each for each in printed):
            demo.send_signal(signal.SIGINT)
        printed.append(line)
    give_up.cancel()
    text = "".join(printed)
    assert demo.wait(60) == 0, text
    assert "the twin is live" in text
    assert TABLE in text
    assert "Traceback" not in text
    assert printed[-1] == "stopped: no process and no port is left\n"
    assert [port for port in range(base, base + 60) if processes.is_listening(port)] == []
    assert [command for command in commands() if str(tmp_path) in command] == []
