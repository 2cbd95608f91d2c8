"""The metrics that the query serves about itself: batches, and the reason why none ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from prometheus_client import generate_latest

from streaming.query.batch_metrics import BatchMetrics
from streaming.query.own_metrics import OWN
from streaming.query.stalled import StallCause, StallKind
from streaming.runtime.exposition.application import Registry, WithoutCreated
from tests.scraping import Scraped, assert_declared, judged, needs_promtool

IDLE = {"batchId": 3, "timestamp": "2026-11-22T11:30:10.000Z", "numInputRows": 0,
        "durationMs": {"latestOffset": 2, "triggerExecution": 2}, "stateOperators": []}  # fmt: skip


def a_batch(
    number: int, rows: int = 16, took_ms: int = 400, state_rows: int = 4
) -> dict[str, object]:
    """The progress of a batch, as Spark reports it."""
    return {
        "batchId": number,
        "timestamp": "2026-11-22T11:30:00.250Z",
        "numInputRows": rows,
        "durationMs": {"addBatch": took_ms - 10, "triggerExecution": took_ms},
        "stateOperators": [{"numRowsTotal": state_rows, "memoryUsedBytes": 3_500_000}],
    }


def of_cluster() -> BatchMetrics:
    metrics = BatchMetrics(Registry())
    metrics.watch({"c": "c.observations"})
    return metrics


def scraped_from(metrics: BatchMetrics) -> Scraped:
    return Scraped(generate_latest(WithoutCreated(metrics.registry)).decode())


def test_each_batch_is_counted_once_however_often_it_is_reported():
    metrics = of_cluster()
    metrics.add([a_batch(1), a_batch(2, rows=4, took_ms=1_600), IDLE])
    metrics.add([a_batch(2), IDLE, a_batch(3, rows=1)])
    scraped = scraped_from(metrics)
    assert scraped.value("query_batches_total") == 3
    assert scraped.value("query_observations_read_total") == 21
    assert scraped.value("query_batch_duration_seconds_sum") == pytest.approx(2.4)
    assert scraped.value("query_batch_duration_seconds_bucket", le="0.5") == 2
    assert scraped.value("query_last_batch_timestamp_seconds") == 1_795_347_000.25
    assert scraped.value("query_state_rows") == 4
    assert scraped.value("query_rocksdb_memory_bytes") == 3_500_000


def test_what_is_not_known_yet_has_no_series():
    scraped = scraped_from(of_cluster())
    for name in ("last_batch_timestamp_seconds", "state_rows", "remote_segments_running"):
        assert scraped.series(f"query_{name}") == []
    assert scraped.value("query_batches_total") == 0


def test_the_reason_of_a_stall_is_one_of_all():
    metrics = of_cluster()
    assert {v for _, v in scraped_from(metrics).series("query_stalled")} == {0}
    assert metrics.why_unhealthy() == ""
    metrics.stalled(StallCause(StallKind.NO_EXECUTOR, "no executor has registered"))
    assert metrics.why_unhealthy() == (
        "no batch has ended for three cycles: no executor has registered"
    )
    values = {labels["reason"]: v for labels, v in scraped_from(metrics).series("query_stalled")}
    assert values == {kind.name.lower(): float(kind is StallKind.NO_EXECUTOR) for kind in StallKind}
    metrics.stalled(None)
    assert metrics.why_unhealthy() == ""
    assert {v for _, v in scraped_from(metrics).series("query_stalled")} == {0}


def test_a_batch_of_several_clusters_counts_for_each_with_its_own_messages():
    metrics = BatchMetrics(Registry())
    metrics.watch({"orders": "o", "payments": "p"})
    source = {
        "startOffset": {"o": {"0": 5, "1": 0}, "p": {"0": 900}},
        "endOffset": {"o": {"0": 9, "1": 2}, "p": {"0": 3}},  # payments' topic was made anew
    }
    metrics.add([a_batch(1, rows=6) | {"sources": [source]}])
    scraped = scraped_from(metrics)
    for cluster, rows in (("orders", 6), ("payments", 0)):
        assert scraped.value("query_batches_total", cluster=cluster) == 1
        assert scraped.value("query_observations_read_total", cluster=cluster) == rows
    metrics.watch({"payments": "p"})
    series = scraped_from(metrics).series("query_batches_total")
    assert [labels["cluster"] for labels, _ in series] == ["payments"]


def test_a_query_that_has_ended_says_why_until_a_batch_ends():
    metrics = of_cluster()
    metrics.ended("bus b:1: no broker answers")
    assert metrics.why_unhealthy() == "the query has ended: bus b:1: no broker answers"
    assert scraped_from(metrics).value("query_stalled", reason="failed") == 1
    metrics.stalled(None)
    assert metrics.why_unhealthy() == ""


PROGRAM = """
import sys, time
from prometheus_client import generate_latest
from streaming.runtime.exposition.application import Registry, WithoutCreated
from pyspark.sql import SparkSession
from streaming.query.batch_metrics import BatchMetrics
from streaming.query.progress import Reports
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.streaming.noDataProgressEventInterval", "100").getOrCreate()
)
rows = spark.readStream.format("rate").option("rowsPerSecond", "5").load()
query = (
    rows.groupBy((rows.value % 3).alias("key")).count()
    .writeStream.format("noop").outputMode("update").trigger(processingTime="0 seconds").start()
)
metrics = BatchMetrics(Registry())
metrics.watch({"c": "c.observations"})
metrics.remote_segments("c", running=False)
until = time.monotonic() + 600
reports = Reports(query)
while not (p := reports.newest()) or p["batchId"] < 4:
    metrics.update(reports)
    assert time.monotonic() < until
    time.sleep(0.2)
query.stop()
metrics.update(reports)
done = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
print(len(done), sum(p["numInputRows"] for p in done), len(query.recentProgress), file=sys.stderr)
print(generate_latest(WithoutCreated(metrics.registry)).decode(), end="")
"""


@pytest.mark.spark
@needs_promtool
def test_the_batches_of_a_real_query_are_all_counted_and_reports_without_one_are_not():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    batches, rows, reports = map(int, done.stderr.splitlines()[-1].split())
    assert reports >= batches >= 4  # a query that is never idle reports no more
    scraped = Scraped(done.stdout)
    assert_declared(scraped, OWN)
    assert scraped.value("query_batches_total") == batches
    assert scraped.value("query_batch_duration_seconds_count") == batches
    assert scraped.value("query_observations_read_total") == rows > 0
    assert scraped.value("query_state_rows") == 3  # keys, of this query
    assert scraped.value("query_remote_segments_running") == 0
    assert judged(scraped) == ""
