"""The remote segments and leader epochs of partitions, as far as they are listed.

All of them are in the segment store (``remote_log.segment_store``), which is decoded only when an
event of theirs arrives. The state, and so every snapshot, has those that people look up: first the
segments that are not plainly on the lineage, then the newest, up to a limit. ``lineage`` has the
numbers of all, by which a reader knows how many of a partition are left out: beyond MOST_OF_SHARD
that may be every one.

A segment that begins inside another is normal after a leader moved: the new leader uploads its own
segment around the first offset that is missing, which begins elsewhere than that of the old one
(RemoteLogManager.RLMCopyTask.candidateLogSegments, Kafka 4.3). Such a segment reaches further than
what was there. One that does not was copied for nothing: its leader did not know of the first copy.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import Alert, risk
from twin.declarations.table import (
    Bool,
    Int8,
    Int32,
    Int32List,
    Int64,
    Int64List,
    SegmentId,
    SparseTable,
    column,
)
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.lineage import Lineage
from twin.tables.enums import SegmentState, SegmentVerdict
from twin.tables.state import Partitions

MOST_OF_PARTITION: Final = 200
MOST_OF_SHARD: Final = 5_000
"""Rows of each table here. Each is in every snapshot: 5 000 segments are 130 to 165 kB of it, 1.5
to 3.5 ms of encoding and 4.5 to 11.5 ms of decoding (measured on one core)."""


class RemoteSegments(SparseTable, kind="remote_segments"):
    """[N] remote segments; where there are too many, the newest, and all off the lineage."""

    segment_id: SegmentId = column("remote log segment id", fill=b"")
    verdict: Int8 = column("how it stands to the log", enum=SegmentVerdict)
    state: Int8 = column("state that it reached", enum=SegmentState)
    event_at_ms: Int64 = column("when it reached that state")
    start_offset: Int64 = column("first offset")
    end_offset: Int64 = column("last offset")
    log_bytes: Int64 = column("size of its records")
    leader_epochs: Int32List = column("leader epochs of its records", fill=())
    epoch_start_offsets: Int64List = column("first offset of each of these", fill=())


class LeaderEpochs(SparseTable, kind="leader_epochs"):
    """[N] the history of leader epochs of tiered partitions, as their leaders have it."""

    leader_epoch: Int32 = column("leader epoch")
    start_offset: Int64 = column("its first offset")


def bounded_segments(segments: RemoteSegments, most: int = MOST_OF_SHARD) -> RemoteSegments:
    """At most ``most`` segments: the oldest ones on the lineage are left out first."""
    if len(segments) <= most:
        return segments
    order = np.lexsort((-segments.event_at_ms, segments.verdict == SegmentVerdict.ON_LINEAGE))
    return segments.pick(np.sort(order[:most]))


def bounded_epochs(epochs: LeaderEpochs, most: int = MOST_OF_SHARD) -> LeaderEpochs:
    """At most ``most`` epochs: the newest of each partition, equally many of each."""
    newer = np.searchsorted(epochs.row, epochs.row, "right") - np.arange(len(epochs))
    return epochs.pick(np.sort(np.argsort(newer, kind="stable")[:most]))


@risk(
    "duplicate_segments",
    rank=175,
    severity="info",
    open_after_ms=60_000,
    sentence="all offsets of some remote segments are in other segments of the log too",
    source="RemoteLogManager.RLMCopyTask.candidateLogSegments, Kafka 4.3",
    alert=Alert(
        summary="have remote segments that were copied twice",
        description="All offsets of some remote segments of {n} partitions of {cluster} are in "
        "other segments too: leaders copied what they did not know to be in remote storage.",
        # Nothing gets worse by waiting.
        wait="10m",
        keep_firing_for="10m",
    ),
)
def has_duplicates(lineage: Lineage, partitions: Partitions, configs: TopicConfigs) -> Bool:
    """A segment is a duplicate; an overlap that reaches further is normal, as after compaction."""
    has_some = (lineage.duplicates > 0) & (configs.tiered_compacted[lineage.row] != 1)
    return lineage.pick(has_some).row_mask(len(partitions.leader))
