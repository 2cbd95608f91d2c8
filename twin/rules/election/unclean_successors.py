"""The cost of an unclean election, and where replicas cut their logs after one.

A leader from outside the ISR and the ELR begins a new leader epoch where its own log ends. The
records beyond are lost, remote segments that reach beyond become orphans, and a replica that has
records beyond truncates to that offset when it is back.

Source: the tiered lineage document; RemoteLogManager.isRemoteSegmentWithinLeaderEpochs and
LeaderEpochFileCache.endOffsetFor, Kafka 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twin.arrays import plain
from twin.declarations.declare import api_field, loss_field
from twin.declarations.table import UNKNOWN, Array, Int64
from twin.kafka.election import Outcome
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.records_lost import RecordsLost
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.tiering.lineage import Lineage
from twin.rules.tiering.remote_segments import RemoteSegments
from twin.tables.enums import SegmentVerdict
from twin.tables.state import Assignment, Partitions, Replicas

_OF_THE_LOG: Final = (
    SegmentVerdict.ON_LINEAGE,
    SegmentVerdict.OVERLAP,
    SegmentVerdict.DUPLICATE,
)


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


@loss_field(
    "orphaned_bytes",
    "orphaned bytes",
    "remote segments that would no longer belong to the log, for a new leader from outside the ISR "
    "and the ELR",
)
def orphaned_bytes_then(
    following: NextLeaders, assignment: Assignment, replicas: Replicas, segments: RemoteSegments,
    lineage: Lineage,
) -> Array:  # fmt: skip
    """The bytes beyond the successor's present log end; unknown for clean successors."""
    unsafe = np.isin(following.outcome, (Outcome.LAST_KNOWN, Outcome.UNCLEAN))
    row = np.flatnonzero(unsafe)
    slot = (assignment.broker[row] == following.leader[row][:, None]).argmax(axis=1)
    size = np.full(len(unsafe), UNKNOWN, np.int64)
    size[row] = orphaned(row, replicas.log_end_offset[row, slot], segments, lineage)[1]
    return size


@api_field(
    "unclean_successors",
    "for each replica outside the ISR and the ELR, if it were elected now: `broker`, "
    "`records_lost`, and `orphaned_segments` and `orphaned_bytes` of remote storage that would no "
    "longer belong to the log; null where they are not known",
)
def unclean_successors(
    assignment: Assignment,
    roles: Roles,
    replicas: Replicas,
    leaders: Leaders,
    segments: RemoteSegments,
    lineage: Lineage,
) -> list[list[dict[str, Any]]]:
    """A list of successors for each partition, empty if every replica is in the ISR or the ELR."""
    outside = roles.is_assigned & ~roles.is_leader & ~roles.in_isr & ~roles.in_elr
    row, slot = np.nonzero(outside)
    end, leader_end = replicas.log_end_offset[row, slot], leaders.log_end_offset[row]
    both_known = (end != UNKNOWN) & (leader_end != UNKNOWN)
    lost_records = np.where(both_known, np.maximum(leader_end - end, 0), UNKNOWN)
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


@api_field(
    "truncations",
    "replicas that an unclean election of the last hour left with records that the log does not "
    "have: `broker`, the offset `to_offset` to which it truncates when it is back, and how many "
    "`records` that cuts off",
)
def truncations(
    losses: RecordsLost, assignment: Assignment, replicas: Replicas, partitions: Partitions
) -> list[list[dict[str, Any]]]:
    """Replicas that must truncate, by their last answer, until they answer after the election."""
    ends = replicas.log_end_offset[losses.row]
    waits = (replicas.sampled_at_ms[losses.row] < losses.at_ms[:, None]) & (ends != UNKNOWN)
    which, slot = np.nonzero(waits & (ends > losses.start_offset[:, None]))
    brokers = assignment.broker[losses.row[which], slot]
    objects = (
        {
            "broker": int(brokers[i]),
            "to_offset": int(losses.start_offset[which[i]]),
            "records": int(ends[which[i], slot[i]] - losses.start_offset[which[i]]),
        }
        for i in range(len(which))
    )
    return plain.by_partition(losses.row[which], objects, len(partitions.leader))
