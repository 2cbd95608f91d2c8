"""Offsets between remote segments that no copy holds.

The table is computed with ``lineage``, when segments or leader epochs change. What is compared with
it in every cycle is the log: it may begin above a gap, or a replica may have the offsets on disk.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import Alert, gauge, risk
from twin.declarations.table import UNKNOWN, Bool, Int64, Rows, SparseTable, column
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Partitions, Replicas

NO_GAP: Final = 1 << 62
"""Beyond all offsets."""


class RemoteGaps(SparseTable, kind="remote_gaps"):
    """[N] gaps in remote storage, by partition and in the order of their offsets."""

    start_offset: Int64 = column("first offset that no copy holds, between two that exist")
    end_offset: Int64 = column("first offset after the gap that a copy holds")

    def ahead(self, row: Rows, offset: Int64) -> tuple[Bool, Int64]:
        """[N], [N] those offsets of the partitions are in a gap; where the next gap begins."""
        in_gap, following = np.zeros(len(row), bool), np.full(len(row), NO_GAP, np.int64)
        first = np.searchsorted(self.row, row, "left")
        count = np.searchsorted(self.row, row, "right") - first
        if not count.any():
            return in_gap, following
        reader = np.repeat(np.arange(len(row)), count)
        gap = np.arange(len(reader)) + np.repeat(first - (np.cumsum(count) - count), count)
        start, end, at = self.start_offset[gap], self.end_offset[gap], offset[reader]
        in_gap[reader[(start <= at) & (at < end)]] = True
        np.minimum.at(following, reader, np.where(start > at, start, NO_GAP))
        return in_gap, following


@risk(
    "tier_gap",
    rank=20,
    severity="page",
    sentence="offsets below the end of the remote log are neither in remote storage nor on a live "
    "replica",
    source="tiered lineage",
    alert=Alert(
        summary="have records that nobody can read",
        description="{n} partitions of {cluster} have offsets that are neither in remote storage "
        "nor on a live replica.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def has_gap(
    gaps: RemoteGaps, partitions: Partitions, leaders: Leaders, roles: Roles, replicas: Replicas,
    configs: TopicConfigs,
) -> Bool:  # fmt: skip
    """Offsets of the log below its remote end are in no copy and on no live replica.

    A live replica whose offsets are unknown may hold them. Below its first copy there is no gap:
    Kafka lets the log begin there. Compaction leaves gaps.
    """
    row, end = gaps.row, gaps.end_offset
    first = np.maximum(gaps.start_offset, leaders.log_start_offset[row])
    is_gap = (first < end) & (configs.tiered_compacted[row] != 1)
    live = (roles.is_assigned & ~roles.is_offline)[row]
    local, reached = replicas.local_log_start_offset[row], replicas.log_end_offset[row]
    holds = (local <= first[:, None]) & (reached >= end[:, None])
    holds |= (local == UNKNOWN) | (reached == UNKNOWN)
    is_lost = is_gap & ~(live & holds).any(axis=1)
    return gaps.pick(is_lost).row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge("tier_gaps", "Partitions with offsets that are in no remote copy and on no live replica.")
def tier_gaps(
    gaps: RemoteGaps, partitions: Partitions, leaders: Leaders, roles: Roles, replicas: Replicas,
    configs: TopicConfigs,
) -> int:  # fmt: skip
    """The partitions that have the risk of that name."""
    return int(has_gap(gaps, partitions, leaders, roles, replicas, configs).sum())
