"""Where an empty follower that joined now would start, and what that costs (KIP-1023).

A follower begins at offset 0. A leader that still has offset 0 on disk simply sends it, so the
feature never comes into play; any other leader answers that the offset moved to remote storage or
is out of range, and the follower chooses where to start: at the leader's local log start, or, with
``follower.fetch.last.tiered.offset.enable``, at its earliest pending upload offset (ListOffsets
-6). The leader's answer to -6 is observed: the collector asks as a follower would.

Source: AbstractFetcherThread.fetchOffsetAndTruncate and handleOffsetsMovedToTieredStorage,
ReplicaFetcherThread.shouldFetchFromLastTieredOffset, TierStateMachine.start, Kafka 4.3; the paths
that fail were measured on Kafka 4.3.1. RemoteLogManager.doHandleLeaderPartition starts no copy task
where copies are disabled (KIP-950): that task uploads, and tells the leader what is tiered.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import api_field, gauge, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Lazy
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int8,
    Int64,
    PartitionTable,
    ReplicaTable,
    Rows,
    column,
)
from twin.rules.partitions.growth import RecordSizes
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.enums import PendingUpload
from twin.tables.state import Assignment, Brokers, Configs

COPY_BYTES_PER_S: Final = 50 << 20
"""The rate at which the API quotes a time to copy: the default of ``whatif bootstrap``."""

_WHY: Final = "a function of the leader's stored offsets"


class BootstrapPath(IntEnum):
    """The place where an empty follower starts to copy (KIP-1023). The values are stored."""

    FROM_ZERO = 0  # the leader still has offset 0: a full copy, with the feature as without
    FROM_LOCAL_START = 1  # the leader's local log start
    FROM_PENDING_UPLOAD = 2  # what is not in remote storage yet: the feature at work
    # These fail and are tried again each second, until what they wait for happens:
    NOTHING_TIERED_YET = 3  # the first upload of a log that does not begin at 0
    LEADER_LEARNING = 4  # the leader has not learnt yet what is tiered
    STUCK_IDLE = 5  # everything is tiered: until somebody writes a record
    BELOW_LOG_START = 6  # the tier ends below the log start: until the next upload
    COPIES_DISABLED = 7  # one of these that ends by uploads, and there are none (KIP-950)


_UPLOADS_END: Final = (
    BootstrapPath.NOTHING_TIERED_YET,
    BootstrapPath.LEADER_LEARNING,
    BootstrapPath.BELOW_LOG_START,
)
"""Paths that end once the leader's copy task has run."""


class BootstrapOff(PartitionTable, kind="bootstrap_kip1023_off", on_demand=_WHY):
    """[P] what an empty follower would do with KIP-1023's feature off.

    Remote storage gives it the auxiliary state (epochs, producers) of ``log_start_offset`` to
    ``start_offset``, where the latter is higher; it copies ``start_offset`` to the leader's log
    end.
    """

    path: Int8 = column("where it starts", enum=BootstrapPath)
    log_start_offset: Int64 = column("log start that it takes over")
    start_offset: Int64 = column("first offset that it copies, unknown if it cannot start")
    records: Int64 = column("records that it copies")
    bytes_estimate: Float64 = column(
        "bytes that it copies, by the size of the leader's records", fill=float("nan")
    )


class BootstrapOn(PartitionTable, kind="bootstrap_kip1023_on", on_demand=_WHY):
    """[P] what an empty follower would do with KIP-1023's feature on."""

    path: Int8 = column("where it starts", enum=BootstrapPath)
    log_start_offset: Int64 = column("log start that it takes over")
    start_offset: Int64 = column("first offset that it copies, unknown if it cannot start")
    records: Int64 = column("records that it copies")
    bytes_estimate: Float64 = column(
        "bytes that it copies, by the size of the leader's records", fill=float("nan")
    )


class FollowerFeatures(
    ReplicaTable, kind="follower_features", api="", on_demand="looked up in the table brokers"
):
    """[P, R] whether each replica, as a follower, starts where uploads end (KIP-1023)."""

    last_tiered_fetch: Int8 = column(
        "its broker has follower.fetch.last.tiered.offset.enable on", tri_state=True
    )


Bootstrap = BootstrapOff | BootstrapOn


@rule
def bootstrap_off(leaders: Leaders, sizes: RecordSizes) -> BootstrapOff:
    """An empty follower starts at offset 0 if it is on disk, else at the local log start."""
    local = leaders.local_log_start_offset
    path = np.where(local == 0, BootstrapPath.FROM_ZERO, BootstrapPath.FROM_LOCAL_START)
    return BootstrapOff(*_columns(leaders, sizes, path, local))


@rule
def bootstrap_on(leaders: Leaders, sizes: RecordSizes, configs: TopicConfigs) -> BootstrapOn:
    """An empty follower starts at the earliest pending upload offset, where the feature applies."""
    local, end = leaders.local_log_start_offset, leaders.log_end_offset
    path = np.where(local == 0, BootstrapPath.FROM_ZERO, BootstrapPath.FROM_LOCAL_START)
    applies = (local > 0) & (end > 0) & applies_to(configs)
    tiered_path, tiered_start = _with_feature(leaders)
    waits = np.flatnonzero(configs.copies_disabled == 1)
    waits = waits[np.isin(tiered_path[waits], _UPLOADS_END)]
    tiered_path[waits] = BootstrapPath.COPIES_DISABLED
    path = np.where(applies, tiered_path, path)
    begins = np.where(applies, tiered_start, local)
    return BootstrapOn(*_columns(leaders, sizes, path, begins))


@rule
def follower_features(
    assignment: Assignment, roles: Roles, brokers: Brokers, configs: Configs
) -> FollowerFeatures:
    """The setting of the replica's own broker; the cluster's where that was not read."""
    of_cluster = configs.cluster_wide("last_tiered_fetch")
    own = brokers.follower_last_tiered_fetch
    if ((own == UNKNOWN) | (own == of_cluster)).all():  # as in most clusters
        value: Array = np.array(of_cluster, np.int8)
    else:
        broker = assignment.broker.astype(np.int64)
        value = keys.look_up(brokers.broker.astype(np.int64), own, broker)
        value = np.where(value == UNKNOWN, of_cluster, value)
    return FollowerFeatures(np.where(roles.is_assigned, value, UNKNOWN).astype(np.int8))


def path_as_configured(
    features: FollowerFeatures, on: Lazy[BootstrapOn], off: Lazy[BootstrapOff], row: Rows,
    slot: Rows,
) -> Int8:  # fmt: skip
    """[N] the path of each of these replicas if it were empty; unknown counts as off."""
    is_on = features.last_tiered_fetch[row, slot] == 1
    with_feature = on().path[row] if is_on.any() else UNKNOWN
    without = off().path[row] if not is_on.all() else UNKNOWN
    return np.where(is_on, with_feature, without).astype(np.int8)


def applies_to(configs: TopicConfigs) -> Bool:
    """[P] the topic is one that the feature concerns: tiered and not compacted."""
    return (configs.remote_storage == 1) & (configs.compacted != 1)


def cannot_start(path: Array) -> Bool:
    """The path fails until something else happens. Any shape."""
    return path >= BootstrapPath.NOTHING_TIERED_YET


def saved_share(on: Bootstrap, off: Bootstrap) -> Float64:
    """[P] share of the records that the feature saves, 0 to 1; NaN where either is unknown."""
    is_known = (on.records != UNKNOWN) & (off.records != UNKNOWN)
    share = (off.records - on.records) / np.maximum(off.records, 1)
    return np.where(is_known, share, np.nan)


def copy_seconds(bootstrap: Bootstrap, bytes_per_second: float) -> Float64:
    """[P] time to copy at that rate; NaN where the bytes are unknown.

    Raises:
        ValueError: the rate is not positive.
    """
    if bytes_per_second <= 0:
        raise ValueError(f"bytes_per_second is {bytes_per_second}")
    return bootstrap.bytes_estimate / bytes_per_second


def follower_start_offset(answer: Int64, log_start: Int64, local_start: Int64) -> Int64:
    """[P] where a follower with the feature on decides to start, UNKNOWN where it tries again.

    Args:
        answer: the leader's answer to -6, -1 for none.
        log_start: the leader's log start offset.
        local_start: the leader's local log start offset.

    Source: AbstractFetcherThread.fetchEarliestPendingUploadOffset.
    """
    whole = local_start == log_start  # nothing lies before the local log, so it may start there
    return np.where(answer >= 0, answer, np.where(whole, local_start, UNKNOWN))


def _columns(
    leaders: Leaders, sizes: RecordSizes, path: Array, begins: Int64
) -> tuple[Int8, Int64, Int64, Int64, Float64]:
    """The columns of either table; unknown where one of the leader's offsets is."""
    start, end = leaders.log_start_offset, leaders.log_end_offset
    has_offsets = (
        (start != UNKNOWN) & (end != UNKNOWN) & (leaders.local_log_start_offset != UNKNOWN)
    )
    path = np.where(has_offsets, path, UNKNOWN).astype(np.int8)
    begins = np.where(path == UNKNOWN, UNKNOWN, begins)
    records = np.where(begins == UNKNOWN, UNKNOWN, np.maximum(end - begins, 0))
    sized = np.where(records == 0, 0.0, records * sizes.bytes_per_record)
    size = np.where(records == UNKNOWN, np.nan, sized)
    return path, np.where(has_offsets, start, UNKNOWN), begins, records, size


def _with_feature(leaders: Leaders) -> tuple[Array, Int64]:
    """[P] path and start offset where the follower asks for -6.

    It builds its auxiliary state from the remote segment that holds the offset before its start,
    and fails while there is none: at a log start above the tier, although KIP-1023 says to truncate
    and copy there (measured).
    """
    start, last_tiered = leaders.log_start_offset, leaders.last_tiered_offset
    reason = leaders.pending_upload
    begins = follower_start_offset(
        leaders.pending_upload_offset, start, leaders.local_log_start_offset
    )
    builds = (begins > start) & (begins <= last_tiered + 1)
    builds &= begins >= leaders.local_log_start_offset  # the leader has nothing on disk below
    path = np.select(
        [
            (reason == PendingUpload.ABSENT) | (reason == UNKNOWN),
            (begins == UNKNOWN) & (reason == PendingUpload.ALL_TIERED),
            begins == UNKNOWN,
            builds,
            last_tiered == UNKNOWN,
            last_tiered + 1 <= start,
        ],
        [
            UNKNOWN,
            BootstrapPath.STUCK_IDLE,
            BootstrapPath.LEADER_LEARNING,
            BootstrapPath.FROM_PENDING_UPLOAD,
            BootstrapPath.NOTHING_TIERED_YET,
            BootstrapPath.BELOW_LOG_START,
        ],
        # All is tiered and all is still local: it depends on where the remote segments end.
        UNKNOWN,
    )
    return path, np.where(path == BootstrapPath.FROM_PENDING_UPLOAD, begins, UNKNOWN)


# ---------------------------------------------------------------- exported


@gauge(
    "last_tiered_fetch",
    "1 if the broker's followers start where uploads end (KIP-1023), else 0.",
    level="broker",
    combine="newest",
)
def broker_last_tiered_fetch(brokers: Brokers) -> ByBroker:
    """Brokers whose own setting was not read have no series."""
    was_read = brokers.follower_last_tiered_fetch != UNKNOWN
    return ByBroker(brokers.broker[was_read], brokers.follower_last_tiered_fetch[was_read])


@gauge(
    "partitions_by_bootstrap_path",
    "Partitions by the place where an empty follower would start, with KIP-1023's feature on and "
    "off.",
    labels=("feature", "path"),
)
def partitions_by_bootstrap_path(
    on: BootstrapOn, off: BootstrapOff
) -> Mapping[tuple[str, str], int]:
    """Partitions of unknown path count nowhere."""
    return {
        (feature, path.name.lower()): int((each.path == path).sum())
        for feature, each in (("on", on), ("off", off))
        for path in BootstrapPath
    }


@gauge(
    "bootstrap_bytes",
    "Bytes that empty followers of all partitions would copy, estimated, with KIP-1023's feature "
    "on and off.",
    labels=("feature",),
)
def bootstrap_bytes(on: BootstrapOn, off: BootstrapOff) -> Mapping[tuple[str], int]:
    """The whole bytes, which add up over shards; partitions of unknown size are left out."""
    return {
        (feature,): int(np.rint(np.nan_to_num(each.bytes_estimate)).sum())
        for feature, each in (("on", on), ("off", off))
    }


@gauge(
    "bootstrap_start_offset",
    "First offset that an empty follower of the partition would copy, with KIP-1023's feature on "
    "and off.",
    level="partition",
    labels=("feature",),
)
def bootstrap_start_offset(on: BootstrapOn, off: BootstrapOff) -> Mapping[tuple[str], Array]:
    """The start offset, unknown where the follower cannot start."""
    return {("on",): on.start_offset, ("off",): off.start_offset}


@gauge(
    "bootstrap_records",
    "Records that an empty follower of the partition would copy, with KIP-1023's feature on and "
    "off.",
    level="partition",
    labels=("feature",),
)
def bootstrap_records(on: BootstrapOn, off: BootstrapOff) -> Mapping[tuple[str], Array]:
    """The records to copy, unknown where the follower cannot start."""
    return {("on",): on.records, ("off",): off.records}


@api_field(
    "bootstrap",
    "an empty follower that joined now, with KIP-1023's feature on (`kip1023_on`) and off "
    "(`kip1023_off`): `path`, `log_start_offset` that it takes over, `start_offset`, `records` and "
    "`bytes_estimate` to copy, `seconds_at_50_mib_per_s`; `saved_share`: share of the records that "
    "the feature saves",
)
def bootstrap_field(on: BootstrapOn, off: BootstrapOff) -> list[dict[str, Any]]:
    """The start of an empty follower with the feature on and off, side by side."""
    saved = saved_share(on, off)
    on_seconds, off_seconds = (copy_seconds(each, COPY_BYTES_PER_S) for each in (on, off))
    return [
        {
            "saved_share": plain.finite(saved[row]),
            "kip1023_on": _plain(on, row, on_seconds[row]),
            "kip1023_off": _plain(off, row, off_seconds[row]),
        }
        for row in range(len(on.path))
    ]


def _plain(bootstrap: Bootstrap, row: int, seconds: float) -> dict[str, Any]:
    size = float(bootstrap.bytes_estimate[row])
    return {
        "path": plain.name(BootstrapPath, bootstrap.path[row]),
        "log_start_offset": plain.integer(bootstrap.log_start_offset[row]),
        "start_offset": plain.integer(bootstrap.start_offset[row]),
        "records": plain.integer(bootstrap.records[row]),
        "bytes_estimate": None if np.isnan(size) else round(size),
        "seconds_at_50_mib_per_s": plain.finite(seconds),
    }
