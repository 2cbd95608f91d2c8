"""Runs the same parts of the bench with two builds, in turn.

Machines are noisy and shared, so figures of two runs cannot be compared. Here each build runs the
parts with its own code and its own bench, pair by pair. Then there is a line for each figure that
both print: the least, median and largest ratio of the pairs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench import figure

HERE: Final = Path(__file__).parents[2]

Name = tuple[tuple[str, Any], ...]
"""A figure with what it is about, without what differs from run to run."""

_OF_A_RUN: Final = ("value", "load", "unit")


def main(before: Path, pairs: int, arguments: Sequence[str]) -> None:
    """Print the figures of every run as they come, and the ratios at the end."""
    builds = {"before": before.resolve(), "this": HERE}
    found: defaultdict[Name, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for pair in range(pairs):
        for build, folder in builds.items():
            for line in _figures(folder, arguments):
                print(json.dumps({"build": build, "pair": pair, **line}), flush=True)
                name = tuple((k, v) for k, v in line.items() if k not in _OF_A_RUN)
                found[name][build].append(line["value"])
    for name, values in found.items():
        if len(values["before"]) == len(values["this"]) == pairs and all(values["before"]):
            _compare(dict(name), values["before"], values["this"])


def _compare(about: dict[str, Any], before: list[float], this: list[float]) -> None:
    ratios = [mine / theirs for mine, theirs in zip(this, before, strict=True)]
    figure(
        f"{about.pop('figure')}_ratio", statistics.median(ratios), "x", **about,
        least=round(min(ratios), 3), largest=round(max(ratios), 3),
        before=[round(each, 3) for each in before], this=[round(each, 3) for each in this],
    )  # fmt: skip


def _figures(folder: Path, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The figures that the bench of the build in that folder prints, as it prints them."""
    # Spark's Python workers would import what is installed: the build that is here.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "tests.bench", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stdout is not None
        for line in bench.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    if bench.returncode:
        raise SystemExit(f"the bench of {folder} ended with {bench.returncode}")
