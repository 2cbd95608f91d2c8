"""Groups of consumers at risk: they read from remote storage, soon will, or lose records.

Most groups are near the log end and keep up. Groups are judged one by one only if
records may be missing on some disk now, or if retention may overtake them soon. Retention will have
deleted the records below some offset of the partition by then; a group that will be above that
offset is not at risk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from twin.declarations.declare import Alert, risk, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import UNKNOWN, Bool, Float64, Int8, Int64, SparseTable, column
from twin.rules.groups.forecasts import group_forecasts
from twin.rules.groups.moves import GroupMoves, group_lags, is_ahead, is_in_use
from twin.rules.groups.reads import GroupReads, ReadsFrom, Servers
from twin.rules.partitions.batch_kinds import BatchKinds
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.reading.selection import LeaderSelectors
from twin.rules.tiering.coverage import LocalLog
from twin.tables.enums import BatchKind
from twin.tables.state import (
    Configs,
    GroupOffsets,
    Groups,
    Partitions,
)

FALLS_OFF_SOON_S: Final = 900
LOSES_SOON_S: Final = 3_600
"""Time for a person to help the consumer, or to raise retention.ms."""


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
    are_records: Bool = column(
        "the offsets that retention deletes are records that consumers would have read", fill=False
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
    cluster: Configs,
    now_ms: NowMs,
) -> GroupsNearRisk:
    """The values of ``group_reads`` and ``group_forecasts``, for these groups alone."""
    if not len(moves):
        return GroupsNearRisk.empty()
    configs = servers.configs
    retention = Retention(leaders, local, growth, sizes)
    overtaken = _may_be_overtaken(moves, retention, configs)
    off_disk = moves.committed_offset < servers.on_every_disk[moves.row.astype(np.intp)]
    ahead = is_ahead(moves, leaders)
    near = np.flatnonzero(overtaken | off_disk | ahead)
    near = near[is_in_use(moves.pick(near), offsets.pick(near), groups, cluster, now_ms)]
    if not len(near):
        return GroupsNearRisk.empty()
    moves, offsets = moves.pick(near), offsets.pick(near)
    overtaken, ahead = overtaken[near], ahead[near]
    rack = servers.reader_racks(offsets)
    reads_from, records = servers.read(moves, leaders.slot, selectors.replica_selector, rack)
    reads = GroupReads(moves.row, np.where(ahead, np.int8(ReadsFrom.AHEAD), reads_from), records)
    until_remote_s = np.full(len(near), np.nan)
    until_loss_s = np.where(reads.reads_from == ReadsFrom.NOWHERE, 0.0, np.nan)
    if overtaken.any():
        moves, reads_then = moves.pick(overtaken), reads.pick(overtaken)
        offsets = offsets.pick(overtaken)
        lags = group_lags(moves, offsets, groups, growth, leaders, cluster, now_ms)
        until = group_forecasts(
            moves, lags, reads_then, leaders, local, configs, growth, sizes, now_ms
        )
        until_remote_s[overtaken] = until.until_remote_s
        until_loss_s[overtaken] = until.until_loss_s
    is_certain = are_records(kinds, configs)[reads.row.astype(np.intp)]
    return GroupsNearRisk(reads.row, reads.reads_from, until_remote_s, until_loss_s, is_certain)


def are_records(kinds: BatchKinds, configs: TopicConfigs) -> Bool:
    """[P] offsets of the log that retention deletes are records that consumers would have read.

    Not so in a compacted log, nor in one of transactions: markers have offsets, and aborted records
    are not read. Without retention somebody deleted the records by request.
    """
    retains = (configs.retention_ms >= 0) | (configs.retention_bytes >= 0)
    is_plain: Bool = kinds.least == BatchKind.PLAIN
    return is_plain & (configs.compacted == 0) & retains


def _may_be_overtaken(moves: GroupMoves, retention: Retention, configs: TopicConfigs) -> Bool:
    """[N] a group that goes on at its rate will be where retention may have deleted records."""
    row, offset = moves.row.astype(np.intp), moves.committed_offset
    local_ms = np.where(configs.remote_storage == 1, configs.local_retention_ms, UNKNOWN)
    overtaken = np.zeros(len(row), bool)
    for kept_ms, kept_bytes, soon_s in (
        (local_ms, configs.local_retention_bytes, FALLS_OFF_SOON_S),
        (configs.retention_ms, configs.retention_bytes, LOSES_SOON_S),
    ):
        reach = retention.reach(kept_ms, kept_bytes, soon_s)
        overtaken |= offset + moves.records_per_s * soon_s <= reach[row]
    is_at_end: Bool = (moves.end_offset != UNKNOWN) & (moves.end_offset <= offset)
    return overtaken & ~is_at_end


@dataclass(frozen=True)
class Retention:
    """How far retention gets in each partition, by the estimates of ``group_forecasts``."""

    leaders: Leaders
    local: LocalLog
    growth: Growth
    sizes: RecordSizes

    def reach(self, kept_ms: Int64, kept_bytes: Int64, after_s: int) -> Float64:
        """[P] the offset below which records may be deleted by then; NaN if unknown.

        Negative limits delete nothing.
        """
        spare_ms = after_s * 1_000 - kept_ms
        with np.errstate(invalid="ignore"):
            reach = self.end + spare_ms * self.records_per_ms
        if self.is_idle.any():
            # All records of an idle log may be as old as the first.
            if_idle = np.where(spare_ms + self.oldest_ms >= 0, np.inf, -np.inf)
            reach = np.where(self.is_idle, if_idle, reach)
        reach[kept_ms < 0] = -np.inf
        if (kept_bytes >= 0).any():  # few topics have such a limit
            with np.errstate(divide="ignore", invalid="ignore"):
                kept = kept_bytes / self.sizes.bytes_per_record
            by_size = self.end + np.maximum(self.appended, 0) * after_s - kept
            reach = np.fmax(reach, np.where(kept_bytes < 0, -np.inf, by_size))
        return reach

    @cached_property
    def end(self) -> Float64:
        """[P] the log end plus one record, since forecasts are rounded differently."""
        return self.leaders.log_end_offset + np.float64(1)

    @cached_property
    def appended(self) -> Float64:
        """[P] records appended a second."""
        return self.growth.appended_records_per_s

    @cached_property
    def is_idle(self) -> Bool:
        """[P] nothing is written, or next to nothing."""
        return self.appended == 0

    @cached_property
    def oldest_ms(self) -> Float64:
        """[P] age of the first record on the leader's disk."""
        span_ms = self.leaders.values_of(self.local.local_log_span_ms)
        return np.where(span_ms == UNKNOWN, np.nan, np.maximum(span_ms, 1))

    @cached_property
    def records_per_ms(self) -> Float64:
        """[P] records per millisecond on the leader's disk."""
        local_records = self.leaders.log_end_offset - self.leaders.local_log_start_offset
        return local_records / self.oldest_ms


# ---------------------------------------------------------------- risks


@risk(
    "consumer_loses_records",
    rank=27,
    severity="page",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="retention deletes records that a group of consumers has not read, within an hour or "
    "already",
    source="UnifiedLog.deleteRetentionMsBreachedSegments, Kafka 4.3",
    alert=Alert(
        summary="lose records that consumers have not read",
        description="Retention deletes records of {n} partitions of {cluster} before a group of "
        "consumers has read them, within an hour or already; "
        "kafka_twin_group_until_loss_seconds names the groups.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def loses_records(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use has lost records or is about to, and these are records for certain."""
    lost = (near.until_loss_s <= LOSES_SOON_S) & near.are_records
    return near.pick(lost).row_mask(len(partitions.leader))


@risk(
    "consumer_may_lose_records",
    rank=84,
    severity="warn",
    open_after_ms=30_000,
    close_after_ms=30_000,
    sentence="the log begins above the offset of a group of consumers, within an hour or already: "
    "there may have been records that it has not read",
    source="UnifiedLog.deleteRetentionMsBreachedSegments, Kafka 4.3",
    alert=Alert(
        summary="may lose records that consumers have not read",
        description="The logs of {n} partitions of {cluster} begin above the committed offset of a "
        "group of consumers, within an hour or already. Whether there were records that the group "
        "would have read is not known: in compacted logs and in logs of transactions not every "
        "offset is one. With the right READ on the topic (collector.timestamps) the twin tells "
        "logs without transactions from others.",
        wait="0s",
        keep_firing_for="5m",
        unless="consumer_loses_records",
    ),
)
def may_lose_records(near: GroupsNearRisk, partitions: Partitions) -> Bool:
    """A group in use is overtaken by the log start, and offsets there may be no records."""
    passed = (near.until_loss_s <= LOSES_SOON_S) & ~near.are_records
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
