"""Groups of consumers at risk: they read from remote storage, soon will, or lose records.

Most groups are near the log end and keep up. Groups are judged one by one only if
records may be missing on some disk now, or if retention may overtake them soon. Retention will have
deleted the records below some offset of the partition by then; a group that will be above that
offset is not at risk.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import Alert, risk, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import Bool, Float64, Int8, SparseTable, column
from twin.rules.groups.certainty import are_records, deleted_by_request
from twin.rules.groups.group_forecasts import forecasts_of
from twin.rules.groups.moves import GroupMoves, group_lags, is_ahead
from twin.rules.groups.reach import (
    FALLS_OFF_SOON_S,
    LOSES_SOON_S,
    Retention,
    may_be_overtaken,
)
from twin.rules.groups.reads import GroupReads, ReadsFrom, Servers
from twin.rules.groups.runs import Run
from twin.rules.groups.usage import is_in_use
from twin.rules.partitions.batch_kinds import BatchKinds
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.reading.selection import LeaderSelectors
from twin.rules.tiering.coverage import LastAppends, LocalLog
from twin.tables.state import (
    Configs,
    GroupOffsets,
    Groups,
    Partitions,
)


class GroupsNearRisk(
    SparseTable, kind="groups_near_risk", on_demand="rows of group_reads and group_forecasts"
):
    """[N] groups in use that may be at risk; the others are not."""

    reads_from: Int8 = column("where its next records come from", enum=ReadsFrom)
    until_remote_s: Float64 = column(
        "seconds until these are no longer on disk; NaN also if that is later than soon",
        fill=float("nan"),
    )
    until_loss_s: Float64 = column(
        "seconds until these are deleted; NaN also if that is later than soon", fill=float("nan")
    )
    loses_for_certain: Bool = column(
        "records that consumers would have read are deleted within that time, or are", fill=False
    )


@rule
def groups_near_risk(
    moves: GroupMoves,
    offsets: GroupOffsets,
    groups: Groups,
    servers: Servers,
    leaders: Leaders,
    growth: Growth,
    sizes: RecordSizes,
    selectors: LeaderSelectors,
    local: LocalLog,
    kinds: BatchKinds,
    last: LastAppends,
    cluster: Configs,
    now_ms: NowMs,
) -> GroupsNearRisk:
    """The values of ``group_reads`` and ``group_forecasts``, for these groups alone."""
    if not len(moves):
        return GroupsNearRisk.empty()
    configs = servers.configs
    retention = Retention(leaders, local, growth, sizes)
    overtaken = may_be_overtaken(moves, retention, configs)
    off_disk = moves.committed_offset < servers.on_every_disk[moves.row.astype(np.intp)]
    ahead = is_ahead(moves, leaders)
    near = np.flatnonzero(overtaken | off_disk | ahead)
    was_assigned, moved_at_ms = moves.was_assigned[near], moves.moved_at_ms[near]
    used = is_in_use(offsets.pick(near), groups, was_assigned, moved_at_ms, cluster, now_ms)
    near = near[used]
    if not len(near):
        return GroupsNearRisk.empty()
    moves, offsets = moves.pick(near), offsets.pick(near)
    overtaken, ahead = overtaken[near], ahead[near]
    rack = servers.reader_racks(offsets)
    reads_from, records = servers.read(moves, leaders.slot, selectors.replica_selector, rack)
    reads = GroupReads(moves.row, np.where(ahead, np.int8(ReadsFrom.AHEAD), reads_from), records)
    until_remote_s = np.full(len(near), np.nan)
    is_gone = reads.reads_from == ReadsFrom.NOWHERE
    until_loss_s, lost_by_s = np.where(is_gone, 0.0, np.nan), np.where(is_gone, 0.0, np.nan)
    certain = are_records(kinds, configs)[reads.row.astype(np.intp)]
    certain &= ~deleted_by_request(moves, leaders, local, configs, last, now_ms)
    if overtaken.any():
        moves, reads_then = moves.pick(overtaken), reads.pick(overtaken)
        offsets = offsets.pick(overtaken)
        lags = group_lags(moves, offsets, groups, growth, leaders, cluster, now_ms)
        run = Run.from_tables(moves, leaders, local, configs, growth, sizes, last, now_ms)
        until = forecasts_of(run, moves, lags, reads_then, leaders, configs, LOSES_SOON_S)
        until_remote_s[overtaken] = until.until_remote_s
        until_loss_s[overtaken] = until.until_loss_s
        lost_by_s[overtaken] = until.lost_by_s
    certain &= lost_by_s <= LOSES_SOON_S
    return GroupsNearRisk(reads.row, reads.reads_from, until_remote_s, until_loss_s, certain)


# ---------------------------------------------------------------- risks


@risk(
    "consumer_loses_records",
    rank=27,
    severity="page",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="a group of consumers loses records that it has not read, within an hour or already: "
    "they are deleted, or in no copy",
    source="UnifiedLog.deleteRetentionMsBreachedSegments, Kafka 4.3",
    alert=Alert(
        summary="lose records that consumers have not read",
        description="Records of {n} partitions of {cluster} are deleted, or in no copy, before a "
        "group of consumers has read them, for certain within an hour or already; "
        "kafka_twin_group_until_loss_seconds names the groups.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def loses_records(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use has lost records or is about to, and these are records for certain."""
    lost = (near.until_loss_s <= LOSES_SOON_S) & near.loses_for_certain
    return near.pick(lost).row_mask(len(partitions.leader))


@risk(
    "consumer_may_lose_records",
    rank=84,
    severity="warn",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="the log begins above the offset of a group of consumers, or may within an hour: "
    "there may be records that it has not read",
    source="UnifiedLog.deleteRetentionMsBreachedSegments, Kafka 4.3",
    alert=Alert(
        summary="may lose records that consumers have not read",
        description="The logs of {n} partitions of {cluster} begin above the committed offset of a "
        "group of consumers, or may within an hour. That the group loses records is not certain: "
        "Kafka deletes whole segments, and may not delete this one yet; records may have been "
        "deleted by request; in compacted logs and in logs of transactions not every offset is a "
        "record. With the right READ on the topic (collector.timestamps) the twin tells logs "
        "without transactions from others.",
        wait="0s",
        keep_firing_for="5m",
        unless="consumer_loses_records",
    ),
)
def may_lose_records(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use is overtaken by the log start, or may be, and perhaps loses no record."""
    passed = (near.until_loss_s <= LOSES_SOON_S) & ~near.loses_for_certain
    return near.pick(passed).row_mask(len(partitions.leader))


@risk(
    "consumer_ahead_of_log",
    rank=28,
    severity="page",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="a group of consumers continues beyond the log end: it is reset, or stops",
    source="KIP-392, case 4; KIP-320",
    alert=Alert(
        summary="end before the offsets of consumers",
        description="The logs of {n} partitions of {cluster} end before the committed offset of a "
        "group of consumers. Either a new leader lacks records, or the offset was set so. The "
        "group continues where the logs diverge (KIP-320) or where auto.offset.reset sends it, or "
        "it stops. In the API its groups[].reads_from is ahead.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def continues_beyond_the_log(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use committed an offset that the log does not have any more."""
    return near.pick(near.reads_from == ReadsFrom.AHEAD).row_mask(len(partitions.leader))


@risk(
    "consumer_falls_off_local_log",
    rank=82,
    severity="warn",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="a group of consumers reads from remote storage within 15 minutes",
    source="KIP-405; KIP-1303, motivation",
    alert=Alert(
        summary="are about to be read from remote storage",
        description="Groups of consumers of {n} partitions of {cluster} fall so far behind that "
        "they read from remote storage within 15 minutes; "
        "kafka_twin_group_until_remote_seconds names them.",
        wait="1m",
        keep_firing_for="5m",
        unless="consumer_loses_records",
    ),
)
def falls_off_local_log(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use reads from a disk now, but soon will not."""
    soon = (near.until_remote_s <= FALLS_OFF_SOON_S) & (near.reads_from == ReadsFrom.DISK)
    return near.pick(soon).row_mask(len(partitions.leader))


@risk(
    "consumer_reads_remote",
    rank=125,
    severity="info",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="a group of consumers reads the partition from remote storage",
    source="KIP-405; KIP-1303, motivation",
    alert=Alert(
        summary="are read from remote storage by groups of consumers",
        description="Groups of consumers read {n} partitions of {cluster} from remote storage, "
        "which is slower than a disk; kafka_twin_group_remote_records names them.",
        # A replay is often on purpose.
        wait="15m",
        keep_firing_for="5m",
    ),
)
def reads_remote(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use reads from remote storage."""
    return near.pick(near.reads_from == ReadsFrom.REMOTE).row_mask(len(partitions.leader))
