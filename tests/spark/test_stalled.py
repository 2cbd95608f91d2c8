"""A query that tells nothing says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.stalled import Tasks, cause

RUNS, WAITS = Tasks(number=4, active=2, failed=0, completed=1), Tasks(2, 0, 0, 0)


@pytest.mark.parametrize(
    ("executors", "stages", "text", "is_problem"),
    [
        (0, [], "no executor has registered", True),
        (2, [Tasks(2, 1, 5, 0)], "failed tasks: 5", True),
        (1, [WAITS], "tasks that wait for a free core: 2", True),
        (1, [RUNS], "running tasks: 2, waiting tasks: 1", False),
        (1, [], "the driver works", False),
    ],
)
def test_the_likeliest_cause_is_named(
    executors: int, stages: list[Tasks], text: str, is_problem: bool
) -> None:
    why = cause(executors, stages)
    assert why.text.startswith(text)
    assert why.is_problem == is_problem


PROGRAM = """
import pathlib, sys, threading, time
from pyspark.sql import SparkSession
from streaming.query.session import _needed_at_start
from streaming.query.stalled import Stall, observed_cause
from streaming.runtime.config import Config
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name, value in _needed_at_start(Config(), ()).items():
    builder = builder.config(name, value)
context, begun = builder.getOrCreate().sparkContext, pathlib.Path(sys.argv[1])
def task(_):
    begun.touch()
    time.sleep(6)
first = threading.Thread(target=lambda: context.parallelize([0], 1).foreach(task))
print(observed_cause(context).text)
first.start()
while not begun.exists():
    assert first.is_alive()
    time.sleep(0.1)
print(observed_cause(context).text)
stall = Stall(context, 0.0)
stall.check()
stall.check()
first.join()
"""


@pytest.mark.spark
def test_what_a_session_does_is_observed_and_said_once(tmp_path: Path) -> None:
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "begun")], timeout=600, check=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "the driver works" in output
    assert output.count("no batch has ended") == 1
    assert output.count("running tasks: 1, waiting tasks: 0") == 2
