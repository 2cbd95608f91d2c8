"""The cost of an unclean election.

A leader from outside the ISR and the ELR begins a new leader epoch where its own log ends. The
records beyond are lost, and remote segments that reach beyond become orphans. If the replica was
away when an earlier leader changed, its log differs from an earlier offset on.

Source: the tiered lineage document; RemoteLogManager.isRemoteSegmentWithinLeaderEpochs and
LeaderEpochFileCache.endOffsetFor, Kafka 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twin.arrays import plain
from twin.declarations.declare import api_field, rule
from twin.declarations.table import UNKNOWN, Array, Int64, PartitionTable, column
from twin.kafka.election import Outcome
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.truncations import CommonLogs
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.tiering.lineage import Lineage
from twin.rules.tiering.remote_segments import RemoteSegments
from twin.tables.enums import SegmentVerdict
from twin.tables.state import Assignment

_OF_THE_LOG: Final = (
    SegmentVerdict.ON_LINEAGE,
    SegmentVerdict.OVERLAP,
    SegmentVerdict.DUPLICATE,
)


class SuccessorCosts(
    PartitionTable,
    kind="successor_costs",
    on_demand="follows from the next leaders of the loss that somebody asks about",
):
    """[P] what the next leader costs if it is from outside the ISR and the ELR."""

    records_lost: Int64 = column("records that it lacks; unknown for a clean successor")
    orphaned_bytes: Int64 = column(
        "remote segments that would no longer belong to the log; unknown for a clean successor"
    )


def lacking(leader_end: Int64, common_end: Int64) -> Int64:
    """[N] records that the leader has and the replica lacks; unknown if one of the two is."""
    known = (leader_end != UNKNOWN) & (common_end != UNKNOWN)
    return np.where(known, np.maximum(leader_end - common_end, 0), UNKNOWN)


def orphaned(
    row: Array, log_end: Int64, segments: RemoteSegments, lineage: Lineage
) -> tuple[Int64, Int64]:
    """[N] remote segments that a leader with that log end would orphan, and their bytes.

    These are the segments on the lineage that reach the log end or go beyond it. UNKNOWN if the log
    end is unknown, if no segment of the partition is known, or if an unlisted segment may be among
    them: the listed segments on the lineage are those that reach furthest.
    """
    count, size = np.full(len(row), UNKNOWN, np.int64), np.full(len(row), UNKNOWN, np.int64)
    ours = segments.pick(np.isin(segments.verdict, _OF_THE_LOG))
    for i in np.flatnonzero((log_end != UNKNOWN) & np.isin(row, lineage.row)).tolist():
        ends = ours.end_offset[ours.row == row[i]]
        total = lineage.segments[lineage.row == row[i]][0]
        is_whole = total == (segments.row == row[i]).sum()
        if is_whole or (ends < log_end[i]).any():
            beyond = ends >= log_end[i]
            count[i] = beyond.sum()
            size[i] = ours.log_bytes[ours.row == row[i]][beyond].sum()
    return count, size


@rule
def successor_costs(
    following: NextLeaders,
    leaders: Leaders,
    assignment: Assignment,
    common: CommonLogs,
    segments: RemoteSegments,
    lineage: Lineage,
) -> SuccessorCosts:
    """By the leader's log end, and by what the successor has of its log."""
    unsafe = np.isin(following.outcome, (Outcome.LAST_KNOWN, Outcome.UNCLEAN))
    row = np.flatnonzero(unsafe)
    slot = (assignment.broker[row] == following.leader[row][:, None]).argmax(axis=1)
    end = common.end_offset[row, slot]
    costs = SuccessorCosts.blank(len(unsafe))
    costs.records_lost[row] = lacking(leaders.log_end_offset[row], end)
    costs.orphaned_bytes[row] = orphaned(row, end, segments, lineage)[1]
    return costs


@api_field(
    "unclean_successors",
    "for each replica outside the ISR and the ELR, if it were elected now: `broker`, "
    "`records_lost`, and `orphaned_segments` and `orphaned_bytes` of remote storage that would no "
    "longer belong to the log; null where they are not known",
)
def unclean_successors(
    assignment: Assignment,
    roles: Roles,
    common: CommonLogs,
    leaders: Leaders,
    segments: RemoteSegments,
    lineage: Lineage,
) -> list[list[dict[str, Any]]]:
    """A list of successors for each partition, empty if every replica is in the ISR or the ELR."""
    outside = roles.is_assigned & ~roles.is_leader & ~roles.in_isr & ~roles.in_elr
    row, slot = np.nonzero(outside)
    end = common.end_offset[row, slot]
    lost_records = lacking(leaders.log_end_offset[row], end)
    count, size = orphaned(row, end, segments, lineage)
    brokers = assignment.broker[row, slot]
    objects = (
        {
            "broker": int(brokers[i]),
            "records_lost": plain.integer(lost_records[i]),
            "orphaned_segments": plain.integer(count[i]),
            "orphaned_bytes": plain.integer(size[i]),
        }
        for i in range(len(row))
    )
    return plain.by_partition(row, objects, len(outside))
