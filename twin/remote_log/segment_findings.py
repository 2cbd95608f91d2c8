"""Findings on the remote segments of one partition: orphans, gaps, unfinished uploads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from twin.declarations.table import UNKNOWN
from twin.remote_log.cache import RemoteLogMetadataCache, Segment, spans
from twin.remote_log.epoch_history import Epochs, without_empty_epochs
from twin.remote_log.segment_lineage import highest_remote_offset, remote_log_start, within_lineage
from twin.tables.enums import SegmentState, SegmentVerdict

Verdicts = dict[bytes, SegmentVerdict]
"""The verdict on each segment, by its id."""

MOST_GAPS: Final = 100
"""Of a partition. The first ones are kept: a consumer meets them first."""


@dataclass(frozen=True, slots=True)
class SegmentFindings:
    """Findings on one partition's remote segments; UNKNOWN where nothing was found."""

    segments: int
    undescribed_segments: int
    remote_bytes: int  # of all finished copies, those being deleted included
    lineage_bytes: int
    orphan_segments: int
    orphan_bytes: int
    orphan_since_ms: int
    dangling_segments: int
    dangling_since_ms: int
    gaps: tuple[tuple[int, int], ...]  # first offset of each, and first offset after it
    overlaps: int
    duplicates: int
    highest_remote_offset: int
    remote_log_start_offset: int
    refused_transitions: int
    leader_epochs: int

    @property
    def gap_start_offset(self) -> int:
        """First offset of the first gap."""
        return self.gaps[0][0] if self.gaps else UNKNOWN

    @property
    def gap_end_offset(self) -> int:
        """First offset after the first gap."""
        return self.gaps[0][1] if self.gaps else UNKNOWN


def judge(
    cache: RemoteLogMetadataCache, epochs: Epochs, log_end: int, local_start: int,
    undescribed: int = 0,
) -> SegmentFindings:  # fmt: skip
    """Orphans, dangling copies, gaps, and overlaps.

    Args:
        cache: the partition's segments.
        epochs: its leader's history; without one, no segment is called an orphan.
        log_end: its leader's log end as last sampled, or UNKNOWN.
        local_start: its leader's local log start, or UNKNOWN.
        undescribed: finished copies whose offsets nobody knows; with any, no gap is known.

    An orphan is a finished copy that is not completely on the lineage. Kafka neither counts nor
    deletes it, but reads of a shared epoch may still find its beginning.
    """
    history = without_empty_epochs(epochs)
    log_end = _least_end(cache, history, log_end)
    of_state = _by_state(cache)
    finished, started = of_state[SegmentState.COPY_FINISHED], of_state[SegmentState.COPY_STARTED]
    ours, orphans = _split(finished, history, log_end)
    again = _overlaps(ours)
    gaps: tuple[tuple[int, int], ...] = ()
    highest = first = UNKNOWN
    if not undescribed:
        gaps = _gaps(_readable(finished, history, log_end))
        highest = highest_remote_offset(cache, epochs, log_end)[0]
        first = remote_log_start(cache, history, local_start)
    deleting = of_state[SegmentState.DELETE_STARTED]
    return SegmentFindings(
        segments=len(finished) + len(started) + len(deleting) + undescribed,
        undescribed_segments=undescribed,
        remote_bytes=sum(s.log_bytes for s in (*finished, *deleting)),
        lineage_bytes=sum(s.log_bytes for s in ours),
        orphan_segments=len(orphans),
        orphan_bytes=sum(s.log_bytes for s in orphans),
        orphan_since_ms=min((s.event_at_ms for s in orphans), default=UNKNOWN),
        dangling_segments=len(started),
        dangling_since_ms=min((s.event_at_ms for s in started), default=UNKNOWN),
        gaps=gaps,
        overlaps=len(again),
        duplicates=sum(one is SegmentVerdict.DUPLICATE for one in again.values()),
        highest_remote_offset=highest,
        remote_log_start_offset=first,
        refused_transitions=cache.refused_transitions,
        leader_epochs=len(epochs),
    )


def verdicts(cache: RemoteLogMetadataCache, epochs: Epochs, log_end: int) -> Verdicts:
    """The verdict on each segment that is not deleted; arguments as of ``judge``."""
    history = without_empty_epochs(epochs)
    of_state = _by_state(cache)
    by_segment = {s.id: SegmentVerdict.DANGLING for s in of_state[SegmentState.COPY_STARTED]}
    by_segment |= {s.id: SegmentVerdict.DELETING for s in of_state[SegmentState.DELETE_STARTED]}
    finished = of_state[SegmentState.COPY_FINISHED]
    by_segment |= {s.id: SegmentVerdict.NOT_JUDGED for s in finished}
    if not history:
        return by_segment
    ours, orphans = _split(finished, history, _least_end(cache, history, log_end))
    by_segment |= {s.id: SegmentVerdict.ON_LINEAGE for s in ours}
    by_segment |= {s.id: SegmentVerdict.ORPHAN for s in orphans}
    return by_segment | _overlaps(ours)


def _by_state(cache: RemoteLogMetadataCache) -> dict[SegmentState, list[Segment]]:
    of_state: dict[SegmentState, list[Segment]] = {state: [] for state in SegmentState}
    for segment in cache.segments.values():
        of_state[segment.state].append(segment)
    return of_state


def _least_end(cache: RemoteLogMetadataCache, history: Epochs, log_end: int) -> int:
    """The log end, raised to the end of what is copied of the newest epoch.

    The log end was sampled earlier, and a wrong finding would stay until the next event.
    Records that a later leader truncated are in an epoch that is not the newest.
    """
    if not history:
        return log_end
    epoch, start = history[-1]
    return max(log_end, start, cache.highest_offset(epoch) + 1)


def _split(
    finished: Iterable[Segment], history: Epochs, log_end: int
) -> tuple[list[Segment], list[Segment]]:
    """Finished copies of the lineage, and orphans.

    Some copies are neither. The leader itself deletes copies that are older than the whole history;
    copies that are newer than it show that the history is out of date.
    """
    if not history:
        return list(finished), []
    ours, orphans = [], []
    for segment in finished:
        if within_lineage(segment, log_end, history):
            ours.append(segment)
        elif history[0][0] <= segment.epochs[-1][0] <= history[-1][0]:
            orphans.append(segment)
    return ours, orphans


def _readable(finished: Iterable[Segment], history: Epochs, log_end: int) -> list[tuple[int, int]]:
    """(first, last) offsets that reads by the log's epochs find in remote storage, ascending.

    The search is by epoch, as in RemoteLogManager.fetchRemoteLogSegmentMetadata, not by segment: a
    copy of a deposed leader serves the epochs that it shares with the lineage.
    """
    if not history:
        return sorted((s.start_offset, s.end_offset) for s in finished)
    ends = [start for _, start in history[1:]] + [log_end]
    bounds = {epoch: (start, end) for (epoch, start), end in zip(history, ends, strict=True)}
    ranges = []
    for segment in finished:
        for epoch, first, last in spans(segment):
            start, end = bounds.get(epoch, (0, 0))
            if max(first, start) <= min(last, end - 1):
                ranges.append((max(first, start), min(last, end - 1)))
    return sorted(ranges)


def _gaps(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """First offset of each gap between the ranges, and of what follows it; ascending."""
    gaps = []
    reached = ranges[0][0] - 1 if ranges else UNKNOWN
    for first, last in ranges:
        if first > reached + 1:
            gaps.append((reached + 1, first))
        reached = max(reached, last)
    return tuple(gaps[:MOST_GAPS])


def _overlaps(segments: Iterable[Segment]) -> Verdicts:
    """Segments that begin inside another: those that reach further, and those that do not."""
    overlaps, reached = {}, UNKNOWN
    for segment in sorted(segments, key=lambda s: (s.start_offset, -s.end_offset, s.event_at_ms)):
        if segment.start_offset <= reached:
            further = segment.end_offset > reached
            overlaps[segment.id] = SegmentVerdict.OVERLAP if further else SegmentVerdict.DUPLICATE
        reached = max(reached, segment.end_offset)
    return overlaps
