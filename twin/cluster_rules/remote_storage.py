"""Remote storage that takes no uploads: one finding for the cluster, not one a partition.

A leader uploads a segment soon after it is closed, so that a partition is *stuck* is plain: more
waits than the settings allow, and nothing was uploaded for longer than a segment takes. That may be
the partition's own trouble. It is that of remote storage if nothing else was uploaded by that
broker, either, since the partition's upload was due, though others should have: their uploads
follow from how fast they write segments.

What says nothing: a partition that is idle, whose uploads wait on purpose (KIP-1241) or are
disabled (KIP-950), whose records are held by an open transaction, or whose leader does not answer.
Any upload says that remote storage takes them.

What brokers measure says which operations fail; that they count no error proves nothing, since an
upload may hang.

Source: RemoteLogManager.RLMCopyTask.copyLogSegmentsToRemote, Kafka 4.3, a round of which begins
each 30 s (remote.log.manager.task.interval.ms).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.cluster_rules.upload_gauges import ERRORS_PAUSE_MS, FailingUploads
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.signature import Before, Cycle, TableGroup
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    ClusterTable,
    Float64,
    Int8,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.rules.disks.segment_times import segment_time_s
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.staleness import STALE_MS
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.last_uploads import LastUploads
from twin.rules.tiering.tier_states import remote_ends, uploads_at_once
from twin.rules.tiering.timestamps import FirstSeenEnds
from twin.rules.tiering.upload import UploadLag, UploadWaits, records_in_time
from twin.tables.state import STALE_METRICS_MS, BrokerMetrics, Partitions

SLOW: Final = 2
"""Uploads pause for a segment's time; one that takes up to twice the last pause is slow."""

SLOWEST: Final = 4
"""Times the time that the settings allow. A pause before that was longer was one of producers."""

EXPECTED: Final = 3
"""So many uploads of other partitions, by their rates, would have come by now: that none does by
chance has a probability of 5 % (e^-3), and of 0 where there are three or less."""

PATIENCE_MS: Final = 900_000
"""Where others upload so seldom that they prove nothing, a quarter of an hour will do. Until then
one topic that is broken in itself is not taken for remote storage."""


class BrokerUploads(ShardReport, kind="broker_uploads"):
    """[K] uploads of the tiered partitions of a shard, by leader."""

    broker: Int32 = column("broker id of the leader")
    judged: Int64 = column("partitions that are written, and upload each segment at once", fill=0)
    stuck: Int64 = column("of these, partitions that are late and upload nothing", fill=0)
    stuck_bytes: Float64 = column("what waits in these", fill=0.0)
    waiting: Int64 = column("partitions with records to upload, written or not", fill=0)
    other_uploads_per_s: Float64 = column("by the rates of those that are not stuck", fill=0.0)
    uploaded_bytes_per_s: Float64 = column("by the last uploads of each partition", fill=0.0)
    uploaded_at_ms: Int64 = column("newest upload of any partition that was seen")
    due_at_ms: Int64 = column("the newest time at which an upload of one that is stuck was due")
    waits_since_ms: Int64 = column("the newest of the times since which these wait")


@dataclass(frozen=True, slots=True)
class _UploadTables(TableGroup):
    """What says how far uploads are, and how far they should be."""

    partitions: Partitions
    leaders: Leaders
    configs: TopicConfigs
    growth: Growth
    sizes: RecordSizes
    lag: UploadLag
    waits: UploadWaits
    last: LastUploads
    first: FirstSeenEnds


@rule
def broker_uploads(tables: _UploadTables, cycle: Cycle) -> BrokerUploads:
    """Leaders of tiered partitions."""
    configs, leaders, leader = tables.configs, tables.leaders, tables.partitions.leader
    is_tiered = (configs.remote_storage == 1) & (leader != NO_BROKER)
    row = np.flatnonzero(is_tiered)
    rate, records = tables.growth.appended_records_per_s[row], tables.lag.upload_lag_records[row]
    sampled_at_ms, uploaded_at_ms = leaders.sampled_at_ms[row], tables.last.at_ms[row]
    is_judged = (records != UNKNOWN) & (rate > 0) & uploads_at_once(configs)[row]
    is_judged &= cycle.observed_at_ms - sampled_at_ms <= STALE_MS
    in_time = records_in_time(tables.waits, tables.growth, tables.sizes, configs)[row]
    with np.errstate(divide="ignore", invalid="ignore"):
        allowed_ms = np.where(rate > 0, in_time / rate, np.inf) * 1_000
    due_at_ms = _due_at_ms(tables, row, allowed_ms)
    is_stuck = is_judged & (_may_be_uploaded(leaders, row, records) > in_time)
    is_stuck &= sampled_at_ms > due_at_ms
    per_s = 1 / segment_time_s(row, configs, tables.growth, tables.sizes)
    waits_since_ms = np.where(is_stuck, sampled_at_ms - tables.waits.waited_ms[row], UNKNOWN)
    stuck_bytes = np.nan_to_num(tables.lag.upload_lag_bytes[row])
    uploaded = tables.last.records_per_s_now(leaders, row)
    uploaded *= np.nan_to_num(tables.sizes.bytes_per_record[row])
    broker, at = keys.distinct(leader[row])

    def summed(values: Float64 | Bool) -> Float64:
        sums: Float64 = np.bincount(at, values, minlength=len(broker)).astype(np.float64)
        return sums

    def newest(values: Int64 | Float64) -> Int64:
        most = np.full(len(broker), UNKNOWN)
        np.maximum.at(most, at, np.nan_to_num(values, nan=UNKNOWN).astype(np.int64))
        return most

    return BrokerUploads(
        broker,
        summed(is_judged).astype(np.int64),
        summed(is_stuck).astype(np.int64),
        summed(np.where(is_stuck, stuck_bytes, 0)),
        summed(records > 0).astype(np.int64),
        summed(np.where(is_judged & ~is_stuck, per_s, 0)),
        summed(uploaded),
        newest(uploaded_at_ms),
        newest(np.where(is_stuck, due_at_ms, UNKNOWN)),
        newest(waits_since_ms),
    )


def _due_at_ms(tables: _UploadTables, row: Int64, allowed_ms: Float64) -> Float64:
    """[N] when another upload should have come, by the settings and by the last pause."""
    last, first = tables.last, tables.first
    since_ms = np.where(last.at_ms[row] == UNKNOWN, first.at_ms[row], last.at_ms[row])
    pause_ms = np.where(last.pause_ms[row] == UNKNOWN, allowed_ms, last.pause_ms[row])
    due_ms = since_ms + np.clip(SLOW * pause_ms, allowed_ms, SLOWEST * allowed_ms)
    return np.where(since_ms == UNKNOWN, np.inf, due_ms)


def _may_be_uploaded(leaders: Leaders, row: Int64, records: Int64) -> Int64:
    """[N] the lag without what an open transaction holds, or what is not committed yet."""
    stable = leaders.last_stable_offset[row]
    free = np.maximum(stable - remote_ends(leaders, row), 0)
    return np.where(stable == UNKNOWN, records, np.minimum(records, free))


class RemoteOperations(ShardReport, kind="remote_storage_operations"):
    """[K] what brokers measure of remote storage beside uploads, the same in every shard."""

    broker: Int32 = column("broker id")
    reads_fail: Int8 = column("some fail; unknown while nobody reads", tri_state=True)
    deletions_fail: Int8 = column("some fail; else unknown: none may be due", tri_state=True)


@rule
def remote_operations(metrics: BrokerMetrics, cycle: Cycle) -> RemoteOperations:
    """Brokers that were scraped lately."""
    recent = metrics.pick(cycle.observed_at_ms - metrics.measured_at_ms <= STALE_METRICS_MS)
    fails, reads = recent.remote_fetch_errors_per_s > 0, recent.remote_fetch_requests_per_s > 0
    return RemoteOperations(
        recent.broker,
        np.where(fails, 1, np.where(reads, 0, UNKNOWN)).astype(np.int8),
        np.where(recent.remote_delete_errors_per_s > 0, 1, UNKNOWN).astype(np.int8),
    )


class RemoteStorage(ClusterTable, kind="remote_storage"):
    """[K] what remote storage does for each leader of tiered partitions, sorted by broker."""

    broker: Int32 = column("broker id")
    takes_no_uploads: Int8 = column(
        "uploads that are due do not come; unknown while none is due", tri_state=True
    )
    since_ms: Int64 = column("its last upload before that")
    uploaded_at_ms: Int64 = column("newest upload that was seen")
    judged: Int64 = column("partitions that are written, and upload each segment at once")
    stuck: Int64 = column("of these, partitions that are late and upload nothing")
    stuck_bytes: Float64 = column("what waits in these", fill=0.0)
    fastest_bytes_per_s: Float64 = column("the most that it uploaded a second so far", fill=0.0)
    copies_fail: Int8 = column("it measures that uploads fail", tri_state=True)
    reads_fail: Int8 = column("it measures that reads fail", tri_state=True)
    reads_failed_at_ms: Int64 = column("newest cycle with reads that failed")
    deletions_fail: Int8 = column("it measures that deletions fail", tri_state=True)
    deletions_failed_at_ms: Int64 = column("newest cycle with deletions that failed")

    def failing(self) -> Bool:
        """[K] the broker's uploads are known not to come."""
        is_failing: Bool = self.takes_no_uploads == 1
        return is_failing

    def failing_since_ms(self) -> int:
        """The last upload of all brokers whose uploads do not come; UNKNOWN if there are none."""
        return int(self.since_ms[self.failing()].max(initial=UNKNOWN))


@rule
def remote_storage(
    before: Before[RemoteStorage], reported: BrokerUploads, operations: RemoteOperations,
    copies: FailingUploads, cycle: Cycle,
) -> RemoteStorage:  # fmt: skip
    """What has begun goes on until an upload is seen, or nothing waits any more."""
    now_ms = cycle.observed_at_ms
    uploads = _of_all_shards(reported)
    broker = uploads.broker.astype(np.int64)

    def was(values: Int64 | Int8) -> Int64:
        return keys.look_up(before.broker.astype(np.int64), values, broker).astype(np.int64)

    fastest = keys.look_up(before.broker.astype(np.int64), before.fastest_bytes_per_s, broker)

    since_ms = was(before.since_ms)
    goes_on = (was(before.takes_no_uploads) == 1) & (uploads.waiting > 0)
    goes_on &= uploads.uploaded_at_ms <= since_ms
    begins = _is_evident(uploads, now_ms)
    last_ms = np.where(
        uploads.uploaded_at_ms == UNKNOWN, uploads.waits_since_ms, uploads.uploaded_at_ms
    )
    is_failing = goes_on | begins
    is_known = is_failing | (uploads.judged > 0)

    def lately(fails: Int8, failed_at_ms: Int64) -> tuple[Int8, Int64]:
        """Errors come with pauses: what failed lately fails still."""
        now = keys.look_up(operations.broker.astype(np.int64), fails, broker)
        at_ms = np.where(now == 1, now_ms, was(failed_at_ms))
        is_recent = (at_ms != UNKNOWN) & (now_ms - at_ms <= ERRORS_PAUSE_MS)
        return np.where(is_recent, 1, now), np.where(is_recent, at_ms, UNKNOWN)

    return RemoteStorage(
        uploads.broker,
        np.where(is_known, is_failing, UNKNOWN).astype(np.int8),
        np.where(goes_on, since_ms, np.where(begins, last_ms, UNKNOWN)),
        uploads.uploaded_at_ms,
        uploads.judged,
        uploads.stuck,
        uploads.stuck_bytes,
        np.maximum(fastest, uploads.uploaded_bytes_per_s),
        keys.look_up(copies.broker.astype(np.int64), copies.is_failing, broker),
        *lately(operations.reads_fail, before.reads_failed_at_ms),
        *lately(operations.deletions_fail, before.deletions_failed_at_ms),
    )


def _is_evident(uploads: BrokerUploads, now_ms: int) -> Bool:
    """[K] an upload is due, none of any partition has come since, and others should have."""
    last_ms = np.where(
        uploads.uploaded_at_ms == UNKNOWN, uploads.waits_since_ms, uploads.uploaded_at_ms
    )
    expected = uploads.other_uploads_per_s * (now_ms - last_ms) / 1_000
    others_should = (uploads.stuck == uploads.judged) | (expected >= EXPECTED)
    others_should |= now_ms - uploads.due_at_ms >= PATIENCE_MS
    is_evident: Bool = (uploads.stuck > 0) & (uploads.due_at_ms > uploads.uploaded_at_ms)
    return is_evident & others_should


def _of_all_shards(reported: BrokerUploads) -> BrokerUploads:
    """One row a broker: sums, and of times the newest."""
    broker, at = np.unique(reported.broker, return_inverse=True)

    def put_together(name: str) -> Array:
        values: Array = getattr(reported, name)
        if name.endswith("_ms"):
            newest = np.full(len(broker), UNKNOWN, np.int64)
            np.maximum.at(newest, at, values)
            return newest
        sums = np.zeros(len(broker), values.dtype)
        np.add.at(sums, at, values)
        return sums

    return BrokerUploads.from_values(
        [broker, *(put_together(each.name) for each in BrokerUploads.columns[1:])]
    )


# ---------------------------------------------------------------- declared


@risk(
    "remote_storage_failing",
    rank=7,
    severity="page",
    per="cluster",
    open_after_ms=60_000,
    close_after_ms=60_000,
    sentence="remote storage takes no uploads: disks fill until it does",
    source="ListOffsets -5 of tiered partitions; RemoteLogManager.RLMCopyTask, Kafka 4.3",
    alert=Alert(
        summary="has a remote storage that takes no uploads",
        description="Uploads of {cluster} to remote storage are due and do not come: of one "
        "broker, or of all. Nothing is deleted from disks before it is uploaded, so these fill.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def is_failing(storage: RemoteStorage) -> int:
    """Unknown while no upload is due of any broker."""
    if storage.failing().any():
        return 1
    is_unknown = len(storage.broker) and (storage.takes_no_uploads == UNKNOWN).all()
    return UNKNOWN if is_unknown else 0


@gauge(
    "uploads_stopped_seconds",
    "Time since the broker's last upload to remote storage, while uploads that are due do not "
    "come; else 0. No series while none is due.",
    labels=("broker",),
)
def uploads_stopped_seconds(storage: RemoteStorage, cycle: Cycle) -> Mapping[tuple[str], float]:
    """The brokers that lead tiered partitions which are written."""
    stopped_ms = np.where(storage.failing(), cycle.observed_at_ms - storage.since_ms, 0)
    known = storage.takes_no_uploads != UNKNOWN
    rows = zip(storage.broker[known].tolist(), stopped_ms[known].tolist(), strict=True)
    return {(str(broker),): ms / 1_000 for broker, ms in rows}
