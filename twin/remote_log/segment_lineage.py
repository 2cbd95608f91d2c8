"""Which remote segments belong to a log, and which were left behind.

A log's lineage is its history of leader epochs. Uploads of a leader that was deposed uncleanly, or
that never finished, stay in remote storage beside those of the lineage; Kafka neither reads nor
counts nor deletes them until much later.

Source: the tiered lineage document; RemoteLogManager, Kafka 4.3.
"""

from __future__ import annotations

from twin.declarations.table import UNKNOWN
from twin.remote_log.cache import RemoteLogMetadataCache, Segment
from twin.remote_log.epoch_history import Epochs, end_offset_for


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


def highest_remote_offset(
    cache: RemoteLogMetadataCache, epochs: Epochs, log_end: int
) -> tuple[int, int]:
    """(offset, epoch) up to which this lineage is in remote storage, UNKNOWN for nothing.

    Not the largest end offset of all segments: copies of another lineage may reach further. Source:
    RemoteLogManager.findHighestRemoteOffset.
    """
    for epoch, _ in reversed(epochs):
        highest = cache.highest_offset(epoch)
        if highest == UNKNOWN:
            continue
        found_epoch, end = end_offset_for(epochs, epoch, log_end)
        return (end - 1, found_epoch) if highest >= end else (highest, epoch)
    return UNKNOWN, UNKNOWN


def remote_log_start(cache: RemoteLogMetadataCache, epochs: Epochs, local_log_start: int) -> int:
    """First offset of the log by its remote segments; its local start if it has none.

    Source: RemoteLogManager.findLogStartOffset.
    """
    for epoch, _ in epochs:
        listed = cache.listed(epoch)
        if listed:
            return listed[0].start_offset
    return local_log_start
