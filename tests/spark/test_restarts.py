"""A query whose Python worker needs longer than Spark waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.buses.restarts import STARTS, run_despite_passing_causes
from streaming.query.twin_query import QueryError

LATE = "[STREAM_FAILED] org.apache.spark.SparkException: Python worker failed to connect back."

PYTHON = """#!/bin/sh
# The first worker of the driver is late.
case "$*" in *driver_worker*) if mkdir {folder}/late 2>/dev/null; then sleep 12; fi ;; esac
exec {python} "$@"
"""

PROGRAM = """
import sys, time
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor
from streaming.query.buses.restarts import run_despite_passing_causes
from streaming.query.why_failed import cause
from streaming.query.twin_query import QueryError
from streaming.query.session import _needed
from streaming.runtime.config import Config, QueryConfig
from streaming.runtime.logs import configure
configure()
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name, value in _needed(Config(query=QueryConfig(state_partitions=1))).items():
    builder = builder.config(name, value)
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()

class Count(StatefulProcessor):
    def init(self, handle): ...
    def handleInputRows(self, key, rows, timer): yield from ()

def run():
    rows = spark.readStream.format("rate").option("rowsPerSecond", "5").load()
    query = (
        rows.groupBy("value").transformWithState(Count(), "v long", "Append", "None")
        .writeStream.format("noop").option("checkpointLocation", sys.argv[1]).start()
    )
    while query.isActive and not (query.lastProgress or {}).get("stateOperators"):
        time.sleep(0.2)
    if not query.isActive:
        raise QueryError(cause(query, "bus"))
    query.stop()

run_despite_passing_causes(run)
print("a batch has ended")
"""


@pytest.mark.spark
def test_a_query_whose_python_worker_is_late_is_started_again_in_the_same_session(tmp_path):
    python = tmp_path / "python"
    python.write_text(PYTHON.format(folder=tmp_path, python=sys.executable))
    python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint")],
        env=os.environ | {"PYSPARK_PYTHON": str(python)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.endswith("a batch has ended\n")
    [warning] = [line for line in done.stderr.splitlines() if "starting again" in line]
    assert "failed to connect back" in warning


def test_a_python_worker_that_never_starts_ends_the_query():
    starts = []

    def run() -> None:
        starts.append(1)
        raise QueryError(LATE)

    with pytest.raises(QueryError, match="failed to connect back"):
        run_despite_passing_causes(run)
    assert len(starts) == STARTS


def test_another_reason_ends_the_query():
    starts = []

    def run() -> None:
        starts.append(1)
        raise QueryError("TopicAuthorizationException: not authorized to access topics")

    with pytest.raises(QueryError, match="not authorized"):
        run_despite_passing_causes(run)
    assert len(starts) == 1


TIMEOUT = (
    "bus 10.0.0.1:9092: TimeoutException: Call(callName=listOffsets(api=METADATA), tries=12419) "
    "timed out after 12419 attempt(s): DisconnectException: node 1 being disconnected"
)


def ends_after(seconds: list[float]) -> tuple[int, QueryError | None]:
    """How often a query is started whose source gives up after so many seconds of each start."""
    now, starts = [0.0], []

    def run() -> None:
        starts.append(1)
        if len(starts) <= len(seconds):
            now[0] += seconds[len(starts) - 1]
            raise QueryError(TIMEOUT)

    try:
        run_despite_passing_causes(run, lambda: now[0])
    except QueryError as error:
        return len(starts), error
    return len(starts), None


def test_a_source_that_waits_for_a_frozen_broker_in_vain_is_started_again():
    assert ends_after([110.0]) == (2, None)
    assert ends_after([110.0] * (STARTS - 1)) == (STARTS, None)


def test_a_bus_that_never_answers_ends_the_query_with_the_reason():
    starts, error = ends_after([110.0] * STARTS)
    assert starts == STARTS
    assert "listOffsets" in str(error)


def test_a_query_that_ran_for_long_has_all_its_starts_again():
    often = [110.0] * (STARTS - 1)
    assert ends_after([*often, 3_600.0, *often[1:]]) == (2 * STARTS - 1, None)
