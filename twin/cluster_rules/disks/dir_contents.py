"""What is in each log directory, by what it is to Kafka, so that it adds up to what is used.

Sizes are those of DescribeLogDirs: of segments, without their indexes. The rest of a volume is what
is used on it and in no log: indexes, metadata, logs that are being deleted, other programs' files,
and blocks that the file system keeps for its administrator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import gauge, rule
from twin.declarations.results import ByLogDir
from twin.declarations.signature import Cycle
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    ClusterTable,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    ShardReport,
    Text,
    column,
)
from twin.rules.brokers.log_dirs import STORAGE_ERROR, LogDirColumns, LogDirs, ReplicaDirs
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.staleness import STALE_MS
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.upload import NeverUploaded, UploadLag
from twin.tables.state import Assignment, Replicas

_UNTIERED, _UNJUDGED, _TIERED, _NO_LONGER = range(4)
_KINDS: Final = 4
"""What a partition is to remote storage: of one that is no longer uploaded, the rest never is."""


class LogDirBytes(ShardReport, kind="log_dir_bytes"):
    """[K] what a shard's replicas have in each log directory, sorted by broker and number."""

    broker: Int32 = column("broker id")
    number: Int8 = column("number of the directory; unknown where the broker has one")
    tiered_bytes: Int64 = column("bytes that are in remote storage too", fill=0)
    waiting_bytes: Int64 = column("bytes that wait for their upload", fill=0)
    untiered_bytes: Int64 = column("bytes that are uploaded never", fill=0)
    offline_replicas: Int64 = column("replicas that are offline", fill=0)


@rule
def log_dir_bytes(
    assignment: Assignment, roles: Roles, replicas: Replicas, dirs: ReplicaDirs,
    configs: TopicConfigs, never_uploaded: NeverUploaded, lag: UploadLag,
) -> LogDirBytes:  # fmt: skip
    """The sums of assigned replicas of known size; what is not known to be anything adds none.

    Of each replica so much waits as its leader has not uploaded, or all that it has.
    """
    slot = None if roles.is_assigned.all() else np.flatnonzero(roles.is_assigned.ravel())

    def assigned(values: Array) -> Array:
        return values.ravel() if slot is None else values.ravel().take(slot)

    number = assigned(dirs.number)
    each, at = keys.distinct(assigned(assignment.broker))
    width = int(number.max(initial=UNKNOWN)) + 2
    cell = at * width + (number + 1) if width > 1 else at
    cells = len(each) * width
    is_tiered, is_over = configs.remote_storage == 1, ~np.isnan(never_uploaded.bytes)
    late = np.where(is_over, never_uploaded.bytes, lag.upload_lag_bytes)
    late[lag.upload_lag_records == 0] = 0  # also of a leader whose records have no known size
    kind = np.where(configs.remote_storage == 0, _UNTIERED, _UNJUDGED)
    kind[is_tiered & ~np.isnan(late)] = _TIERED
    kind[is_tiered & is_over] = _NO_LONGER
    late[kind < _TIERED] = 0
    of_kind = cell + cells * assigned(np.repeat(kind, dirs.number.shape[1]))

    def summed(values: Array) -> Int64:
        """[kinds, cells]"""
        sums = np.bincount(of_kind, assigned(values), minlength=cells * _KINDS)
        return np.rint(sums).astype(np.int64).reshape(_KINDS, -1)

    held = np.maximum(replicas.local_log_bytes, 0)
    sums = summed(held)
    waits = np.zeros_like(sums)
    if late.any():
        waits = summed(np.rint(np.minimum(late[:, None], held)))
    is_offline, offline = assigned(roles.is_offline), np.zeros(cells, np.int64)
    if is_offline.any():
        offline = np.bincount(cell[is_offline], minlength=cells)
    row = np.flatnonzero(np.bincount(cell, minlength=cells))
    uploaded = sums - waits
    return LogDirBytes(
        each[row // width].astype(np.int32),
        (row % width - 1).astype(np.int8),
        tiered_bytes=(uploaded[_TIERED] + uploaded[_NO_LONGER])[row],
        waiting_bytes=waits[_TIERED][row],
        untiered_bytes=(sums[_UNTIERED] + waits[_NO_LONGER])[row],
        offline_replicas=offline[row],
    )


class ReportedLogDirs(ShardReport, LogDirColumns, kind="reported_log_dirs"):
    """[K] the log directories of all brokers: of the shard that has them, and of no other."""

    observed_at_ms: Int64 = column("when its broker last listed it")


@rule
def reported_log_dirs(dirs: LogDirs) -> ReportedLogDirs:
    """The table as it is."""
    return ReportedLogDirs.from_values(dirs.values())


class LogDirUse(ClusterTable, kind="log_dir_use"):
    """[K] what is in each log directory, sorted by broker and number.

    ``tiered_bytes`` to ``unlisted_bytes`` add up to the logs in it, with ``other_bytes`` of all
    directories on a volume to what is used on that.
    """

    broker: Int32 = column("broker id")
    log_dir: Text = column("path of the directory", fill="")
    number: Int16 = column("its place among the broker's directories, sorted by path")
    volume: Int16 = column("number of the first directory on the same volume")
    total_bytes: Int64 = column("size of its volume")
    usable_bytes: Int64 = column("free space of its volume")
    size_is_configured: Bool = column("both are derived from the configuration", fill=False)
    error_code: Int16 = column(
        "Kafka error code, 0 for none, 56 if it has failed", fill=0, minus_one_is_a_value=True
    )
    is_cordoned: Int8 = column("it takes no new replicas (KIP-1066)", tri_state=True)
    tiered_bytes: Int64 = column("bytes that are in remote storage too, and still kept")
    waiting_bytes: Int64 = column("bytes that wait for their upload")
    untiered_bytes: Int64 = column("bytes of replicas that are not tiered")
    unjudged_bytes: Int64 = column("bytes of replicas of which that is unknown")
    future_bytes: Int64 = column("bytes of replicas that are being moved into it")
    unassigned_bytes: Int64 = column("bytes of logs of partitions assigned to other brokers")
    unlisted_bytes: Int64 = column("bytes of logs of topics that are not observed")
    other_bytes: Float64 = column(
        "what is used on its volume and in no log; of the first directory of a volume alone",
        fill=np.nan,
    )
    offline_replicas: Int64 = column("replicas in it that are offline")
    observed_at_ms: Int64 = column("when its broker last listed it")
    is_current: Bool = column("its broker has listed it within a minute", fill=False)


@rule
def log_dir_use(dirs: ReportedLogDirs, held: LogDirBytes, cycle: Cycle) -> LogDirUse:
    """Replicas whose directory is unknown are in the only one of their broker, or unjudged.

    Offline ones are in the only one that has failed.
    """
    is_failed = dirs.error_code == STORAGE_ERROR
    everywhere = np.ones(len(dirs.broker), bool)
    place = places(dirs, held.broker, held.number, everywhere)
    failed_place = places(dirs, held.broker, held.number, is_failed)
    offline_place = np.where(place == UNKNOWN, failed_place, place)

    def summed(values: Int64, at: Array = place) -> Int64:
        sums = np.zeros(len(dirs.broker), np.int64)
        np.add.at(sums, at[at != UNKNOWN], values[at != UNKNOWN])
        return sums

    classes = [summed(getattr(held, f"{name}_bytes")) for name in ("tiered", "waiting", "untiered")]
    unjudged = np.maximum(dirs.replica_bytes - sum(classes), 0)
    has_listed = dirs.error_code == 0
    of_logs = [np.where(has_listed, each, UNKNOWN) for each in (*classes, unjudged)]
    same = ("broker", "log_dir", "number", "volume", "total_bytes", "usable_bytes",
            "size_is_configured", "error_code", "is_cordoned")  # fmt: skip
    logs = ("future_bytes", "unassigned_bytes", "unlisted_bytes")
    return LogDirUse.from_values(
        [
            *(getattr(dirs, name) for name in same),
            *of_logs,
            *(np.where(has_listed, getattr(dirs, name), UNKNOWN) for name in logs),
            _other(dirs),
            summed(held.offline_replicas, offline_place),
            dirs.observed_at_ms,
            cycle.observed_at_ms - dirs.observed_at_ms <= STALE_MS,
        ]
    )


def places(dirs: ReportedLogDirs | LogDirUse, of_broker: Int32, number: Int8, among: Bool) -> Array:
    """[N] the row of each directory; of one that is unknown, the broker's only one.

    Args:
        dirs: the directories.
        of_broker: [N] broker ids.
        number: [N] number of a directory of each, or unknown.
        among: [K] the directories that come into question where it is unknown.
    """
    listed = keys.pack(dirs.broker, dirs.number)
    place = keys.find(listed, keys.pack(of_broker, number))
    candidates = np.flatnonzero(among)
    broker, first, count = np.unique(dirs.broker[candidates], return_index=True, return_counts=True)
    only = keys.find(broker[count == 1].astype(np.int64), of_broker.astype(np.int64))
    row = np.append(candidates[first][count == 1], UNKNOWN)[only]
    return np.where(place == UNKNOWN, row, place)


def _other(dirs: ReportedLogDirs) -> Float64:
    """[K] what is used on a volume and in no log, at its first directory; NaN if unknown."""
    used = dirs.total_bytes - dirs.usable_bytes
    return np.where(is_volume(dirs), used - in_logs(dirs), np.nan)


def is_volume(dirs: ReportedLogDirs) -> Bool:
    """[K] first directories of their volumes, whose sizes are known."""
    first: Bool = dirs.volume == dirs.number
    return first & (dirs.total_bytes >= 0) & (dirs.usable_bytes >= 0)


def in_logs(dirs: ReportedLogDirs) -> Int64:
    """[K] bytes in the logs of all directories on a volume, at its first one."""
    others = dirs.future_bytes + dirs.unassigned_bytes + dirs.unlisted_bytes
    return _on_volume(dirs, dirs.replica_bytes + others)


def in_replicas(dirs: ReportedLogDirs) -> Int64:
    """[K] bytes of the assigned replicas in all directories on a volume, at its first one."""
    return _on_volume(dirs, dirs.replica_bytes)


def _on_volume(dirs: ReportedLogDirs, values: Int64) -> Int64:
    """[K] the sums of the values of all directories on a volume, at its first one."""
    volume = keys.pack(dirs.broker, dirs.volume)
    first = keys.find(keys.pack(dirs.broker, dirs.number), volume)
    sums = np.zeros(len(volume), np.int64)
    is_known = (first != UNKNOWN) & (dirs.error_code == 0)
    np.add.at(sums, first[is_known], values[is_known])
    return sums


# ---------------------------------------------------------------- exported

CLASSES: Final = (
    "tiered", "waiting", "untiered", "unjudged", "future", "unassigned", "unlisted", "other"
)  # fmt: skip
"""What is in a log directory, in the order of its columns."""


def _of(use: LogDirUse, values: Array) -> ByLogDir:
    """A gauge of those directories whose value is known and current."""
    is_known = use.is_current & ~np.isnan(values) & ((values != UNKNOWN) | (values.dtype == float))
    return ByLogDir(use.broker[is_known], use.log_dir[is_known], values[is_known])


@gauge("total_bytes", "Size of the volume of the log directory.", level="log_dir")
def total_bytes(use: LogDirUse) -> ByLogDir:
    """Directories on one volume have the same."""
    return _of(use, use.total_bytes)


@gauge("usable_bytes", "Free space of the volume of the log directory.", level="log_dir")
def usable_bytes(use: LogDirUse) -> ByLogDir:
    """Directories on one volume have the same."""
    return _of(use, use.usable_bytes)


@gauge(
    "bytes",
    "Bytes in the log directory by class: tiered (in remote storage too), waiting (for their "
    "upload), untiered, unjudged, future (replicas that are moved into it), unassigned (of "
    "partitions of other brokers), unlisted (of topics that are not observed), and other (used "
    "on the volume and in no log; at its first directory).",
    level="log_dir",
    labels=("class",),
)
def bytes_by_class(use: LogDirUse) -> Mapping[tuple[str], ByLogDir]:
    """The classes that are known of a directory."""
    return {(name,): _of(use, getattr(use, f"{name}_bytes")) for name in CLASSES}


@gauge("failed", "1 if the log directory has failed, else 0.", level="log_dir")
def failed(use: LogDirUse) -> ByLogDir:
    """All directories that brokers have listed within a minute."""
    return _of(use, (use.error_code == STORAGE_ERROR).astype(np.int64))


@gauge(
    "offline_replicas",
    "Replicas in the log directory that are offline; of one that has failed, those that were in it "
    "before.",
    level="log_dir",
)
def offline_replicas(use: LogDirUse) -> ByLogDir:
    """All directories that brokers have listed within a minute."""
    return _of(use, use.offline_replicas)
