"""Resident memory of the programs, sampled once a minute, and whether it stays flat."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from tests.soak.background import Background

SAMPLE_EVERY_S: Final = 60.0
JUDGED_FROM_SAMPLES: Final = 30
"""Half an hour: before that the JVM still fills its heap for the first time."""

MOST_GROWTH_PERCENT: Final = 15
_WORKER: Final = b"pyspark.daemon"


class Process(NamedTuple):
    """A process of this machine."""

    parent: int
    resident_bytes: int
    command: bytes


@dataclass
class MemorySampler(Background):
    """A thread that samples the programs' memory until it is stopped."""

    pids: Callable[[], Mapping[str, int]]  # of the programs, by name
    samples: dict[str, list[int]] = field(default_factory=dict)  # bytes by part

    def run(self) -> None:
        """Sample until the block ends."""
        while True:
            for part, size in parts(processes(), self.pids()).items():
                self.samples.setdefault(part, []).append(size)
            if self.over.wait(SAMPLE_EVERY_S):
                return


def processes() -> dict[int, Process]:
    """All processes, by id."""
    page = os.sysconf("SC_PAGE_SIZE")
    running: dict[int, Process] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
            running[int(entry.name)] = Process(int(fields[1]), int(fields[21]) * page, command)
    return running


def parts(running: Mapping[int, Process], programs: Mapping[str, int]) -> dict[str, int]:
    """Resident bytes of each program and its children; Spark's Python workers are their own part.

    A program that does not run at the moment is left out.
    """
    sizes: dict[str, int] = {}
    for name, pid in programs.items():
        below = [p for p in running if p == pid or pid in _ancestors(running, p)]
        for process in (running[p] for p in below):
            part = f"{name} workers" if _WORKER in process.command else name
            sizes[part] = sizes.get(part, 0) + process.resident_bytes
    return sizes


def _ancestors(running: Mapping[int, Process], pid: int) -> set[int]:
    above: set[int] = set()
    while pid in running and (pid := running[pid].parent) not in above:
        above.add(pid)
    return above


class Thirds(NamedTuple):
    """Mean memory of the middle and the last third of the samples."""

    middle_bytes: float
    last_bytes: float

    @property
    def is_flat(self) -> bool:
        """The last third is not more than 15 % above the middle one."""
        return 100 * self.last_bytes <= (100 + MOST_GROWTH_PERCENT) * self.middle_bytes


def thirds(samples: Sequence[int]) -> Thirds | None:
    """The middle and the last third; None with fewer than three samples."""
    third = len(samples) // 3
    if not third:
        return None
    return Thirds(mean(samples[-2 * third : -third]), mean(samples[-third:]))
