"""Whose settings win: under spark-submit, in a session that was there, on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyspark

from streaming.query.session import _output_to
from streaming.runtime.jars import QUICK_SPARK

pytestmark = pytest.mark.spark

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

PROBE = """
import json, os, sys
from streaming.query.session import spark_session
from streaming.runtime.configuration.loading import load
from streaming.runtime.errors import UserError
before = {before}
python = os.environ.get("PYSPARK_PYTHON")
try:
    with spark_session(load(None)) as spark:
        names = {names!r}
        settings = {{name: spark.conf.get(name, None) for name in names}}
        context = spark.sparkContext.getConf()
        settings |= {{name: context.get(name) for name in names if settings[name] is None}}
except UserError as error:
    settings = {{"error": str(error)}}
same = os.environ.get("PYSPARK_PYTHON") == python
stopped = before is not None and before.sparkContext._jsc is None
left = {{}} if before is None else {{name: before.conf.getAll.get(name) for name in names}}
with open({result!r}, "w") as file:
    json.dump(
        {{"settings": settings, "python_untouched": same, "stopped": stopped, "left": left}}, file
    )
"""
NAMES = (
    "spark.sql.shuffle.partitions", "spark.task.maxFailures", "spark.ui.enabled",
    "spark.sql.streaming.stateStore.providerClass", "spark.sql.streaming.minBatchesToRetain",
    "spark.driver.host", "spark.master", "spark.driver.memory", "spark.executor.extraJavaOptions",
    "spark.driver.extraJavaOptions", "spark.sql.streaming.checkpointFileManagerClass",
    "spark.executorEnv.GLIBC_TUNABLES",
)  # fmt: skip


def probed(
    folder: Path, *command: str, before: str = "None", master: str = "", **environment: str
) -> dict[str, Any]:
    """The settings that a program has in the session, or the error."""
    script, result = folder / "probe.py", folder / "result.json"
    script.write_text(PROBE.format(names=NAMES, result=str(result), before=before))
    twin = {
        "KAFKA_TWIN_QUERY_MASTER": master,
        "KAFKA_TWIN_QUERY_CHECKPOINT": str(folder / "checkpoint"),
        "PYSPARK_PYTHON": sys.executable,
    }
    subprocess.run([*command, str(script)], env=os.environ | twin | environment, check=True,
                   timeout=600, cwd=folder, capture_output=True)  # fmt: skip
    observed: dict[str, Any] = json.loads(result.read_text())
    return observed


def test_what_spark_submit_is_given_wins_and_the_rest_is_ours(tmp_path: Path) -> None:
    result = probed(
        tmp_path, str(SUBMIT), "--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=7",
        "--conf", "spark.ui.enabled=true", "--conf", "spark.driver.memory=600m",
        "--conf", "spark.ui.port=0", "--conf", "spark.task.maxFailures=3",
    )  # fmt: skip
    settings = result["settings"]
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.task.maxFailures"] == "3"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.memory"] == "600m"
    assert settings["spark.master"] == "local[1]"
    assert settings["spark.sql.streaming.stateStore.providerClass"] == PROVIDER
    assert settings["spark.sql.streaming.minBatchesToRetain"] == "20"
    options = settings["spark.executor.extraJavaOptions"].split()
    assert {"-XX:TieredStopAtLevel=1", "-XX:G1HeapRegionSize=8m"} <= set(options)
    assert not [o for o in options if "Use" in o and "GC" in o], "the collector is the platform's"
    assert result["python_untouched"]
    assert not (tmp_path / "spark.log").exists(), "spark-submit has a log of its own"


def test_the_log_of_the_start_before_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "state" / "spark.log"
    for text in (b"first", b"second", b"third"):
        with _output_to(log):
            os.write(1, text)
    assert log.read_bytes() == b"third"
    assert log.with_name("spark.log.1").read_bytes() == b"second"


def test_a_folder_is_refused_where_executors_are_processes_of_their_own(tmp_path: Path) -> None:
    result = probed(tmp_path, str(SUBMIT), "--master", "local-cluster[1,1,1024]")
    assert "is a folder of this machine" in result["settings"]["error"]


def test_a_session_that_was_there_is_used_and_not_stopped(tmp_path: Path) -> None:
    builder = "__import__('pyspark.sql').sql.SparkSession.builder.master('local[1]')"
    before = f"{builder}.config('spark.sql.streaming.minBatchesToRetain', '5').getOrCreate()"
    result = probed(tmp_path, sys.executable, before=before)
    settings = result["settings"]
    assert settings["spark.sql.streaming.minBatchesToRetain"] == "5", "its own setting stays"
    assert settings["spark.sql.streaming.stateStore.providerClass"] == PROVIDER
    assert settings["spark.sql.shuffle.partitions"] == "1", "a state partition for each core"
    assert not result["stopped"]
    left = {name: value for name, value in result["left"].items() if ".sql." in name and value}
    assert left == {"spark.sql.streaming.minBatchesToRetain": "5"}, "ours are gone again"
    assert result["python_untouched"]


@pytest.mark.parametrize(
    ("environment", "collector"),
    [
        (QUICK_SPARK, "-XX:+UseParallelGC"),
        ({"JAVA_TOOL_OPTIONS": "-Xss2m -XX:+UseG1GC"}, ""),
        ({"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}, ""),
    ],
)
def test_a_session_of_this_machine_starts_with_one_garbage_collector(
    tmp_path: Path, environment: dict[str, str], collector: str
) -> None:
    """Java refuses to start if two are chosen."""
    result = probed(tmp_path, sys.executable, master="local[1]", **environment)
    assert result["settings"]["spark.master"].startswith("local[1")
    options = result["settings"]["spark.driver.extraJavaOptions"]
    assert re.findall(r"-XX:\+Use\w+GC", options) == [collector] * bool(collector)


def test_files_of_a_checkpoint_have_a_manager_of_their_own_only_if_it_is_a_folder(
    tmp_path: Path,
) -> None:
    """On HDFS Spark's default replaces a file in one step, and that of folders does not."""
    managers = []
    for checkpoint in (str(tmp_path), tmp_path.as_uri(), "hdfs://namenode/twin"):
        result = probed(
            tmp_path, sys.executable, master="local[1]", KAFKA_TWIN_QUERY_CHECKPOINT=checkpoint
        )
        name = result["settings"]["spark.sql.streaming.checkpointFileManagerClass"]
        managers.append(name and name.rpartition(".")[2])
    assert managers == ["FileSystemBasedCheckpointFileManager"] * 2 + [None]


@pytest.mark.parametrize(
    ("shards", "environment", "expected"),
    [
        ("16", {}, "glibc.malloc.hugetlb=1"),
        ("4", {}, None),
        ("16", {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, None),
    ],
)
def test_workers_with_large_states_ask_for_large_pages_unless_they_are_told_otherwise(
    tmp_path: Path, shards: str, environment: dict[str, str], expected: str | None
) -> None:
    result = probed(
        tmp_path, sys.executable, master="local[1]", KAFKA_TWIN_BUS_SHARDS=shards, **environment
    )
    assert result["settings"]["spark.executorEnv.GLIBC_TUNABLES"] == expected


def test_without_a_master_spark_submit_is_asked_for(tmp_path: Path) -> None:
    result = probed(tmp_path, sys.executable)
    assert result["settings"]["error"].startswith("query.master: is empty, and no spark-submit")
