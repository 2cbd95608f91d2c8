"""Which log directories of a broker are on one volume, by what their sizes do.

No request says it. Two directories on one volume have the same total, and mostly the same free
space: Kafka asks for it directory by directory, so writes between two of these calls may make it
differ in one answer (ReplicaManager.describeLogDirs, Kafka 4.3). Two volumes of one size have the
same free space for as long as both are empty.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from streaming.collector.listing import Array
from streaming.collector.wire.log_dirs import Directories
from twin.declarations.table import UNKNOWN

LAST_ANSWERS: Final = 12
"""Directories are on one volume if their free space was equal in one of so many answers, which are
a minute by default, and their totals are equal now."""


@dataclass(slots=True)
class _Seen:
    """The answers of one broker so far. ``equal_at``: [D, D] the last one with equal free space."""

    path: tuple[str, ...]
    equal_at: Array
    answers: int = 0


@dataclass(slots=True)
class Volumes:
    """Remembers when the free space of two directories was last equal."""

    _of_broker: dict[int, _Seen] = field(default_factory=dict)

    def of(self, broker: int, directories: Directories) -> Array:
        """[D] the volume of each directory: the index of the first one on it.

        A directory of unknown size is taken for a volume of its own.
        """
        count = len(directories.path)
        own = np.arange(count)
        if count < 2:
            return own
        seen = self._of_broker.get(broker)
        if seen is None or seen.path != directories.path:
            never = np.full((count, count), -LAST_ANSWERS, np.int64)
            seen = self._of_broker[broker] = _Seen(directories.path, never)
        total, usable = directories.total_bytes, directories.usable_bytes
        same_total = (total[:, None] == total) & (total != UNKNOWN)
        seen.equal_at[same_total & (usable[:, None] == usable)] = seen.answers
        together = same_total & (seen.answers - seen.equal_at < LAST_ANSWERS)
        seen.answers += 1
        volume = own
        while True:  # until what is together with the second is together with the first
            first = np.where(together, volume, count).min(axis=1)
            joined = np.minimum(volume, first)
            if np.array_equal(joined, volume):
                return volume
            volume = joined

    def forget(self, brokers: Collection[int]) -> None:
        """Drop all brokers except these."""
        for broker in self._of_broker.keys() - set(brokers):
            del self._of_broker[broker]
