"""``make demo`` as a newcomer starts it: it is live, it answers, and it ends by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streaming.lab import processes
from streaming.lab.cluster import free_base_port
from tests.demo.playing import NEEDS_PROMETHEUS, PORTS, commands

pytestmark = [pytest.mark.demo, NEEDS_PROMETHEUS]

LIVE_FOR_S = 10
ENDS_WITHIN_S = 900


def test_the_demo_starts_answers_and_leaves_nothing(tmp_path: Path) -> None:
    base = free_base_port(60, PORTS)
    ports = {"--port": base, "--metrics-port": base + 50, "--prometheus-port": base + 54}
    options = [f"{name}={port}" for name, port in ports.items()]
    done = subprocess.run(
        [sys.executable, "-m", "streaming", "demo", "--home", str(tmp_path), *options,
         "--seconds", str(LIVE_FOR_S)],
        capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "the twin is live" in printed
    assert "last known leader" in printed, "the table of what each loss does"
    assert "Traceback" not in printed
    assert [port for port in range(base, base + 60) if processes.is_listening(port)] == []
    assert [command for command in commands() if str(tmp_path) in command] == []
