"""Processes are distinguished from others by their id and their command line."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.lab.processes import Processes, send
from tests.waiting import until

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def pid(processes: Processes, tmp_path: Path) -> Iterator[int]:
    pid = processes.spawn(SLEEPS, tmp_path, tmp_path / "log")
    yield pid
    send(pid, signal.SIGKILL)
    until(lambda: processes.state(pid, ()) == "stopped")


def test_a_child_runs_is_paused_goes_on_and_has_ended(processes: Processes, pid: int):
    assert processes.state(pid, ()) == "running"
    send(pid, signal.SIGSTOP)
    until(lambda: processes.state(pid, ()) == "paused")
    send(pid, signal.SIGCONT)
    until(lambda: processes.state(pid, ()) == "running")
    send(pid, signal.SIGTERM)
    until(lambda: processes.state(pid, ()) == "stopped")


def test_another_value_knows_the_process_by_the_words_of_its_command_line(pid: int):
    other = Processes()
    # Before it has become Python its command line is empty for a moment.
    until(lambda: other.state(pid, ("time.sleep(60)", "kafka.Kafka")) == "stopped")
    assert other.state(pid, ("time.sleep(60)",)) == "running"


def test_a_process_that_somebody_else_has_yet_to_reap_has_ended():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    until(lambda: Processes().state(ended.pid, ()) == "stopped")
    assert ended.wait(100) == 0


def test_what_a_process_prints_is_appended_to_its_log(processes: Processes, tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("before\n")
    pid = processes.spawn([sys.executable, "-c", "print('after')"], tmp_path, log)
    until(lambda: processes.state(pid, ()) == "stopped")
    assert log.read_text() == "before\nafter\n"


def test_a_signal_to_a_process_that_has_ended_is_no_error(processes: Processes, tmp_path: Path):
    pid = processes.spawn([sys.executable, "-c", ""], tmp_path, tmp_path / "log")
    until(lambda: processes.state(pid, ()) == "stopped")
    send(pid, signal.SIGTERM)
