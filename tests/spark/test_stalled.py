"""A query that tells nothing says why."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.stalled import Tasks, cause

RUNS, WAITS = Tasks(number=4, active=2, failed=0, completed=1), Tasks(2, 0, 0, 0)


@pytest.mark.parametrize(
    ("executors", "stages", "text", "is_problem"),
    [
        (0, [], "no executor has registered", True),
        (2, [Tasks(2, 1, 5, 0)], "5 tasks failed", True),
        (1, [WAITS], "2 tasks wait for a free core", True),
        (1, [RUNS], "2 tasks run, and 1 wait", False),
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
import threading, time
from pyspark.sql import SparkSession
from streaming.query.stalled import Stall, observed_cause
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
# A task that starts within 0.1 s after its stage is in Spark's status with the next heartbeat only.
context = builder.config("spark.executor.heartbeatInterval", "1s").getOrCreate().sparkContext
def job(): context.parallelize([0], 1).map(lambda _: time.sleep(8)).count()
print(observed_cause(context).text)
first = threading.Thread(target=job); first.start()
stall, seen = Stall(context, 0.0), ""
while "tasks run" not in seen:
    assert first.is_alive(), seen
    seen = observed_cause(context).text
print(seen)
stall.check()
stall.check()
first.join()
"""


@pytest.mark.spark
def test_what_a_session_does_is_observed_and_said_once() -> None:
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert "the driver works" in output
    assert output.count("no batch has ended") == 1
    assert output.count("1 tasks run, and 0 wait") == 2
