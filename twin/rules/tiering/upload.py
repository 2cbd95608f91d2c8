"""How far uploads are behind, against what local retention wants to delete.

A segment is deleted from disk only once it is in remote storage (UnifiedLog.deletableSegments,
Kafka 4.3). When what is not uploaded yet grows to what local retention keeps, retention waits for
uploads and the disk fills. The segment that is written has no upload yet, and from Kafka 4.4 on
closed ones may wait on purpose (KIP-1241), up to what local retention keeps: uploads are late
beyond that.

How long a record has waited follows from the rate at which the partition is written. Where nothing
is written, all of it has waited since the last append at least, and since the first record on disk
where that waits, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int64,
    PartitionTable,
    column,
)
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LastAppends, LocalLog
from twin.rules.tiering.tier_states import TierState, TierStates, uploads_at_once
from twin.rules.tiering.timestamps import FirstSeenEnds
from twin.tables.state import Partitions

NEARLY: Final = 0.9
"""Share of local retention at which an operator still has time to act."""

LATE: Final = 1.1
"""Times the lag that the settings allow, from which on uploads are late."""

UPLOAD_S: Final = 90
"""A closed segment may take so long until it is uploaded: two rounds of RemoteLogManager's task,
and the upload itself."""


class UploadLag(
    PartitionTable, kind="upload_lag", api="", on_demand="a difference of the leader's offsets"
):
    """[P] what is not in remote storage yet."""

    upload_lag_records: Int64 = column(
        "records that the leader has not uploaded: all of them while nothing is uploaded; unknown "
        "before Kafka 3.9, where the settings are, of topics that are compacted, too, and where "
        "nothing more is uploaded on purpose"
    )
    upload_lag_bytes: Float64 = column(
        "those records, estimated at the size of its local records", fill=float("nan")
    )


@rule
def upload_lag(
    leaders: Leaders, configs: TopicConfigs, states: TierStates, sizes: RecordSizes
) -> UploadLag:
    """The records after the last tiered one, of those that the log still has.

    Records below the log start are not uploaded any more: they were deleted by request, or by
    retention while the topic was not tiered.
    """
    start, end = leaders.log_start_offset, leaders.log_end_offset
    first = np.maximum(leaders.last_tiered_offset + 1, start)
    is_known = (configs.remote_storage == 1) & (configs.copies_disabled == 0)
    has_nothing = states.tier_state == TierState.NOTHING_UPLOADED
    is_known &= has_nothing | (leaders.last_tiered_offset != UNKNOWN)
    is_known &= (start != UNKNOWN) & (end != UNKNOWN)
    records = np.where(is_known, np.maximum(end - first, 0), UNKNOWN)
    # No records have no size, also where that of a record is unknown: nothing may be on disk.
    size = np.where(records == 0, 0.0, records * sizes.bytes_per_record)
    size = np.where(records == UNKNOWN, np.nan, size)
    return UploadLag(records, size)


class UploadWaits(
    PartitionTable, kind="upload_waits", on_demand="a quotient of stored offsets and rates"
):
    """[P] for how long the leader's records have waited for their upload."""

    waited_ms: Float64 = column(
        "how long its first record that is not uploaded has waited, NaN if unknown",
        fill=float("nan"),
    )


@rule
def upload_waits(
    leaders: Leaders, lag: UploadLag, growth: Growth, local: LocalLog, last: LastAppends,
    first: FirstSeenEnds,
) -> UploadWaits:  # fmt: skip
    """By the rate; of an idle partition by the last append and by its first record on disk."""
    records, rate = lag.upload_lag_records, growth.appended_records_per_s
    waited = np.where(rate > 0, records / np.where(rate > 0, rate, 1) * 1_000, np.nan)
    idle = (rate == 0) & (records > 0)
    if idle.any():
        since_ms = np.where(last.at_ms == UNKNOWN, first.at_ms, last.at_ms)
        idle_ms = np.where(since_ms == UNKNOWN, np.nan, leaders.sampled_at_ms - since_ms)
        span_ms = leaders.values_of(local.local_log_span_ms)
        waits = leaders.log_end_offset - records <= leaders.local_log_start_offset
        oldest_ms = np.where(waits & (span_ms != UNKNOWN), span_ms, np.nan)
        np.copyto(waited, np.fmax(idle_ms, oldest_ms), where=idle)
    return UploadWaits(np.where(records == UNKNOWN, np.nan, waited))


class NeverUploaded(
    PartitionTable, kind="never_uploaded", on_demand="a difference of the leader's offsets"
):
    """[P] what of a partition is not in remote storage, and will not be: copies are disabled."""

    bytes: Float64 = column("estimated at the size of its local records", fill=np.nan)


@rule
def never_uploaded(leaders: Leaders, states: TierStates, sizes: RecordSizes) -> NeverUploaded:
    """What is behind the last tiered offset; NaN of all other partitions."""
    late = np.full(len(states.tier_state), np.nan)
    row = np.flatnonzero(
        (states.tier_state == TierState.COPIES_DISABLED) & (leaders.last_tiered_offset != UNKNOWN)
    )
    first = np.maximum(leaders.last_tiered_offset[row] + 1, leaders.log_start_offset[row])
    records = np.maximum(leaders.log_end_offset[row] - first, 0)
    late[row] = np.where(records > 0, records * sizes.bytes_per_record[row], 0)
    return NeverUploaded(late)


@risk(
    "upload_lag_vs_local_retention",
    rank=110,
    severity="warn",
    open_after_ms=60_000,
    close_after_ms=30_000,
    sentence="local retention is about to wait for uploads, and the disk fills",
    source="UnifiedLog.deletableSegments, Kafka 4.3",
    alert=Alert(
        summary="fill the disk because uploads are behind",
        description="What is not uploaded of {n} partitions of {cluster} comes to what local "
        "retention keeps; nothing is deleted until it is in remote storage.",
        wait="2m",
        keep_firing_for="5m",
    ),
)
def lags_retention(
    lag: UploadLag, waits: UploadWaits, growth: Growth, sizes: RecordSizes, configs: TopicConfigs
) -> Bool:
    """The part not uploaded is at least NEARLY of what local retention keeps, in bytes or in time.

    It is also LATE times what may wait: the segment that is written, and the delay of uploads.
    """
    kept_bytes, kept_ms = configs.local_retention_bytes, configs.local_retention_ms
    with np.errstate(invalid="ignore"):
        by_bytes = (kept_bytes > 0) & (lag.upload_lag_bytes >= NEARLY * kept_bytes)
        by_time = (kept_ms > 0) & (waits.waited_ms >= NEARLY * kept_ms)
    lags: Bool = (configs.remote_storage == 1) & (by_bytes | by_time)
    row = np.flatnonzero(lags)
    if len(row):  # only of these few it is asked what may wait
        tables = waits.take(row), growth.take(row), sizes.take(row), configs.take(row)
        lags[row] = lag.upload_lag_records[row] >= LATE * records_that_may_wait(*tables)
    return lags


def records_that_may_wait(
    waits: UploadWaits, growth: Growth, sizes: RecordSizes, configs: TopicConfigs
) -> Float64:
    """[P] records that a leader need not have uploaded yet.

    A segment of unknown size adds none, where the partition is written. Where it is not, all of
    the lag may be in the segment that is written last.

    A closed segment is due by its age or by the bytes after it, whichever comes first.
    Source: RLMCopyTask.isEligibleForUpload, Kafka 4.4.
    """
    rate, size = growth.appended_records_per_s, sizes.bytes_per_record

    def first(ms: Int64, size_bytes: Int64) -> Float64:
        with np.errstate(invalid="ignore", divide="ignore"):
            by_age = np.where((ms > 0) & (rate > 0), ms / 1000 * rate, np.inf)
            by_bytes = np.where((size_bytes > 0) & (size > 0), size_bytes / size, np.inf)
        return np.minimum(by_age, by_bytes)

    # Where the delay is unknown, so is whether anything is late.
    delayed = first(configs.upload_delay_ms, configs.upload_delay_bytes)
    written = first(configs.segment_ms, configs.segment_bytes)
    is_due = (rate == 0) & (configs.upload_delay_ms > 0)
    with np.errstate(invalid="ignore"):
        is_due &= waits.waited_ms >= configs.upload_delay_ms
    may_wait = np.where(uploads_at_once(configs) | is_due, 0, delayed)
    return may_wait + np.where(np.isinf(written) & (rate != 0), 0, written)


def records_in_time(
    waits: UploadWaits, growth: Growth, sizes: RecordSizes, configs: TopicConfigs
) -> Float64:
    """[P] the lag above which uploads are late: what may wait, and what is written meanwhile."""
    may_wait = records_that_may_wait(waits, growth, sizes, configs)
    in_time: Float64 = LATE * may_wait + UPLOAD_S * growth.appended_records_per_s
    return in_time


@gauge(
    "upload_lag_records",
    "Records that the partition's leader has not uploaded.",
    level="partition",
)
def upload_lag_records(lag: UploadLag) -> Array:
    """The lag, unknown where the leader does not report its last tiered offset."""
    return lag.upload_lag_records


@gauge(
    "upload_lag_bytes",
    "Bytes that the partition's leader has not uploaded, estimated at the size of its local "
    "records.",
    level="partition",
)
def upload_lag_bytes(lag: UploadLag) -> Array:
    """The lag in bytes, NaN where it is unknown."""
    return lag.upload_lag_bytes


@gauge(
    "upload_lag_bytes",
    "Estimated bytes that the broker has not uploaded of the partitions that it leads, without "
    "those of unknown lag; no series if every lag is unknown, as before Kafka 3.9.",
    level="broker",
)
def broker_upload_lag_bytes(lag: UploadLag, partitions: Partitions) -> ByBroker:
    """The lag by leader, without partitions of unknown lag and brokers that lead no others."""
    return _by_leader(lag.upload_lag_bytes, partitions)


@gauge(
    "upload_lag_open_bytes",
    "Bytes of the broker's upload lag that may be in segments that are still written, which have "
    "no upload yet: up to one segment for each partition.",
    level="broker",
)
def broker_upload_lag_open_bytes(
    lag: UploadLag, configs: TopicConfigs, partitions: Partitions
) -> ByBroker:
    """The open bytes by leader, without partitions of unknown lag."""
    return _by_leader(open_bytes(lag, configs), partitions)


def open_bytes(lag: UploadLag, configs: TopicConfigs) -> Float64:
    """[P] bytes of the lag that may be in an open segment; all where segment.bytes is unknown."""
    segment = np.where(configs.segment_bytes >= 0, configs.segment_bytes, np.inf)
    return np.minimum(lag.upload_lag_bytes, segment)


def _by_leader(values: Float64, partitions: Partitions) -> ByBroker:
    """The known values by leader, without brokers that have none."""
    is_counted = ~np.isnan(values) & (partitions.leader != NO_BROKER)
    whole = np.rint(values[is_counted]).astype(np.int64)
    return ByBroker(partitions.leader[is_counted], whole, named_only=True)
