"""CPU time, memory and files that programs take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.bench.deployment import Process, processes
from tests.bench.small import proportional_bytes

Roots = Mapping[str, int]
"""Process ids of programs by what each is; those that they have started are below it."""


def cpu_s(roots: Roots) -> dict[str, float]:
    """CPU time of each part of the programs that run now, since each began."""
    taken: defaultdict[str, float] = defaultdict(float)
    for part, process in _parts(roots):
        taken[part] += process.cpu_s
    return dict(taken)


def memory_bytes(roots: Roots) -> dict[str, int]:
    """Memory of each part; a page that several processes share counts once in their sum."""
    taken: defaultdict[str, int] = defaultdict(int)
    for part, process in _parts(roots):
        taken[part] += proportional_bytes(process.pid)
    return dict(taken)


def _parts(roots: Roots) -> Iterator[tuple[str, Process]]:
    found = processes()
    below: defaultdict[int, list[Process]] = defaultdict(list)
    for process in found.values():
        below[process.parent].append(process)
    for name, pid in roots.items():
        waiting = [found[pid]] if pid in found else []
        while waiting:
            process = waiting.pop()
            waiting += below[process.pid]
            yield f"{name.split()[0]} {_kind(process.pid)}", process


def _kind(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "program"
    if command.partition(b"\0")[0].endswith(b"java"):
        return "JVM"
    return "workers" if b"pyspark.daemon" in command else "program"


_UNFINISHED: Final = {".tmp", "rbw"}
"""Files that Spark, or HDFS, is writing: both rename them then."""


class Files:
    """The files that have been written below a folder, also those that are gone by now.

    Files of a checkpoint are written once, so it is enough to look now and then.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[Path, int] = {}

    def look(self) -> tuple[int, int]:
        """Bytes of all files so far, and batches that are committed."""
        for file in self._folder.rglob("*"):
            try:
                if file.is_file() and not _UNFINISHED & {file.suffix, *file.parts}:
                    self._sizes[file] = file.stat().st_size
            except FileNotFoundError:  # Spark has renamed or removed it meanwhile
                continue
        batches = sum(f.parent.name == "commits" and f.name.isdigit() for f in self._sizes)
        return sum(self._sizes.values()), batches
