"""Which remote segments belong to a log, and which were left behind.

A log's lineage is its history of leader epochs. Uploads of a leader that was deposed uncleanly, or
that never finished, stay in remote storage beside those of the lineage; Kafka neither reads nor
counts nor deletes them until much later. The rules here are those of one partition, and sequential
as Kafka's own are: what a segment is depends on those told of before it. They run only over
partitions whose segments or epochs changed.

Source: the tiered lineage document; LeaderEpochFileCache, RemoteLogMetadataCache,
RemoteLogLeaderEpochState, RemoteLogManager, Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from twin.tables import UNKNOWN, Referred, SegmentState

Epochs = tuple[tuple[int, int], ...]
"""(leader epoch, first offset), both ascending."""

_ALLOWED: Final = {
    SegmentState.COPY_STARTED: {SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED},
    SegmentState.COPY_FINISHED: {SegmentState.DELETE_STARTED},
    SegmentState.DELETE_STARTED: {SegmentState.DELETE_FINISHED},
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A remote segment: offsets ``start`` to ``end``, both inclusive, and the epochs in it."""

    id: bytes
    start_offset: int
    end_offset: int
    epochs: Epochs
    log_bytes: int = 0
    state: SegmentState = SegmentState.COPY_STARTED
    event_at_ms: int = UNKNOWN


# ---------------------------------------------------------------- epochs


def assigned(epochs: Epochs, epoch: int, start_offset: int) -> Epochs:
    """The history once an epoch begins at an offset; nothing changes unless it is a later epoch.

    Entries at or after it are dropped: they belong to what was truncated. Source:
    LeaderEpochFileCache.assign and maybeTruncateNonMonotonicEntries.
    """
    if epochs and (epoch, start_offset) == epochs[-1]:
        return epochs
    if epoch < 0 or start_offset < 0:
        raise ValueError(f"epoch {epoch} at offset {start_offset}")
    if epochs and epoch == epochs[-1][0] and start_offset >= epochs[-1][1]:
        return epochs
    kept = tuple(e for e in epochs if e[0] < epoch and e[1] < start_offset)
    return (*kept, (epoch, start_offset))


def truncated_from_end(epochs: Epochs, end_offset: int) -> Epochs:
    """The history of a log cut at ``end_offset``, which is no longer part of it."""
    return tuple(e for e in epochs if e[1] < end_offset)


def truncated_from_start(epochs: Epochs, start_offset: int) -> Epochs:
    """The history of a log that now begins at ``start_offset``."""
    older = [e for e in epochs if e[1] <= start_offset]
    if not older:
        return epochs
    return ((older[-1][0], start_offset), *(e for e in epochs if e[1] > start_offset))


def end_offset_for(epochs: Epochs, epoch: int, log_end: int) -> tuple[int, int]:
    """(epoch, end offset) of the largest epoch not above the one asked for; UNKNOWN for neither.

    Source: LeaderEpochFileCache.endOffsetFor.
    """
    if epoch == UNKNOWN or not epochs:
        return UNKNOWN, UNKNOWN
    if epoch == epochs[-1][0]:
        return epoch, log_end
    at = bisect_right([e[0] for e in epochs], epoch)
    if at == len(epochs):
        return UNKNOWN, UNKNOWN  # a later epoch than the log has
    if at == 0:
        return epoch, epochs[0][1]
    return epochs[at - 1][0], epochs[at][1]


def epoch_for_offset(epochs: Epochs, offset: int) -> int:
    """The epoch an offset was written in, UNKNOWN before the first."""
    at = bisect_right([e[1] for e in epochs], offset)
    return epochs[at - 1][0] if at else UNKNOWN


def without_empty_epochs(epochs: Epochs) -> Epochs:
    """The history less the epochs in which nothing was written.

    Source: RemoteLogManager.buildFilteredLeaderEpochMap.
    """
    following = (*epochs[1:], (UNKNOWN, UNKNOWN))
    return tuple(e for e, after in zip(epochs, following, strict=False) if e[1] != after[1])


# ---------------------------------------------------------------- what an epoch refers to


@dataclass(slots=True)
class _EpochState:
    """The segments one epoch refers to, by the offset at which it begins in them."""

    by_offset: dict[int, bytes] = field(default_factory=dict)
    unreferenced: set[bytes] = field(default_factory=set)
    highest_offset: int = UNKNOWN


class References:
    """The segments of a partition and which of them each epoch refers to.

    It is a replay: told the events in their order, it answers as Kafka's cache does.
    """

    def __init__(self) -> None:
        self.segments: dict[bytes, Segment] = {}
        self.refused_transitions = 0
        self._epochs: dict[int, _EpochState] = {}

    @staticmethod
    def restored(
        segments: Iterable[tuple[Segment, Sequence[int]]], highest: Iterable[tuple[int, int]],
        refused_transitions: int,
    ) -> References:  # fmt: skip
        """From segments, each with a Referred for each of its epochs, and (epoch, highest)."""
        made = References()
        made.refused_transitions = refused_transitions
        for segment, referred in segments:
            made.segments[segment.id] = segment
            for (epoch, start), how in zip(segment.epochs, referred, strict=True):
                refers = made._epochs.setdefault(epoch, _EpochState())
                if how == Referred.BY_OFFSET:
                    refers.by_offset[start] = segment.id
                elif how == Referred.UNREFERENCED:
                    refers.unreferenced.add(segment.id)
        for epoch, offset in highest:
            made._epochs.setdefault(epoch, _EpochState()).highest_offset = offset
        return made

    def copy(self) -> References:
        """Another one that can be told more."""
        return References.restored(
            ((s, self.referred(s)) for s in self.segments.values()),
            self.tiered_epochs(),
            self.refused_transitions,
        )

    def referred(self, segment: Segment) -> list[int]:
        """A Referred for each epoch of the segment."""
        found = []
        for epoch, start in segment.epochs:
            refers = self._epochs[epoch]
            by_offset = refers.by_offset.get(start) == segment.id
            listed = segment.id in refers.unreferenced
            found.append(
                Referred.BY_OFFSET if by_offset
                else Referred.UNREFERENCED if listed else Referred.NOT
            )  # fmt: skip
        return [int(how) for how in found]

    def tiered_epochs(self) -> list[tuple[int, int]]:
        """(epoch, highest offset ever copied), of all epochs."""
        return [
            (epoch, refers.highest_offset)
            for epoch, refers in sorted(self._epochs.items())
            if refers.highest_offset != UNKNOWN
        ]

    def add(self, segment: Segment) -> None:
        """A copy was started; what is not allowed is dropped and counted."""
        known = self.segments.get(segment.id)
        if segment.state is not SegmentState.COPY_STARTED:
            self.refused_transitions += 1
            return
        if known is not None:
            # Told again: only an identical state may follow itself.
            self.refused_transitions += known.state is not segment.state
            return
        self.segments[segment.id] = segment
        for epoch, _ in segment.epochs:
            self._epochs.setdefault(epoch, _EpochState()).unreferenced.add(segment.id)

    def update(self, segment_id: bytes, state: SegmentState, event_at_ms: int = UNKNOWN) -> None:
        """A segment changed its state; what is not allowed is dropped and counted.

        As in Kafka, a state told again is referred to again.
        """
        known = self.segments.get(segment_id)
        if known is None or state is SegmentState.COPY_STARTED:
            self.refused_transitions += known is None or known.state is not state
            return
        if state is not known.state and state not in _ALLOWED.get(known.state, set()):
            self.refused_transitions += 1
            return
        segment = replace(known, state=state, event_at_ms=event_at_ms)
        self.segments[segment_id] = segment
        for epoch, start, end in spans(segment):
            self._refer(self._epochs.setdefault(epoch, _EpochState()), segment, start, end)
        if state is SegmentState.DELETE_FINISHED:
            del self.segments[segment_id]

    def segment_at(self, epoch: int, offset: int) -> Segment | None:
        """The segment that holds an offset of an epoch, if one does."""
        refers = self._epochs.get(epoch)
        below = [start for start in refers.by_offset if start <= offset] if refers else []
        if refers is None or not below:
            return None
        segment = self.segments[refers.by_offset[max(below)]]
        end = next(end for number, _, end in spans(segment) if number == epoch)
        return segment if offset <= end else None

    def highest_offset(self, epoch: int) -> int:
        """The highest offset of the epoch that was ever copied, UNKNOWN for none."""
        refers = self._epochs.get(epoch)
        return refers.highest_offset if refers else UNKNOWN

    def listed(self, epoch: int) -> list[Segment]:
        """All segments that have records of the epoch, referenced or not.

        In Kafka's order: by where the epoch begins in them, and by their own start as soon as one
        of them is unreferenced.
        """
        refers = self._epochs.get(epoch)
        if refers is None:
            return []
        listed = [self.segments[refers.by_offset[start]] for start in sorted(refers.by_offset)]
        if refers.unreferenced:
            listed += [self.segments[i] for i in sorted(refers.unreferenced)]
            listed.sort(key=lambda segment: segment.start_offset)
        return listed

    def _refer(self, refers: _EpochState, segment: Segment, start: int, end: int) -> None:
        match segment.state:
            case SegmentState.COPY_FINISHED:
                # Whatever the new segment covers to its end is no longer needed.
                while refers.by_offset and max(refers.by_offset) >= start:
                    if refers.highest_offset > end:
                        break
                    refers.unreferenced.add(refers.by_offset.pop(max(refers.by_offset)))
                refers.by_offset[start] = segment.id
                refers.unreferenced.discard(segment.id)
                refers.highest_offset = max(refers.highest_offset, end)
            case SegmentState.DELETE_STARTED:
                if refers.by_offset.get(start) == segment.id:
                    del refers.by_offset[start]
                refers.unreferenced.add(segment.id)
            case SegmentState.DELETE_FINISHED:
                refers.unreferenced.discard(segment.id)
            case SegmentState.COPY_STARTED:
                raise AssertionError("a copy is started by add")


def spans(segment: Segment) -> Iterable[tuple[int, int, int]]:
    """(epoch, first offset, last offset) of each epoch in the segment."""
    ends = [start - 1 for _, start in segment.epochs[1:]] + [segment.end_offset]
    for (epoch, start), end in zip(segment.epochs, ends, strict=True):
        yield epoch, start, end


# ---------------------------------------------------------------- what belongs to the log


def within_lineage(segment: Segment, log_end: int, epochs: Epochs) -> bool:
    """Whether all of the segment is part of the log with this history.

    ``epochs`` has no empty epochs (``without_empty_epochs``) and is not empty itself. Source:
    RemoteLogManager.isRemoteSegmentWithinLeaderEpochs.
    """
    lineage = dict(epochs)
    numbers = [e[0] for e in epochs]
    last = segment.epochs[-1][0]
    if segment.end_offset >= log_end or not numbers[0] <= last <= numbers[-1]:
        return False
    inside = [e for e in segment.epochs if e[0] >= numbers[0]]
    for place, (epoch, offset) in enumerate(inside):
        if epoch not in lineage:
            return False
        at = numbers.index(epoch)
        if place == 0 and at > 0 and offset < lineage[epoch]:
            return False
        following = epochs[at + 1] if at + 1 < len(epochs) else None
        if epoch == last:
            if following is not None and segment.end_offset > following[1] - 1:
                return False
        elif following != inside[place + 1]:
            return False
    return True


def highest_remote_offset(references: References, epochs: Epochs, log_end: int) -> tuple[int, int]:
    """(offset, epoch) up to which this lineage is in remote storage, UNKNOWN for nothing.

    Not the largest end offset of all segments: copies of another lineage may reach further. Source:
    RemoteLogManager.findHighestRemoteOffset.
    """
    for epoch, _ in reversed(epochs):
        highest = references.highest_offset(epoch)
        if highest == UNKNOWN:
            continue
        found, end = end_offset_for(epochs, epoch, log_end)
        return (end - 1, found) if highest >= end else (highest, epoch)
    return UNKNOWN, UNKNOWN


def remote_log_start(references: References, epochs: Epochs, local_log_start: int) -> int:
    """First offset of the log by its remote segments; its local start if it has none.

    Source: RemoteLogManager.findLogStartOffset.
    """
    for epoch, _ in epochs:
        listed = references.listed(epoch)
        if listed:
            return listed[0].start_offset
    return local_log_start


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
