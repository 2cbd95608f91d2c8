"""Joins the parts of a large shard's snapshot.

Each part has a key of its own, so parts are in different partitions of the topic and arrive in any
order, and a compacted topic still holds parts of a shard that has shrunk since. The state of a
shard is the newest complete set: an incomplete set does not replace the previous one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from twin.declarations.table import UNKNOWN
from twin.engine import updates
from twin.engine.codec import DecodedState
from twin.engine.shard_state import ShardState, concatenated
from twin.tables.state import PartitionIndex, Topics

SETS_KEPT: Final = 4
"""The maximum of incomplete sets: one partition of the topic may be read ahead of another."""


class Whole(NamedTuple):
    """A whole state, and the id by which an update names it."""

    id: bytes
    decoded: DecodedState


class PartSets:
    """The incomplete sets of parts of one shard."""

    def __init__(self) -> None:
        # (observed_at_ms, parts) -> part number -> its state and message
        self._sets: dict[tuple[int, int], dict[int, tuple[DecodedState, bytes]]] = {}
        self._whole_at_ms = UNKNOWN

    def take(self, part: int, parts: int, decoded: DecodedState, message: bytes) -> Whole | None:
        """The whole state if this part completes a set that is not older than the last."""
        at_ms = decoded.state.observed_at_ms
        if at_ms < self._whole_at_ms:
            return None
        taken = self._sets.setdefault((at_ms, parts), {})
        taken[part] = decoded, message
        whole = _whole([taken[n] for n in range(parts)]) if len(taken) == parts else None
        if whole is not None:
            self._whole_at_ms = at_ms
            self._sets = {key: taken for key, taken in self._sets.items() if key[0] > at_ms}
        elif len(self._sets) > SETS_KEPT:
            del self._sets[min(self._sets)]
        return whole


def _whole(parts: Sequence[tuple[DecodedState, bytes]]) -> Whole | None:
    state = joined([decoded.state for decoded, _ in parts])
    if state is None:
        return None
    discarded = dict.fromkeys(each for decoded, _ in parts for each in decoded.discarded)
    return Whole(
        updates.id_of([message for _, message in parts]), DecodedState(state, tuple(discarded))
    )


def parts_of(message: bytes) -> tuple[int, int]:
    """The number of a part and how many there are, without reading rows."""
    with pa.ipc.open_stream(message) as reader:
        metadata = reader.schema.metadata
    return int(metadata[b"part"]), int(metadata[b"parts"])


def joined(parts: Sequence[ShardState]) -> ShardState | None:
    """Join parts, in order, to one state; None if they are parts of different states.

    One cycle may give two snapshots, the later with more rows: their parts do not fit together.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    ids = first[Topics].topic_id
    if not all(np.array_equal(ids, part[Topics].topic_id) for part in parts):
        return None
    whole = concatenated(parts)
    return whole if _is_in_order(whole[PartitionIndex]) else None


def _is_in_order(index: PartitionIndex) -> bool:
    topic, number = np.diff(index.topic_index), np.diff(index.partition)
    return bool(((topic > 0) | ((topic == 0) & (number > 0))).all())
