"""The snapshot of a large shard comes in parts; this puts them together again.

Each part has a key of its own, so parts lie in different partitions of the topic and arrive in any
order, and a compacted topic still holds parts of a shard that has shrunk since. A shard is what the
newest whole set says: a set that is not whole yet leaves the one before in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twin.fleet import PARTITION_COLUMNS, REPLICA_COLUMNS, Array, Fleet, widened
from twin.sparse import SPARSE
from twin.tables import UNKNOWN

SETS_KEPT: Final = 4
"""Sets of parts that are waited for: one partition of the topic may be read ahead of another."""


class Parts:
    """The sets of parts of one shard that are not whole yet."""

    def __init__(self) -> None:
        self._sets: dict[tuple[int, int], dict[int, Fleet]] = {}  # (observed_at_ms, parts) -> part
        self._whole_at_ms = UNKNOWN

    def take(self, part: int, parts: int, fleet: Fleet) -> Fleet | None:
        """The whole shard if this part completes a set that is not older than the last."""
        at_ms = fleet.observed_at_ms
        if at_ms < self._whole_at_ms:
            return None
        held = self._sets.setdefault((at_ms, parts), {})
        held[part] = fleet
        whole = joined([held[n] for n in range(parts)]) if len(held) == parts else None
        if whole is not None:
            self._whole_at_ms = at_ms
            self._sets = {key: held for key, held in self._sets.items() if key[0] > at_ms}
        elif len(self._sets) > SETS_KEPT:
            del self._sets[min(self._sets)]
        return whole


def parts_of(message: bytes) -> tuple[int, int]:
    """Which part a message that decoded is, and of how many; reads no rows."""
    with pa.ipc.open_stream(message) as reader:
        stamp = reader.schema.metadata
    return int(stamp[b"part"]), int(stamp[b"parts"])


def joined(parts: Sequence[Fleet]) -> Fleet | None:
    """One fleet of parts in order; None if they were not cut from the same one.

    One cycle may give two snapshots, the later with more rows: their cuts do not fit each other.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if not all(np.array_equal(first.topics.topic_id, part.topics.topic_id) for part in parts):
        return None
    slots = max(part.slots for part in parts)
    wide = [widened(part, slots) for part in parts]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in wide])
        for name in (*PARTITION_COLUMNS, *REPLICA_COLUMNS)
    }
    if not _in_order(columns):
        return None
    begins = np.cumsum([0, *map(len, parts)])
    for name in SPARSE:
        tables = [
            getattr(part, name).moved(np.arange(len(part)) + begin)
            for part, begin in zip(parts, begins, strict=False)
        ]
        columns[name] = reduce(lambda one, other: one.with_rows(other), tables)
    return replace(first, **columns)


def _in_order(columns: dict[str, Array]) -> bool:
    topic, number = np.diff(columns["topic_index"]), np.diff(columns["partition"])
    return bool(((topic > 0) | ((topic == 0) & (number > 0))).all())
