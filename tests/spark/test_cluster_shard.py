"""What shards report to the cluster's own shard, on its way through Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import base64

from streaming.query.cluster_shard import OBSERVED, reports_of
from streaming.query.processor import REPORTS
from tests.spark.test_processor import LATER_MS, a_cycle, a_tester, rows
from twin.builtin import CATALOG
from twin.cluster_rules.disks.disk_skew import DiskShares
from twin.cluster_step import empty_cluster, step_cluster
from twin.engine import codec

PROGRAM = """
import time
from pyspark.sql import SparkSession, functions as F
from streaming.query.cluster_shard import OBSERVED, without_reports
from streaming.query.processor import REPORTS
from streaming.query.progress import Reports, is_batch
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
rows = (
    spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "6").load()
    .select(
        F.when(F.col("value") % 3 == 0, F.lit(REPORTS)).otherwise(F.lit("t")).alias("topic"),
        F.col("value").cast("string").alias("key"),
        F.col("value").cast("string").cast("binary").alias("value"),
    )
)
query = (
    without_reports(rows).writeStream.format("memory").queryName("sent")
    .trigger(processingTime="0 seconds").start()
)
until, reports = time.monotonic() + 600, Reports(query)
while not (recent := reports.recent()) or not is_batch(recent[0]):
    assert time.monotonic() < until
    time.sleep(0.2)
query.stop()
first = recent[0]
print(first["observedMetrics"][OBSERVED]["all"])
print([r.value.decode() for r in spark.sql("select * from sent").collect()][:4])
"""


@pytest.mark.spark
def test_spark_gives_the_reports_of_a_batch_to_the_driver_and_not_to_the_sink():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=1_000, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.splitlines()[-2:] == ["MA==,Mw==", "['1', '2', '4', '5']"]


@pytest.mark.parametrize(
    "progress", [{}, {"observedMetrics": {}}, {"observedMetrics": {"shard_reports": {"all": ""}}}]
)
def test_a_batch_without_output_has_no_reports(progress):
    assert list(reports_of(progress, {})) == []


def test_each_cycle_of_a_batch_is_reported_and_a_batch_that_runs_again_changes_nothing():
    """From the output of the tasks to a snapshot under the key of the cluster's own shard."""
    out = a_tester().test("c/0", rows(*a_cycle(), *a_cycle(LATER_MS)))
    sent = [base64.b64encode(bytes(row.value)).decode() for row in out if row.topic == REPORTS]
    progress = {"observedMetrics": {OBSERVED: {"all": ",".join(sent)}}}
    state = empty_cluster(CATALOG, "c", 1)
    reported = [*reports_of(progress, state.catalog.observations)]
    assert {frame.header.observed_at_ms for frame in reported} == {LATER_MS, LATER_MS - 5_000}
    after, _ = step_cluster(state, reported)
    assert after[DiskShares].local_log_bytes.tolist() == [1_000, 1_000, 1_000]
    decoded = codec.decode(codec.encode(after), CATALOG.cluster).state
    again, changes = step_cluster(decoded, reported)
    assert again is decoded
    assert changes == []


def test_a_batch_without_a_cycle_reports_nothing_before_partitions_were_listed():
    out = a_tester().test("c/0", rows(*a_cycle()[:1]))
    assert [row.topic for row in out] == ["snapshots"]
