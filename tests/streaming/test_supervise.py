"""The supervisor: what falls is started again, ever later, and what is stopped is gone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from streaming.runtime import supervise
from streaming.runtime.deadline import Deadline
from streaming.runtime.supervise import Child, children, supervised
from tests.waiting import until

LIVES = "import time; print('it lives', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + LIVES


def child(tmp_path: Path, program: str, name: str = "one") -> Child:
    return Child(name, [sys.executable, "-c", program], log_file=tmp_path / f"{name}.log")


def lines_of(program: Child) -> int:
    """How many times it has come up so far."""
    assert program.log_file is not None
    return program.log_file.read_text().count("it lives") if program.log_file.exists() else 0


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_child_that_falls_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    falls, lives = child(tmp_path, LIVES, "falls"), child(tmp_path, LIVES, "lives")
    falls.pause_s = 0.1
    with supervised([falls, lives]):
        until(lambda: lines_of(falls) == 1 and lines_of(lives) == 1)
        assert falls.process is not None
        first = falls.process.pid
        os.kill(first, signal.SIGKILL)
        # Its line may be there before the supervisor has noted the process that wrote it.
        second = until(lambda: lines_of(falls) == 2 and falls.process and falls.process.pid)
        assert second != first
        assert lives.process is not None
        other = lives.process.pid
    assert (falls.restarts, lives.restarts) == (1, 0)
    assert all(is_gone(pid) for pid in (first, second, other))


def test_each_pause_before_a_restart_is_twice_the_last_up_to_a_limit(tmp_path: Path) -> None:
    program = child(tmp_path, "raise SystemExit(3)")
    program.start()
    now_s, pauses = program.started_s, []
    for _ in range(9):
        assert program.process is not None
        program.process.wait(200)
        program.check(now_s)  # sees that it fell
        pauses.append(program.due_s - now_s)
        program.check(program.due_s - 0.001)
        assert program.process is None, "started before its pause was over"
        now_s = program.due_s
        program.check(now_s)
        program.started_s = now_s  # as if the clock were the test's
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])
    program.stop(Deadline.after_s(20))


def test_a_child_that_has_lived_long_enough_begins_with_the_first_pause_again(
    tmp_path: Path,
) -> None:
    program = child(tmp_path, "raise SystemExit(3)")
    program.pause_s = 32
    program.start()
    assert program.process is not None
    program.process.wait(200)
    now_s = program.started_s + supervise.HEALTHY_AFTER_S
    program.check(now_s)
    assert program.due_s - now_s == pytest.approx(supervise.FIRST_PAUSE_S)


def test_a_child_that_will_not_stop_is_killed_at_the_deadline(tmp_path: Path) -> None:
    deaf = child(tmp_path, DEAF)
    with supervised([deaf], stop_within_s=0.5):
        until(lambda: lines_of(deaf) == 1)
        assert deaf.process is not None, f"it ended: {deaf.log_file and deaf.log_file.read_text()}"
        pid = deaf.process.pid
    assert is_gone(pid)
    assert deaf.process.returncode == -signal.SIGKILL


def test_a_stop_while_a_child_waits_for_its_restart_starts_nothing(tmp_path: Path) -> None:
    falls = child(tmp_path, "print('it lives', flush=True); raise SystemExit(3)")
    falls.pause_s = 30
    with supervised([falls]):
        until(lambda: falls.due_s > 0)
    assert lines_of(falls) == 1
    assert falls.process is None


def test_the_programs_are_run_by_this_interpreter_with_the_same_configuration(
    tmp_path: Path,
) -> None:
    programs = children(["--config", "x.toml"], tmp_path)
    assert [p.command for p in programs] == [
        [sys.executable, "-m", "streaming", "--config", "x.toml", program]
        for program in ("collector", "query", "exporter")
    ]
    assert [p.log_file for p in programs] == [
        tmp_path / name for name in ("collector.log", "query.log", "exporter.log")
    ]
