"""Kafka's operations on logs that tests need and the twin does not. The oracle judges them, too."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from twin.declarations.table import UNKNOWN, Bool, Int64
from twin.kafka.follower_state import ReplicaState
from twin.remote_log.cache import ReferenceState, RemoteLogMetadataCache, Segment, spans
from twin.remote_log.epoch_history import Epochs


def truncated_from_end(epochs: Epochs, end_offset: int) -> Epochs:
    """The history of a log cut at ``end_offset``, which is no longer part of it."""
    return tuple(e for e in epochs if e[1] < end_offset)


def epoch_for_offset(epochs: Epochs, offset: int) -> int:
    """The epoch an offset was written in, UNKNOWN before the first."""
    at = bisect_right([e[1] for e in epochs], offset)
    return epochs[at - 1][0] if at else UNKNOWN


def next_uploads(
    boundaries: Sequence[int], highest_remote: int, last_stable_offset: int, log_start: int = 0
) -> list[tuple[int, int]]:
    """(first, last) offsets of the local segments a new leader would copy next, oldest first.

    Args:
        boundaries: first offsets of its local segments, ascending; the last one is active.
        highest_remote: ``highest_remote_offset`` of its lineage.
        last_stable_offset: what lies beyond is not copied.
        log_start: what lies below is deleted, and not copied any more.

    Source: RemoteLogManager.RLMCopyTask, copyLogSegmentsToRemote and candidateLogSegments.
    """
    copied_from = max(highest_remote + 1, log_start)
    return [
        (first, following - 1)
        for first, following in pairwise(boundaries)
        if copied_from < following <= last_stable_offset
    ]


def reset_replica_state(
    state: ReplicaState, at_ms: Int64, leader_end: Int64, is_new_leader: Bool, in_isr: Bool
) -> ReplicaState:
    """After the leader was elected, or elected again: in the ISR counts as caught up now."""
    caught_up = np.where(in_isr, at_ms, 0)
    fresh = replace(ReplicaState.blank(len(caught_up)), caught_up_at_ms=caught_up)
    again = ReplicaState(
        state.log_start_offset, state.log_end_offset, leader_end, caught_up, caught_up
    )
    return fresh.where(is_new_leader, again)


def segment_at(cache: RemoteLogMetadataCache, epoch: int, offset: int) -> Segment | None:
    """The segment that holds an offset of an epoch, if one does.

    Source: RemoteLogMetadataCache.remoteLogSegmentMetadata.
    """
    by_offset = {
        start: segment
        for segment in cache.segments.values()
        for (number, start), how in zip(segment.epochs, cache.referred(segment), strict=True)
        if number == epoch and how == ReferenceState.BY_OFFSET
    }
    below = [start for start in by_offset if start <= offset]
    if not below:
        return None
    segment = by_offset[max(below)]
    end = next(end for number, _, end in spans(segment) if number == epoch)
    return segment if offset <= end else None
