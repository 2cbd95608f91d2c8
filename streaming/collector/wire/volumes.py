"""Which log directories of a broker are on one volume, by what their sizes do.

No request says it. Two directories on one volume have the same total and the same free space, but
Kafka asks for it directory by directory (ReplicaManager.describeLogDirs, Kafka 4.3): while much is
written, it differs a little in every answer. Two volumes of one size have the same free space for
as long as both are empty, and nearly the same when one overtakes the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from streaming.collector.listing import Array
from streaming.collector.wire.log_dirs_layout import Directories
from twin.declarations.table import UNKNOWN

LAST_ANSWERS: Final = 12
"""Directories with equal totals are on one volume if their free space was equal in one of so many
answers, or nearly so in each of them. They are a minute by default."""

NEARLY: Final = 1e-4
"""Of the total: 100 MB of 1 TB are written in a tenth of a second at most."""


@dataclass(slots=True)
class _Seen:
    """The answers of one broker so far. Shapes: [D, D] pairs of directories."""

    path: tuple[str, ...]
    equal_at: Array  # the last one with equal free space
    nearly: Array  # how many in a row, up to the last one, had nearly equal free space
    answers: int = 0


@dataclass(slots=True)
class Volumes:
    """Remembers when the free space of two directories was equal, or nearly so."""

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
            none = np.zeros((count, count), np.int64)
            seen = self._of_broker[broker] = _Seen(directories.path, none - LAST_ANSWERS, none)
        total, usable = directories.total_bytes, directories.usable_bytes
        same_total = (total[:, None] == total) & (total != UNKNOWN)
        apart = np.abs(usable[:, None] - usable)
        seen.equal_at[same_total & (apart == 0)] = seen.answers
        seen.nearly = np.where(same_total & (apart <= NEARLY * total), seen.nearly + 1, 0)
        together = seen.answers - seen.equal_at < LAST_ANSWERS
        together = same_total & (together | (seen.nearly >= LAST_ANSWERS))
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
