"""CPU seconds by file of tests, as the processes of pytest noted them (``inside.py``)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.runner import inside

SHOWN: Final = 20


def times(folder: Path) -> Mapping[str, tuple[float, float]]:
    """CPU and wall-clock seconds by file, of all runs in a folder."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for path in folder.glob(f"*/{inside.TIMES}/*.json"):
        for name, of in json.loads(path.read_text()).items():
            sums[name] = [a + b for a, b in zip(sums[name], of, strict=True)]
    return {name: (cpu_s, wall_s) for name, (cpu_s, wall_s) in sums.items()}


def lines(of: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """The dearest files, and what the others took together."""
    by_cpu = sorted(of.items(), key=lambda item: -item[1][0])
    for name, (cpu_s, wall_s) in by_cpu[:SHOWN]:
        yield f"  {cpu_s:6.0f} s CPU  {wall_s:6.0f} s  {name}"
    others = by_cpu[SHOWN:]
    if others:
        cpu_s, wall_s = (sum(seconds[n] for _, seconds in others) for n in (0, 1))
        yield f"  {cpu_s:6.0f} s CPU  {wall_s:6.0f} s  {len(others)} other files"
