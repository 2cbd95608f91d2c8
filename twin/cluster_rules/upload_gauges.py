"""What brokers measure of their uploads: bytes to upload, beside what offsets say, and errors.

A broker counts the closed segments that it has not uploaded of the partitions that it leads. So its
gauge is at most the whole lag, and at least what cannot be in segments that are still written. A
gauge outside of that is wrong: too high as by KAFKA-20977, or too low as by KAFKA-19995.

An upload that fails is tried again half a minute later, so errors that last have pauses between two
scrapes.

Source: RemoteLogManager.RLMCopyTask.recordLagStats and RLMTask.run, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import (
    UNKNOWN,
    ClusterTable,
    Float64,
    Int8,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.upload import UploadLag, open_bytes
from twin.tables.state import STALE_METRICS_MS, BrokerMetrics, Partitions

_ESTIMATED: Final = 1.1
"""The twin's lag is estimated by the mean size of records: a tenth proves nothing."""


ERRORS_PAUSE_MS: Final = 180_000
"""Errors with shorter pauses are one failure: six tries, and scrapes that are not in step."""


class UploadGauges(ShardReport, kind="upload_gauges"):
    """[K] each broker that reports its bytes to upload, and what a shard's offsets say of them."""

    broker: Int32 = column("broker id")
    reported_bytes: Float64 = column("the broker's own gauge, the same in every shard", fill=np.nan)
    partitions: Int64 = column("partitions of known lag that it leads", fill=0)
    lag_bytes: Int64 = column("their lag", fill=0)
    open_bytes: Int64 = column("of that, bytes that may be in segments still written", fill=0)


@rule
def upload_gauges(
    metrics: BrokerMetrics, cycle: Cycle, lag: UploadLag, configs: TopicConfigs,
    partitions: Partitions,
) -> UploadGauges:  # fmt: skip
    """Brokers whose gauge was scraped lately."""
    is_recent = cycle.observed_at_ms - metrics.measured_at_ms <= STALE_METRICS_MS
    is_measured = is_recent & ~np.isnan(metrics.remote_copy_lag_bytes)
    broker = metrics.broker[is_measured]
    place = keys.find(broker.astype(np.int64), partitions.leader.astype(np.int64))
    row = np.flatnonzero((place != UNKNOWN) & ~np.isnan(lag.upload_lag_bytes))

    def summed(values: Float64) -> Int64:
        sums = np.zeros(len(broker), np.int64)
        np.add.at(sums, place[row], np.rint(values[row]).astype(np.int64))
        return sums

    return UploadGauges(
        broker,
        metrics.remote_copy_lag_bytes[is_measured],
        summed(np.ones(len(place))),
        summed(lag.upload_lag_bytes),
        summed(open_bytes(lag, configs)),
    )


class UploadGaugeErrors(ClusterTable, kind="upload_gauge_errors"):
    """[K] each broker that reports its bytes to upload and leads a partition of known lag."""

    broker: Int32 = column("broker id")
    reported_bytes: Float64 = column("the broker's own gauge", fill=np.nan)
    lag_bytes: Int64 = column("bytes that it has not uploaded, by offsets")
    least_bytes: Float64 = column("of these, bytes that cannot be in open segments", fill=np.nan)


@rule
def upload_gauge_errors(reported: UploadGauges) -> UploadGaugeErrors:
    """The sums of all shards."""
    broker, at = np.unique(reported.broker, return_inverse=True)
    values = np.full(len(broker), np.nan)
    values[at] = reported.reported_bytes

    def summed(parts: Int64) -> Int64:
        sums = np.zeros(len(broker), np.int64)
        np.add.at(sums, at, parts)
        return sums

    lag = summed(reported.lag_bytes)
    least = (lag - summed(reported.open_bytes)) / _ESTIMATED
    leads = summed(reported.partitions) > 0
    return UploadGaugeErrors(broker[leads], values[leads], lag[leads], least[leads])


@gauge(
    "broker_metric_difference",
    "Value that the twin computes for a metric minus the broker's own. Above 0 in "
    "upload_lag_bytes: the broker leaves out segments that are still written, or misses a backlog; "
    "below 0: the broker counts what its offsets show to be in remote storage.",
    labels=("broker", "metric"),
)
def broker_metric_difference(errors: UploadGaugeErrors) -> Mapping[tuple[str, str], float]:
    """The difference for brokers that have both values."""
    difference = (errors.lag_bytes - errors.reported_bytes).tolist()
    brokers = errors.broker.tolist()
    return {
        (str(broker), "upload_lag_bytes"): value
        for broker, value in zip(brokers, difference, strict=True)
    }


@gauge(
    "broker_metric_contradicted",
    "1 if offsets contradict the broker's own metric, and the twin believes the offsets: the "
    "metric is too_high, as by KAFKA-20977, or too_low, as by KAFKA-19995. It is behind by an "
    "upload round, so what lasts for minutes counts.",
    labels=("broker", "metric", "error"),
)
def broker_metric_contradicted(errors: UploadGaugeErrors) -> Mapping[tuple[str, str, str], int]:
    """A series for each broker whose metric is contradicted."""
    wrong = {
        "too_high": errors.reported_bytes > errors.lag_bytes * _ESTIMATED,
        "too_low": errors.reported_bytes < errors.least_bytes,
    }
    return {
        (str(broker), "remote_copy_lag_bytes", error): 1
        for error, is_so in wrong.items()
        for broker in errors.broker[is_so].tolist()
    }


class UploadErrors(ShardReport, kind="upload_errors"):
    """[K] uploads that failed, of each broker that measures that, the same in every shard."""

    broker: Int32 = column("broker id")
    errors_per_s: Float64 = column("failed uploads a second", fill=np.nan)


@rule
def upload_errors(metrics: BrokerMetrics, cycle: Cycle) -> UploadErrors:
    """Brokers that were scraped lately."""
    is_recent = cycle.observed_at_ms - metrics.measured_at_ms <= STALE_METRICS_MS
    recent = metrics.pick(is_recent & ~np.isnan(metrics.remote_copy_errors_per_s))
    return UploadErrors(recent.broker, recent.remote_copy_errors_per_s)


class FailingUploads(ClusterTable, kind="failing_uploads"):
    """[K] brokers that measure failed uploads, sorted by id."""

    broker: Int32 = column("broker id")
    failed_at_ms: Int64 = column("newest cycle with failed uploads; unknown if there was none")
    is_failing: Int8 = column("uploads fail, with short pauses between them", tri_state=True)


@rule
def failing_uploads(
    before: Before[FailingUploads], reported: UploadErrors, cycle: Cycle
) -> FailingUploads:
    """A broker that is not measured any more has no row: nobody knows whether its uploads fail."""
    now_ms = cycle.observed_at_ms
    broker, at = np.unique(reported.broker, return_index=True)
    fails = reported.errors_per_s[at] > 0
    was = keys.look_up(before.broker.astype(np.int64), before.failed_at_ms, broker.astype(np.int64))
    failed_at_ms = np.where(fails, now_ms, was)
    goes_on = (failed_at_ms != UNKNOWN) & (now_ms - failed_at_ms <= ERRORS_PAUSE_MS)
    return FailingUploads(broker, np.where(goes_on, failed_at_ms, UNKNOWN), goes_on.astype(np.int8))


@risk(
    "uploads_fail",
    rank=112,
    severity="warn",
    per="broker",
    # A remote storage that is away for some minutes is tried again.
    open_after_ms=600_000,
    close_after_ms=60_000,
    sentence="its uploads to remote storage have failed for ten minutes: what is not uploaded "
    "stays on its disk",
    source="BrokerTopicMetrics RemoteCopyErrorsPerSec; RemoteLogManager.RLMTask.run, Kafka 4.3",
    alert=Alert(
        summary="fail to upload",
        description="Uploads of {n} brokers of {cluster} to remote storage fail, and go on "
        "failing: nothing is deleted from their disks until it is uploaded.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def fails_to_upload(uploads: FailingUploads) -> ByBroker:
    """Brokers without a JMX exporter have no row, and are not judged."""
    return ByBroker(uploads.broker, uploads.is_failing.astype(np.int64))
