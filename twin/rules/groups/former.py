"""Groups that go on in a topic at an offset of a former one of that name.

The log of a topic that was deleted and made anew begins at 0. A consumer that still has a position
of the former topic waits beyond the log end, or is reset; once the log has outgrown the position it
reads on from there, and the records before it were read by nobody. Kafka reports no error.

Source: KAFKA-12257; Fetcher.validatePositionsIfNeeded, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from twin.arrays import keys, plain
from twin.arrays.columns_in_arrow import object_array
from twin.declarations.declare import Alert, Occurrence, event, risk, rule
from twin.declarations.signature import Before, Cycle, Earlier
from twin.declarations.table import UNKNOWN, Bool, Int64, Rows, SparseTable, Text, column
from twin.rules.groups.moves import GroupMoves, is_ahead
from twin.rules.partitions.leaders import Leaders
from twin.tables.state import (
    FormerOffsets,
    GroupOffsets,
    Groups,
    PartitionIndex,
    Partitions,
    Topics,
)

RECENT_MS: Final = 3_600_000
"""How long it stays a risk: records that nobody read are not read later by themselves."""


class FormerReads(SparseTable, kind="former_reads"):
    """[N] groups whose offset is, or was when they went on, that of a former topic."""

    group: Text = column("group id", fill="")
    former_offset: Int64 = column("what it had committed to the deleted topic")
    skipped_at_ms: Int64 = column("when the log was first seen to reach it; unknown before that")
    skipped_records: Int64 = column("offsets of the log before it then")


@rule
def former_reads(
    former: FormerOffsets,
    offsets: GroupOffsets,
    moves: GroupMoves,
    groups: Groups,
    topics: Topics,
    index: PartitionIndex,
    leaders: Leaders,
    before: Before[FormerReads],
    cycle: Cycle,
) -> FormerReads:
    """Groups whose committed offset belongs to a topic that was deleted and created again.

    That is so if the group had committed this offset to the former topic. An offset beyond the log
    end of the new topic may also be a later one: the group's last commit may not have been read.

    A group whose offset is reset is forgotten; one that moves on from there has skipped records.
    """
    at, known_offset = _in_new_topics(former, offsets, groups, topics, index)
    if not len(at):
        return FormerReads.empty()
    row, committed = offsets.row[at].astype(np.intp), offsets.committed_offset[at]
    group = groups.group[offsets.group_index[at]]
    number = {name: i for i, name in enumerate(groups.group)}
    old_group = np.array([number.get(name, UNKNOWN) for name in before.group], np.int64)
    place = keys.find(keys.pack(before.row, old_group), keys.pack(row, offsets.group_index[at]))
    stood = place != UNKNOWN

    def as_it_was(values: Int64) -> Int64:
        return np.append(values, np.int64(UNKNOWN))[place]

    offset = np.where(stood, as_it_was(before.former_offset), committed)
    is_former = committed == known_offset
    is_former |= is_ahead(moves, leaders)[at] & (committed > known_offset)
    since_ms, skipped = as_it_was(before.skipped_at_ms), as_it_was(before.skipped_records)
    start, end = leaders.log_start_offset[row], leaders.log_end_offset[row]
    goes_on = (since_ms == UNKNOWN) & (start != UNKNOWN) & (offset <= end)
    stays = (committed >= offset) & (stood | is_former) & ~(goes_on & (start >= offset))
    return FormerReads(
        row=row.astype(np.int32),
        group=group,
        former_offset=offset,
        skipped_at_ms=np.where(goes_on, cycle.observed_at_ms, since_ms),
        skipped_records=np.where(goes_on, offset - start, skipped),
    ).pick(stays)


def _in_new_topics(
    former: FormerOffsets,
    offsets: GroupOffsets,
    groups: Groups,
    topics: Topics,
    index: PartitionIndex,
) -> tuple[Rows, Int64]:
    """[N] rows of ``offsets`` whose topic's name another one had, ascending, and what the group had
    committed to that one last."""
    place = {name: i for i, name in enumerate(topics.topic)}
    if place.keys().isdisjoint(former.topic):  # as nearly always
        return np.zeros(0, np.intp), np.zeros(0, np.int64)
    number = {name: i for i, name in enumerate(groups.group)}
    topic = np.array([place.get(name, UNKNOWN) for name in former.topic], np.int64)
    group = np.array([number.get(name, UNKNOWN) for name in former.group], np.int64)
    is_anew = object_array([*topics.topic_id, b""])[topic] != former.topic_id
    partition = keys.find(
        keys.pack(index.topic_index, index.partition), keys.pack(topic, former.partition)
    )
    is_there = is_anew & (topic != UNKNOWN) & (group != UNKNOWN) & (partition != UNKNOWN)
    rows = np.flatnonzero(is_there)
    rows = rows[np.argsort(former.read_at_ms[rows], kind="stable")[::-1]]
    key, newest = np.unique(keys.pack(partition[rows], group[rows]), return_index=True)
    found = keys.find_sorted(key, keys.pack(offsets.row, offsets.group_index))
    at = np.flatnonzero(found != UNKNOWN)
    return at, former.committed_offset[rows[newest[found[at]]]]


def _skipped_lately(reads: FormerReads, now_ms: int) -> Bool:
    lately: Bool = (reads.skipped_at_ms != UNKNOWN) & (now_ms - reads.skipped_at_ms <= RECENT_MS)
    return lately


@risk(
    "consumer_skips_records",
    rank=77,
    severity="warn",
    sentence="a group of consumers goes on at an offset of a former topic of that name: it skips "
    "the records before it",
    source="KAFKA-12257",
    alert=Alert(
        summary="were made anew, and a group of consumers skips their first records",
        description="Topics of {n} partitions of {cluster} were deleted and made anew, and a group "
        "of consumers goes on at its offset of the former one. The records before it are read by "
        "nobody, unless the group is reset to the earliest offset. The event group_skips_records "
        "names the groups.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def skips_records(reads: FormerReads, partitions: Partitions, cycle: Cycle) -> Bool:
    """A group went on there within the last hour."""
    lately = _skipped_lately(reads, cycle.observed_at_ms)
    return reads.pick(lately).row_mask(len(partitions.leader))


@event("group_skips_records")
def group_skipped_records(was: Earlier[FormerReads], now: FormerReads) -> Iterator[Occurrence]:
    """Each group that goes on at an offset of a former topic, with what it skips."""
    known = was.pick(was.skipped_at_ms != UNKNOWN)
    told = set(zip(known.row.tolist(), known.group, known.former_offset.tolist(), strict=True))
    for i in np.flatnonzero(now.skipped_at_ms != UNKNOWN).tolist():
        row, group, offset = int(now.row[i]), str(now.group[i]), int(now.former_offset[i])
        if (row, group, offset) in told:
            continue
        records = plain.counted(int(now.skipped_records[i]), "record")
        text = (
            f"{{p}}: {group} goes on at offset {offset}, which it committed to the former topic of "
            f"that name: it skips up to {records}"
        )
        yield Occurrence(text, row, detail=group, after=(offset,))
