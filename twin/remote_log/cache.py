"""The remote segments of one partition, and which of them each leader epoch refers to.

A segment's meaning depends on the events before it, so events are replayed in their order, and
only for partitions whose segments changed. Source: RemoteLogMetadataCache,
RemoteLogLeaderEpochState, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from twin.declarations.table import UNKNOWN
from twin.remote_log.epoch_history import Epochs
from twin.tables.enums import SegmentState

_ALLOWED: Final = {
    SegmentState.COPY_STARTED: {SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED},
    SegmentState.COPY_FINISHED: {SegmentState.DELETE_STARTED},
    SegmentState.DELETE_STARTED: {SegmentState.DELETE_FINISHED},
}


class ReferenceState(IntEnum):
    """Whether a leader epoch refers to a remote segment that has records of it."""

    NOT = 0
    BY_OFFSET = 1  # reads of the epoch find it
    UNREFERENCED = 2  # it is listed only, until it is deleted


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


@dataclass(slots=True)
class _EpochState:
    """The segments that one epoch refers to, by the offset at which the epoch begins in them."""

    by_offset: dict[int, bytes] = field(default_factory=dict)
    unreferenced: set[bytes] = field(default_factory=set)
    highest_offset: int = UNKNOWN


class RemoteLogMetadataCache:
    """Kafka's class of that name: given the same events in order, it gives the same answers."""

    def __init__(self) -> None:
        self.segments: dict[bytes, Segment] = {}
        self.refused_transitions = 0
        self._epochs: dict[int, _EpochState] = {}

    @staticmethod
    def restored(
        segments: Iterable[tuple[Segment, Sequence[int]]],
        highest: Iterable[tuple[int, int]],
        refused_transitions: int,
    ) -> RemoteLogMetadataCache:
        """The cache with these segments, a ReferenceState for each epoch, and (epoch, highest)."""
        made = RemoteLogMetadataCache()
        made.refused_transitions = refused_transitions
        for segment, referred in segments:
            made.segments[segment.id] = segment
            for (epoch, start), how in zip(segment.epochs, referred, strict=True):
                refers = made._epochs.setdefault(epoch, _EpochState())
                if how == ReferenceState.BY_OFFSET:
                    refers.by_offset[start] = segment.id
                elif how == ReferenceState.UNREFERENCED:
                    refers.unreferenced.add(segment.id)
        for epoch, offset in highest:
            made._epochs.setdefault(epoch, _EpochState()).highest_offset = offset
        return made

    def copy(self) -> RemoteLogMetadataCache:
        """A copy that can take further events."""
        return RemoteLogMetadataCache.restored(
            ((s, self.referred(s)) for s in self.segments.values()),
            self.tiered_epochs(),
            self.refused_transitions,
        )

    def referred(self, segment: Segment) -> list[int]:
        """A ReferenceState for each epoch of the segment."""
        references = []
        for epoch, start in segment.epochs:
            refers = self._epochs[epoch]
            by_offset = refers.by_offset.get(start) == segment.id
            listed = segment.id in refers.unreferenced
            references.append(
                ReferenceState.BY_OFFSET if by_offset
                else ReferenceState.UNREFERENCED if listed else ReferenceState.NOT
            )  # fmt: skip
        return [int(how) for how in references]

    def tiered_epochs(self) -> list[tuple[int, int]]:
        """(epoch, highest offset ever copied), of all epochs."""
        return [
            (epoch, refers.highest_offset)
            for epoch, refers in sorted(self._epochs.items())
            if refers.highest_offset != UNKNOWN
        ]

    def add(self, segment: Segment) -> None:
        """Take in the start of a copy; a transition that is not allowed is dropped and counted."""
        existing = self.segments.get(segment.id)
        if segment.state is not SegmentState.COPY_STARTED:
            self.refused_transitions += 1
            return
        if existing is not None:
            # Repeated: only an identical state may follow itself.
            self.refused_transitions += existing.state is not segment.state
            return
        self.segments[segment.id] = segment
        for epoch, _ in segment.epochs:
            self._epochs.setdefault(epoch, _EpochState()).unreferenced.add(segment.id)

    def update(self, segment_id: bytes, state: SegmentState, event_at_ms: int = UNKNOWN) -> None:
        """Take in a segment's new state; a transition that is not allowed is dropped and counted.

        As in Kafka, a repeated state updates the epochs' references again.
        """
        existing = self.segments.get(segment_id)
        if existing is None or state is SegmentState.COPY_STARTED:
            self.refused_transitions += existing is None or existing.state is not state
            return
        if state is not existing.state and state not in _ALLOWED.get(existing.state, set()):
            self.refused_transitions += 1
            return
        segment = replace(existing, state=state, event_at_ms=event_at_ms)
        self.segments[segment_id] = segment
        for epoch, start, end in spans(segment):
            self._refer(self._epochs.setdefault(epoch, _EpochState()), segment, start, end)
        if state is SegmentState.DELETE_FINISHED:
            del self.segments[segment_id]

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
