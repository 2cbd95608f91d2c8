"""``kafka-twin run``: the programs of one twin as child processes that are restarted.

A child that ends is started again after a pause. The pause doubles with each restart up to a limit,
and is reset once the child has run for a minute. The other children are not affected.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from streaming.runtime.deadline import Deadline

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
HEALTHY_AFTER_S: Final = 60.0
STOP_WITHIN_S: Final = 75.0
"""Slightly more than the longest time in which the query ends its batch."""

log = structlog.get_logger("run")


@dataclass(slots=True)
class Child:
    """A child process, its restarts and the pause before the next one."""

    name: str
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    due_s: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    restarts: int = 0
    log_file: Path | None = None  # None: the output of this process

    def start(self) -> None:
        """Start the process in its own session, so that Ctrl-C reaches only the supervisor."""
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(self.log_file.open("ab")) if self.log_file else None
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started_s = time.monotonic()
        log.info("started", program=self.name, pid=self.process.pid)

    def check(self, now_s: float) -> None:
        """Restart the process if it has ended and its pause is over."""
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return
            self.process = None
            if now_s - self.started_s >= HEALTHY_AFTER_S:
                self.pause_s = FIRST_PAUSE_S
            self.due_s = now_s + self.pause_s
            log.error("ended", program=self.name, code=code, again_in_s=self.pause_s)
            self.pause_s = min(self.pause_s * 2, LONGEST_PAUSE_S)
        elif now_s >= self.due_s:
            self.restarts += 1
            self.start()

    def stop(self, deadline: Deadline) -> None:
        """Wait until the program has ended after its SIGTERM; kill it at the deadline."""
        if self.process is None:
            return
        try:
            self.process.wait(max(deadline.left_s, 0.1))
        except subprocess.TimeoutExpired:
            log.error("killed", program=self.name, reason="it did not stop in time")
            self.process.kill()
            self.process.wait()


def children(
    config_arguments: Sequence[str], logs: Path | None = None, archive: bool = False
) -> list[Child]:
    """Collector, query and exporter, run by this interpreter; each logs to a file in ``logs``.

    With ``archive`` the archive's program as well.
    """
    return [
        Child(
            name,
            [sys.executable, "-m", "streaming", *config_arguments, name],
            log_file=logs / f"{name}.log" if logs else None,
        )
        for name in ("collector", "query", "exporter", *(["archive"] if archive else []))
    ]


def supervise(
    programs: Sequence[Child], stop: threading.Event, *, stop_within_s: float = STOP_WITHIN_S
) -> None:
    """Keep the programs running until ``stop`` is set, then stop them, the last first.

    A program that has not ended ``stop_within_s`` after that is killed.
    """
    try:
        for program in programs:
            program.start()
        while not stop.wait(0.2):
            for program in programs:
                program.check(time.monotonic())
    finally:
        for program in reversed(programs):
            if program.process is not None and program.process.poll() is None:
                program.process.send_signal(signal.SIGTERM)
        deadline = Deadline.after_s(stop_within_s)
        for program in reversed(programs):
            program.stop(deadline)


@contextlib.contextmanager
def supervised(
    programs: Sequence[Child], *, stop_within_s: float = STOP_WITHIN_S
) -> Iterator[threading.Event]:
    """Supervise programs in a thread, until the event that is yielded is set or the block ends."""
    stop = threading.Event()
    thread = threading.Thread(
        target=supervise,
        args=(programs, stop),
        kwargs={"stop_within_s": stop_within_s},
        name="supervise",
    )
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()
