"""Remote segments and leader epochs of one partition as plain data for the JSON API."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.partitions import PartitionFilter
from streaming.runtime.kafka.uuids import uuid_text
from twin.arrays import plain
from twin.declarations.table import Int64
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Leaders
from twin.rules.tiering.lineage import Lineage
from twin.rules.tiering.remote_segments import LeaderEpochs, RemoteSegments
from twin.tables.enums import SegmentState, SegmentVerdict
from twin.tables.state import Partitions


class Epoch(TypedDict):
    """A leader epoch and the offset at which it began."""

    leader_epoch: int
    start_offset: int


class ListedSegment(TypedDict):
    """A remote segment."""

    segment_id: str
    verdict: str | None
    state: str | None
    event_at_ms: int | None
    start_offset: int
    end_offset: int
    log_bytes: int | None
    leader_epochs: list[Epoch]


class SegmentList(TypedDict):
    """Remote segments by offset. The counts are null where nothing is known of them."""

    topic: str
    partition: int
    segments: list[ListedSegment]
    segments_known: int | None
    segments_left_out: int | None


class EpochList(TypedDict):
    """Leader epochs, oldest first, and the leader of now. Counts as in SegmentList."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    log_end_offset: int | None
    epochs: list[Epoch]
    epochs_known: int | None
    epochs_left_out: int | None


def segments(view: ClusterView, topic: str, number: int) -> SegmentList | None:
    """The listed segments by offset, and how many are left out; None if there is no such
    partition."""
    place = _find(view, topic, number)
    if place is None:
        return None
    state, row = place
    table, lineage = state[RemoteSegments], state[Lineage]
    here = table.pick(table.row == row)
    order = np.lexsort((here.end_offset, here.start_offset)).tolist()
    total, left_out = _counts(lineage.segments[lineage.row == row], len(here))
    return {
        "topic": topic,
        "partition": number,
        "segments": [_segment(here, i) for i in order],
        "segments_known": total,
        "segments_left_out": left_out,
    }


def epochs(view: ClusterView, topic: str, number: int) -> EpochList | None:
    """The listed leader epochs, oldest first, and how many are left out, likewise."""
    place = _find(view, topic, number)
    if place is None:
        return None
    state, row = place
    table, lineage = state[LeaderEpochs], state[Lineage]
    here = table.pick(table.row == row)
    total, left_out = _counts(lineage.leader_epochs[lineage.row == row], len(here))
    pairs = zip(here.leader_epoch.tolist(), here.start_offset.tolist(), strict=True)
    return {
        "topic": topic,
        "partition": number,
        "leader": plain.integer(state[Partitions].leader[row]),
        "leader_epoch": plain.integer(state[Partitions].leader_epoch[row]),
        "log_end_offset": plain.integer(state[Leaders].log_end_offset[row]),
        "epochs": [{"leader_epoch": epoch, "start_offset": start} for epoch, start in pairs],
        "epochs_known": total,
        "epochs_left_out": left_out,
    }


def _counts(total: Int64, listed: int) -> tuple[int, int] | tuple[None, None]:
    """The number in all, and the number of those not listed; null if unknown."""
    return (int(total[0]), int(total[0]) - listed) if len(total) else (None, None)


def _find(view: ClusterView, topic: str, number: int) -> tuple[ShardState, int] | None:
    selection = PartitionFilter(topic=topic, partition=number, limit=1)
    for shard in view.shards:
        rows = selection.matching(shard.state)
        if len(rows):
            return shard.state, int(rows[0])
    return None


def _segment(segments: RemoteSegments, i: int) -> ListedSegment:
    epochs = zip(segments.leader_epochs[i], segments.epoch_start_offsets[i], strict=True)
    return {
        "segment_id": uuid_text(segments.segment_id[i]),
        "verdict": plain.name(SegmentVerdict, segments.verdict[i]),
        "state": plain.name(SegmentState, segments.state[i]),
        "event_at_ms": plain.integer(segments.event_at_ms[i]),
        "start_offset": int(segments.start_offset[i]),
        "end_offset": int(segments.end_offset[i]),
        "log_bytes": plain.integer(segments.log_bytes[i]),
        "leader_epochs": [{"leader_epoch": int(e), "start_offset": int(o)} for e, o in epochs],
    }
