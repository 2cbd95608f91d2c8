"""Where the reader of remote segments goes on after a restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.remote_log.position import FOLDER, Position
from streaming.runtime.kafka.remote_log_access import TOPIC


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    position = Position("one", {0: 7})
    assert position.in_topic("one") == position
    assert position.in_topic("two") == Position("two", {})


def test_a_position_of_spark_knows_no_topic_and_counts_in_the_one_that_is_there() -> None:
    assert Position("", {0: 7}).in_topic("one") == Position("one", {0: 7})


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from streaming.query.remote_log.position import Position, PositionFile
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false").getOrCreate()
)
checkpoint, empty = sys.argv[1:]
print(PositionFile(spark, empty, "orders").read())
print(PositionFile(spark, checkpoint, "orders").read())
print(PositionFile(spark, checkpoint, "orders", is_fleet=True).read())
file = PositionFile(spark, checkpoint, "a:b?c")
file.write(Position("id", {3: 11}))
print(PositionFile(spark, checkpoint, "a:b?c").read())
"""


@pytest.mark.spark
def test_the_position_is_kept_and_that_of_the_query_before_is_continued(tmp_path: Path) -> None:
    old = tmp_path / "old" / FOLDER
    for log, entry in (("offsets", json.dumps({TOPIC: {"0": 12, "4": 7}})), ("commits", "{}")):
        (old / log).mkdir(parents=True)
        for batch in (9, 10):
            (old / log / str(batch)).write_text(f"v1\n{{}}\n{entry}\n")
    (old / "offsets" / "11").write_text(f"v1\n{{}}\n{json.dumps({TOPIC: {'0': 99}})}\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "old"), str(tmp_path / "none")],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.splitlines() == [
        str(Position()),
        str(Position("", {0: 12, 4: 7})),
        str(Position()),
        str(Position("id", {3: 11})),
    ]
    assert (old / "a%3Ab%3Fc.json").is_file()
