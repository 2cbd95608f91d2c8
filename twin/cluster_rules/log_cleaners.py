"""Brokers whose log cleaner stands still, so that compacted logs only grow.

A thread of the cleaner that meets a record it cannot read ends, or gives the partition up; nothing
but two metrics of the broker says so. Logs of compacted topics grow then, __consumer_offsets among
them, until the disk is full, and a broker that becomes coordinator reads them for hours.

Source: LogCleaner.DeadThreadCount and LogCleanerManager.uncleanablePartitions, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import Alert, ByBroker, risk, rule
from twin.declarations.signature import Cycle
from twin.declarations.table import Bool, ClusterTable, Float64, Int32, ShardReport, column
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
    """[K] brokers of known log cleaners, sorted by id."""

    broker: Int32 = column("broker id")
    is_stuck: Bool = column("a thread of it is dead, or it has given partitions up", fill=False)


@rule
def log_cleaners(reported: CleanerMetrics) -> LogCleaners:
    """A broker that measures neither has no row."""
    measures = ~(np.isnan(reported.dead_threads) & np.isnan(reported.uncleanable_partitions))
    is_stuck = (reported.dead_threads > 0) | (reported.uncleanable_partitions > 0)
    broker, at = np.unique(reported.broker[measures], return_inverse=True)
    stuck = np.zeros(len(broker), bool)
    np.logical_or.at(stuck, at, is_stuck[measures])
    return LogCleaners(broker, stuck)


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
    """Brokers without a JMX exporter are not judged."""
    return ByBroker(cleaners.broker, cleaners.is_stuck.astype(np.int64))
