"""Remote segments, compared with the log from which they were copied.

The table is computed when segments or leader epochs change (``remote_log.findings``). The functions
here compare it in every cycle with the replicas and the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twin.arrays import plain
from twin.declarations.declare import Alert, Metric, api_field, gauge, risk
from twin.declarations.results import OfRows
from twin.declarations.signature import NowMs, parameters
from twin.declarations.table import UNKNOWN, Bool, Int64, SparseTable, column
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Partitions

DANGLING_MS: Final = 600_000
"""A copy of a gigabyte takes minutes; one that takes longer is not coming."""


class Lineage(SparseTable, kind="lineage", version=4):
    """[N] one row a partition whose remote segments are known."""

    segments: Int64 = column("copies that are not deleted, finished or not")
    undescribed_segments: Int64 = column(
        "finished copies whose start remote log metadata do not have any more: with any, gaps and "
        "the first and last offset in remote storage are unknown, and sizes leave them out"
    )
    remote_bytes: Int64 = column("finished copies, those being deleted included")
    lineage_bytes: Int64 = column("finished copies that belong to the log")
    orphan_segments: Int64 = column("finished copies that do not belong to the log")
    orphan_bytes: Int64 = column("size of these")
    orphan_since_ms: Int64 = column("when the oldest of these was copied")
    dangling_segments: Int64 = column("copies that were started and not finished")
    dangling_since_ms: Int64 = column("when the oldest of these was started")
    gap_start_offset: Int64 = column(
        "first offset that no copy holds, between two that exist; `remote_gaps` has all such gaps"
    )
    gap_end_offset: Int64 = column("first offset after that gap that a copy holds")
    overlaps: Int64 = column("copies of the log that begin inside another")
    duplicates: Int64 = column(
        "overlaps that hold no offset of their own: another copy has them all"
    )
    highest_remote_offset: Int64 = column("last offset of the lineage in remote storage")
    remote_log_start_offset: Int64 = column("first offset by the remote segments")
    refused_transitions: Int64 = column("events that no segment can go through")
    leader_epochs: Int64 = column("leader epochs in the history of the log")


# ---------------------------------------------------------------- risks


@risk(
    "dangling_upload",
    rank=170,
    severity="info",
    sentence="an upload was started and never finished; its bytes stay in remote storage",
    source="RemoteLogManager, Kafka 4.3",
    alert=Alert(
        summary="have uploads that never finished",
        description="Copies of segments of {n} partitions of {cluster} were started and not "
        "finished; their bytes stay in remote storage.",
        wait="10m",
        keep_firing_for="10m",
    ),
)
def has_dangling_upload(lineage: Lineage, partitions: Partitions, now_ms: NowMs) -> Bool:
    """A copy was started DANGLING_MS ago and is not finished."""
    since = lineage.dangling_since_ms
    old = (since != UNKNOWN) & (now_ms - since > DANGLING_MS)
    return lineage.pick((lineage.dangling_segments > 0) & old).row_mask(len(partitions.leader))


@risk(
    "orphan_segments",
    rank=180,
    severity="info",
    open_after_ms=60_000,
    sentence="remote segments no longer belong to the log and are not deleted",
    source="RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, Kafka 4.3",
    alert=Alert(
        summary="have remote segments that belong to no log",
        description="Remote segments of {n} partitions of {cluster} no longer belong to their logs "
        "and are not deleted; kafka_twin_orphan_bytes is their size.",
        # Nothing gets worse by waiting.
        wait="10m",
        keep_firing_for="10m",
    ),
)
def has_orphans(lineage: Lineage, partitions: Partitions, configs: TopicConfigs) -> Bool:
    """Finished copies of the partition do not belong to its log; compaction replaces copies."""
    has_some = (lineage.orphan_segments > 0) & (configs.tiered_compacted[lineage.row] != 1)
    return lineage.pick(has_some).row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge("partitions_with_known_segments", "Partitions whose remote segments are known.")
def partitions_with_known_segments(lineage: Lineage) -> int:
    """The partitions whose remote log metadata was read."""
    return len(lineage)


def _summed(column_name: str, name: str, help_text: str) -> Metric:
    def compute(lineage: Lineage) -> int:
        return int(getattr(lineage, column_name).sum())

    reported: Callable[..., int] = compute
    return Metric(name, help_text, compute=reported, reads=parameters(compute))


def _per_partition(column_name: str, name: str, help_text: str) -> Metric:
    def compute(lineage: Lineage) -> OfRows:
        return OfRows(lineage.row, getattr(lineage, column_name))

    reported: Callable[..., OfRows] = compute
    return Metric(name, help_text, "partition", compute=reported, reads=parameters(compute))


METRICS: Final = (
    _summed(
        "remote_bytes", "remote_log_bytes",
        "Size of finished copies in remote storage, for partitions whose segments are known.",
    ),
    _summed(
        "lineage_bytes", "remote_lineage_bytes",
        "Size of finished copies in remote storage that belong to their logs.",
    ),
    _summed(
        "orphan_segments", "orphan_segments",
        "Finished copies in remote storage that no longer belong to a log.",
    ),
    _summed("orphan_bytes", "orphan_bytes", "Bytes of remote segments that belong to no log."),
    _summed(
        "dangling_segments", "dangling_uploads", "Uploads that were started and not finished.",
    ),
    _summed(
        "overlaps", "tier_overlaps",
        "Remote segments that begin inside another segment of their log: normal after leaders "
        "moved.",
    ),
    _summed(
        "duplicates", "tier_duplicates",
        "Remote segments whose offsets are all in another segment of their log.",
    ),
    _summed(
        "undescribed_segments", "segments_not_described",
        "Finished copies whose offsets are unknown, because remote log metadata do not have their "
        "start any more; gaps of their partitions are not judged.",
    ),
    _summed(
        "refused_transitions", "segment_transitions_refused",
        "Refused events of remote segments: no segment can make such a transition.",
    ),
    _per_partition(
        "remote_bytes", "remote_log_bytes",
        "Size of the partition's finished copies in remote storage.",
    ),
    _per_partition(
        "orphan_bytes", "orphan_bytes",
        "Size of the partition's finished copies in remote storage that do not belong to its log.",
    ),
    _per_partition(
        "highest_remote_offset", "highest_remote_offset",
        "Last offset of the partition's lineage in remote storage.",
    ),
)  # fmt: skip


@api_field(
    "remote_segments",
    "what remote log metadata say of the partition, by the columns of the table `lineage`; null "
    "where none are read",
)
def remote_segments(lineage: Lineage, partitions: Partitions) -> list[dict[str, Any] | None]:
    """The row of each partition, null without one."""
    objects: list[dict[str, Any] | None] = [None] * len(partitions.leader)
    names = [c.name for c in Lineage.columns if c.name != "row"]
    for i, row in enumerate(lineage.row.tolist()):
        objects[row] = {name: plain.integer(getattr(lineage, name)[i]) for name in names}
    return objects
