"""The segments that leaders of a simulated shard copy to remote storage, and their epochs.

Each leader copies one segment a cycle. One that is deposed leaves a segment it did not finish, and
one that is followed by a shorter log leaves segments that no longer belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from twin.tables.enums import SegmentState

NOT_TIERED_RECORDS: Final = 1_500
"""The end of each log, which is in no finished segment yet."""

Epochs = tuple[tuple[int, int], ...]  # (leader epoch, first offset)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a segment; ``end_offset`` is its last one."""

    metadata_offset: int
    segment: int
    state: SegmentState
    start_offset: int
    end_offset: int
    epochs: Epochs


@dataclass(slots=True)
class _Log:
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    uploaded: int = 0  # first offset that its leader did not copy


class SimulatedTier:
    """Remote segments and leader epochs, by topic id and partition."""

    def __init__(self) -> None:
        self._logs: dict[tuple[bytes, int], _Log] = {}
        self._event_count = 0

    def cycle(self, key: tuple[bytes, int], epoch: int, end: int) -> tuple[list[Event], Epochs]:
        """The new copies of a leader of this epoch, whose log ends there; and its history."""
        log = self._logs.setdefault(key, _Log())
        events = []
        if log.epochs[-1][0] != epoch:
            events += self._copied(log, end, SegmentState.COPY_STARTED)
            log.epochs = [*(entry for entry in log.epochs if entry[1] < end), (epoch, end)]
            log.uploaded = min(log.uploaded, end)
        tiered = end - NOT_TIERED_RECORDS
        events += self._copied(log, tiered, SegmentState.COPY_FINISHED)
        log.uploaded = max(log.uploaded, tiered)
        return events, tuple(log.epochs)

    def _copied(self, log: _Log, end: int, last: SegmentState) -> list[Event]:
        """The events of the segment that ends before that offset, up to a state."""
        start, segment, events = log.uploaded, self._event_count, []
        if start >= end:
            return []
        epoch = [number for number, first in log.epochs if first <= start][-1]
        inside = ((epoch, start), *(entry for entry in log.epochs if start < entry[1] < end))
        for state in SegmentState:
            if state <= last:
                events.append(Event(self._event_count, segment, state, start, end - 1, inside))
                self._event_count += 1
        return events
