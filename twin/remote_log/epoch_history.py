"""The history of leader epochs of a log.

Source: the tiered lineage document; LeaderEpochFileCache, Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_right

from twin.declarations.table import UNKNOWN

Epochs = tuple[tuple[int, int], ...]
"""(leader epoch, first offset), both ascending."""


def assigned(epochs: Epochs, epoch: int, start_offset: int) -> Epochs:
    """The history once an epoch begins at an offset; unchanged unless it is a later epoch.

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


def truncated_from_start(epochs: Epochs, start_offset: int) -> Epochs:
    """The history of a log that now begins at ``start_offset``."""
    older = [e for e in epochs if e[1] <= start_offset]
    if not older:
        return epochs
    return ((older[-1][0], start_offset), *(e for e in epochs if e[1] > start_offset))


def end_offset_for(epochs: Epochs, epoch: int, log_end: int) -> tuple[int, int]:
    """(epoch, end offset) of the largest epoch up to the requested one; both UNKNOWN if none.

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


def without_empty_epochs(epochs: Epochs) -> Epochs:
    """The history without epochs in which nothing was written.

    Source: RemoteLogManager.buildFilteredLeaderEpochMap.
    """
    following = (*epochs[1:], (UNKNOWN, UNKNOWN))
    return tuple(e for e, after in zip(epochs, following, strict=False) if e[1] != after[1])
