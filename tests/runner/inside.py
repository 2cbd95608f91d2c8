"""What a process of pytest does for the runner: it notes CPU seconds, and shows stacks if asked.

``tests/conftest.py`` calls it in each process. Without ``TEST_FOLDER`` it does nothing.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = "TEST_FOLDER"
"""The environment variable with the folder of a run: its processes write there."""

STACKS, TIMES = "stacks", "times"
"""Folders in it, in which each process has a file that is named by its id."""

COLLECTION: Final = "(imports and collection)"

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def register(config: pytest.Config) -> None:
    """Register what a run asks for."""
    if folder := os.environ.get(FOLDER):
        _show_stacks_when_asked(Path(folder) / STACKS)
        shares_out = getattr(config.option, "dist", "no") != "no"
        if not shares_out or hasattr(config, "workerinput"):
            config.pluginmanager.register(_Times(Path(folder) / TIMES))


def _show_stacks_when_asked(folder: Path) -> None:
    """At SIGUSR2 all threads write their stacks into a file; no lock of Python is needed for it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / str(os.getpid())).open("w")
    faulthandler.register(signal.SIGUSR2, file=file, all_threads=True)


class _Times:
    """CPU and wall-clock seconds of each file, with all processes that its tests start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._of: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._last = cpu_s(), time.monotonic()

    def _add_to(self, name: str) -> None:
        now = cpu_s(), time.monotonic()
        for n, (before, after) in enumerate(zip(self._last, now, strict=True)):
            # A process that ends and that nobody waits for takes its time with it.
            self._of[name][n] += max(0.0, after - before)
        self._last = now

    def pytest_collection_finish(self) -> None:
        self._add_to(COLLECTION)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._add_to(nodeid.partition("::")[0])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{os.getpid()}.json").write_text(json.dumps(self._of))


def cpu_s() -> float:
    """CPU seconds of this process and of all its descendants, where it has /proc."""
    ticks, pids = 0, [str(os.getpid())]
    while pids:
        pid = pids.pop()
        with suppress(OSError, ValueError):  # it has ended: then its parent has its time
            ticks += _ticks(pid)
            pids += _children(pid)
    return ticks / _TICKS_PER_S


def _ticks(pid: str) -> int:
    """Of a process and of those children that it has waited for."""
    after_name = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, after_name[11:15]))  # utime, stime, cutime, cstime: proc(5)


def _children(pid: str) -> list[str]:
    tasks = os.listdir(f"/proc/{pid}/task")
    files = (Path(f"/proc/{pid}/task/{task}/children") for task in tasks)
    return [child for file in files for child in file.read_text().split()]
