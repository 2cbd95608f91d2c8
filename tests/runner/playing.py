"""One run, as a process group of its own, that can be ended with its stacks and leaves nothing."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.runner import inside
from tests.runner.declared import Run

ENDS_WITHIN_S: Final = 60.0
"""For tests that are interrupted to stop brokers and containers."""

STACKS_WITHIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended.

    Attributes:
        run: which.
        why: empty if it ended by itself, otherwise why it was ended.
        code: its exit code; negative for a signal.
        wall_s, cpu_s: what it took, with the processes that it waited for.
        log: the file with what it printed.
        failed: tests that failed.
    """

    run: Run
    why: str
    code: int
    wall_s: float
    cpu_s: float
    log: Path
    failed: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return self.code == 0 and not self.why

    @property
    def last_line(self) -> str:
        """What it says of itself at its end."""
        lines = self.log.read_text(errors="replace").rstrip().splitlines()
        return lines[-1].strip("= ") if lines else ""


class Playing:
    """A run that plays."""

    def __init__(
        self, run: Run, folder: Path, environment: Mapping[str, str], *, is_again: bool = False
    ) -> None:
        """Start it.

        Args:
            run: what to play.
            folder: for its log and what pytest keeps; made if it is missing.
            environment: of its process.
            is_again: only tests that failed in this folder, one at a time, with a log of its own.
        """
        self.run = run
        self.folder = folder
        self.log = folder / ("again.log" if is_again else "log")
        folder.mkdir(parents=True, exist_ok=True)
        more = ("--last-failed", "-n", "0") if is_again else ()
        options = environment.get("PYTEST_ADDOPTS", "")
        cache = shlex.quote(f"cache_dir={folder / 'cache'}")
        temporary = folder / "tmp"  # what killed processes leave there ends with the folder
        temporary.mkdir(exist_ok=True)
        own = {inside.FOLDER: str(folder), "PYTEST_ADDOPTS": f"{options} -o {cache}",
               "TMPDIR": str(temporary)}  # fmt: skip
        self._began_s = time.monotonic()
        with self.log.open("ab") as log:  # stacks are added while it may still write
            self._process = subprocess.Popen(
                [*_nice(run), *_program(run.command[0]), *run.command[1:], *more],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**environment, **own}, start_new_session=True,
            )  # fmt: skip
        self._nice = run.nice
        _nice_session(self._process.pid, run.nice)

    def hurry(self) -> None:
        """Give it the priority of every other program: nothing is left that it would hold up."""
        if self._nice:
            self._nice = 0
            _nice_session(self._process.pid, 0)

    @property
    def played_s(self) -> float:
        return time.monotonic() - self._began_s

    def ended(self, why: str = "") -> Ended | None:
        """The result, if the process has ended."""
        with suppress(ChildProcessError):
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = code = os.waitstatus_to_exitcode(status)
                cpu_s = usage.ru_utime + usage.ru_stime
                failed = tuple(self._failed())
                return Ended(self.run, why, code, self.played_s, cpu_s, self.log, failed)
        return None

    def end(self, why: str) -> Ended:
        """End it as Ctrl-C would, after its stacks were added to its log; kill what is left."""
        with self.log.open("a") as log:
            print(f"\n{self.run.name}: {why}", *self._stacks(), sep="\n", file=log)
        self._signal(signal.SIGINT)
        give_up_s = time.monotonic() + ENDS_WITHIN_S
        while (ended := self.ended(why)) is None:
            if time.monotonic() > give_up_s:
                self._signal(signal.SIGKILL)
            time.sleep(0.05)
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return ended

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _stacks(self) -> Iterator[str]:
        """The stacks of those processes of pytest that still run."""
        own = set(self._left())
        files = sorted((self.folder / inside.STACKS).glob("*"))
        files = [file for file in files if int(file.name) in own]
        for file in files:
            os.kill(int(file.name), signal.SIGUSR2)
        time.sleep(STACKS_WITHIN_S if files else 0)
        for file in files:
            yield f"stacks of process {file.name}:\n{file.read_text()}"

    def _left(self) -> Iterator[int]:
        """Processes of this run, also those in sessions of their own: by their environment."""
        mark = f"{inside.FOLDER}={self.folder}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    yield int(path.parent.name)

    def _failed(self) -> Iterator[str]:
        """As pytest remembers them."""
        with suppress(FileNotFoundError):
            file = self.folder / "cache" / "v" / "cache" / "lastfailed"
            yield from json.loads(file.read_text())


def counts(line: str) -> dict[str, int]:
    """How many tests passed, failed, and so on, by the last line of pytest."""
    return {
        kind.rstrip("s") if kind == "errors" else kind: int(count)
        for count, kind in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", line)
    }


def machine_cpu_s() -> float:
    """CPU seconds of all processes of this machine since it started; NaN without /proc."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    except OSError:
        return math.nan
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _nice(run: Run) -> list[str]:
    return ["nice", "-n", str(run.nice)] if run.nice else []


def _nice_session(pid: int, nice: int) -> None:
    """Linux may share a core by sessions: then priorities count among processes of one, and those
    of a session have one for all of them, sched(7)."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def _program(name: str) -> list[str]:
    """Programs of this environment; others are looked for on the PATH."""
    if name == "python":
        return [sys.executable]
    if name == "pytest":
        return [sys.executable, "-m", "pytest"]
    return [name]
