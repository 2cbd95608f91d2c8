"""Brokers whose log cleaner stands still, so that compacted logs only grow.

A cleaner that cannot read a record gives the partition up, and a thread of it may end by an error.
Only two metrics of the broker say so. Logs of compacted topics grow then until the disk is full,
__consumer_offsets among them, and a broker that becomes coordinator reads all of it first.

Source: LogCleaner.DeadThreadCount and LogCleanerManager.uncleanablePartitions, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import Alert, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, ClusterTable, Float64, Int8, Int32, ShardReport, column
from twin.tables.state import STALE_METRICS_MS, BrokerMetrics


class CleanerMetrics(ShardReport, kind="cleaner_metrics"):
    """[K] what brokers measure of their log cleaners, sorted by broker."""

    broker: Int32 = column("broker id")
    dead_threads: Float64 = column("threads that have ended by an error", fill=np.nan)
    uncleanable_partitions: Float64 = column("partitions that it has given up", fill=np.nan)


@rule
def cleaner_metrics(metrics: BrokerMetrics, cycle: Cycle) -> CleanerMetrics:
    """Those that were scraped lately."""
    recent = metrics.pick(cycle.observed_at_ms - metrics.measured_at_ms <= STALE_METRICS_MS)
    return CleanerMetrics(
        recent.broker, recent.log_cleaner_dead_threads, recent.uncleanable_partitions
    )


class LogCleaners(ClusterTable, kind="log_cleaners"):
    """[K] brokers with a JMX exporter, sorted by id."""

    broker: Int32 = column("broker id")
    is_stuck: Int8 = column(
        "a thread of it is dead, or it has given partitions up; unknown where one of the two is, "
        "and the other is 0",
        tri_state=True,
    )


@rule
def log_cleaners(reported: CleanerMetrics) -> LogCleaners:
    """Every shard reports every broker; of its reports the worst counts."""
    both = reported.dead_threads + reported.uncleanable_partitions
    is_stuck = (reported.dead_threads > 0) | (reported.uncleanable_partitions > 0)
    stuck = np.where(is_stuck, 1, np.where(np.isnan(both), UNKNOWN, 0)).astype(np.int8)
    broker, at = np.unique(reported.broker, return_inverse=True)
    worst = np.full(len(broker), UNKNOWN, np.int8)
    np.maximum.at(worst, at, stuck)
    return LogCleaners(broker, worst)


@risk(
    "log_cleaner_stuck",
    rank=119,
    severity="warn",
    per="broker",
    open_after_ms=60_000,
    close_after_ms=60_000,
    sentence="its log cleaner has a dead thread or has given partitions up: compacted logs on it "
    "only grow",
    source="LogCleaner.DeadThreadCount and LogCleanerManager.uncleanablePartitions, Kafka 4.3",
    alert=Alert(
        summary="do not compact all of their logs",
        description="The log cleaner of {n} brokers of {cluster} has a dead thread, or has given "
        "partitions up: their compacted logs only grow, __consumer_offsets may be among them.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def cleans_no_more(cleaners: LogCleaners) -> ByBroker:
    """Brokers of which that is unknown are not judged; without a JMX exporter they have no row."""
    is_known = cleaners.is_stuck != UNKNOWN
    return ByBroker(cleaners.broker[is_known], cleaners.is_stuck[is_known].astype(np.int64))
