"""Remote segments and leader epochs of one partition as plain data for the JSON API."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.api_views import PartitionFilter
from streaming.runtime.kafka_uuid import uuid_text
from twin import plain
from twin.rules.leaders import Leaders
from twin.rules.lineage import Lineage
from twin.rules.remote_segments import LeaderEpochs, RemoteSegments
from twin.state import ShardState
from twin.tables.enums import SegmentState, SegmentVerdict
from twin.tables.state import Partitions


def segments(view: ClusterView, topic: str, number: int) -> dict[str, Any] | None:
    """The listed segments by offset, and how many are left out; None for no such partition."""
    found = _find(view, topic, number)
    if found is None:
        return None
    state, row = found
    table, lineage = state[RemoteSegments], state[Lineage]
    here = table.pick(table.row == row)
    known = lineage.segments[lineage.row == row].tolist()
    order = np.lexsort((here.end_offset, here.start_offset)).tolist()
    return {
        "topic": topic,
        "partition": number,
        "segments": [_segment(here, i) for i in order],
        "segments_known": known[0] if known else None,
        "segments_left_out": known[0] - len(here) if known else None,
    }


def epochs(view: ClusterView, topic: str, number: int) -> dict[str, Any] | None:
    """The history of leader epochs, oldest first; None for no such partition."""
    found = _find(view, topic, number)
    if found is None:
        return None
    state, row = found
    table = state[LeaderEpochs]
    here = table.pick(table.row == row)
    pairs = zip(here.leader_epoch.tolist(), here.start_offset.tolist(), strict=True)
    return {
        "topic": topic,
        "partition": number,
        "leader": plain.integer(state[Partitions].leader[row]),
        "leader_epoch": plain.integer(state[Partitions].leader_epoch[row]),
        "log_end_offset": plain.integer(state[Leaders].log_end_offset[row]),
        "epochs": [{"leader_epoch": epoch, "start_offset": start} for epoch, start in pairs],
    }


def _find(view: ClusterView, topic: str, number: int) -> tuple[ShardState, int] | None:
    asked = PartitionFilter(topic=topic, partition=number, limit=1)
    for shard in view.shards:
        rows = asked.matching(shard.state)
        if len(rows):
            return shard.state, int(rows[0])
    return None


def _segment(of: RemoteSegments, i: int) -> dict[str, Any]:
    numbers = zip(of.leader_epochs[i], of.epoch_start_offsets[i], strict=True)
    return {
        "segment_id": uuid_text(of.segment_id[i]),
        "verdict": plain.name(SegmentVerdict, of.verdict[i]),
        "state": plain.name(SegmentState, of.state[i]),
        "event_at_ms": plain.integer(of.event_at_ms[i]),
        "start_offset": int(of.start_offset[i]),
        "end_offset": int(of.end_offset[i]),
        "log_bytes": plain.integer(of.log_bytes[i]),
        "leader_epochs": [{"leader_epoch": int(e), "start_offset": int(o)} for e, o in numbers],
    }
