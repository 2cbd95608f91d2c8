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

from twin.arrays import plain
from twin.declarations.declare import Alert, Occurrence, event, risk, rule
from twin.declarations.signature import Before, Cycle, Earlier
from twin.declarations.table import UNKNOWN, Bool, Int64, SparseTable, Text, column, object_array
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
    """An offset is of the former topic if the group had committed it there, or a later one if it is
    beyond the log end now: what the group committed last may not have been read.

    A group whose offset is reset is forgotten; one that moves on from there has skipped records.
    """
    if not len(former.group):
        return FormerReads.empty()
    old = {key: i for i, key in enumerate(zip(before.row.tolist(), before.group, strict=True))}
    ahead = is_ahead(moves, leaders)
    found = []
    for row, group, at, known_offset in _in_new_topics(former, offsets, groups, topics, index):
        i, committed = old.get((row, group), UNKNOWN), int(offsets.committed_offset[at])
        offset = committed if i == UNKNOWN else int(before.former_offset[i])
        is_former = committed == known_offset or (ahead[at] and committed > known_offset)
        if committed < offset or (i == UNKNOWN and not is_former):
            continue
        since_ms = int(before.skipped_at_ms[i]) if i != UNKNOWN else UNKNOWN
        skipped = int(before.skipped_records[i]) if i != UNKNOWN else UNKNOWN
        start, end = int(leaders.log_start_offset[row]), int(leaders.log_end_offset[row])
        if since_ms == UNKNOWN and start > UNKNOWN and offset <= end:
            if start >= offset:
                continue
            since_ms, skipped = cycle.observed_at_ms, offset - start
        found.append((row, group, offset, since_ms, skipped))
    found.sort()
    rows, names, *numbers = zip(*found, strict=True) if found else ((),) * 5
    return FormerReads(
        np.array(rows, np.int32),
        object_array(names),
        *(np.array(values, np.int64) for values in numbers),
    )


def _in_new_topics(
    former: FormerOffsets,
    offsets: GroupOffsets,
    groups: Groups,
    topics: Topics,
    index: PartitionIndex,
) -> Iterator[tuple[int, str, int, int]]:
    """Row, group, row of ``offsets`` and former offset where the name is of another topic now.

    Few topics are deleted and made anew, so only the partitions of these are looked at.
    """
    place = {name: i for i, name in enumerate(topics.topic)}
    number = {name: i for i, name in enumerate(groups.group)}
    newest: dict[tuple[int, int, int], int] = {}
    for i in np.argsort(former.read_at_ms, kind="stable").tolist():
        topic = place.get(former.topic[i], UNKNOWN)
        group = number.get(former.group[i], UNKNOWN)
        if UNKNOWN in (topic, group) or topics.topic_id[topic] == former.topic_id[i]:
            continue
        newest[topic, int(former.partition[i]), group] = int(former.committed_offset[i])
    if not newest:
        return
    is_anew = np.zeros(len(topics.topic), bool)
    is_anew[[topic for topic, _, _ in newest]] = True
    for at in np.flatnonzero(is_anew[index.topic_index[offsets.row]]).tolist():
        row, group = int(offsets.row[at]), int(offsets.group_index[at])
        key = (int(index.topic_index[row]), int(index.partition[row]), group)
        if key in newest:
            yield row, str(groups.group[group]), at, newest[key]


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
