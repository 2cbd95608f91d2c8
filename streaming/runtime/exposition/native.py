"""Durations in buckets whose bounds grow by a constant factor: a native histogram of Prometheus.

Only buckets with a duration in them are kept, so nobody has to know beforehand how long something
takes. With SCHEMA 3 each bound is 2 ** (1 / 8) times the one before it: a quantile is wrong by five
percent at most. Source: the Prometheus specification "Native Histograms".
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

SCHEMA: Final = 3
ZERO_THRESHOLD: Final = 2.0**-128
"""Prometheus' own default: a duration that short is zero."""

LEAST_INDEX: Final = -160
MOST_INDEX: Final = 160
"""From a microsecond to twelve days: what lies beyond counts in the last bucket on its side."""


class Buckets(NamedTuple):
    """A copy of the buckets of a native histogram."""

    zero_count: int
    spans: Sequence[
        tuple[int, int]
    ]  # buckets that follow each other: distance to those before, number
    deltas: Sequence[int]  # of each bucket's count to that of the bucket before it


class NativeHistogram:
    """Counts durations. Threads may add at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zeros = 0
        self._counts: Counter[int] = Counter()

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        with self._lock:
            if seconds <= ZERO_THRESHOLD:
                self._zeros += 1
            else:
                self._counts[index_of(seconds)] += 1

    def buckets(self) -> Buckets:
        """All that was counted."""
        with self._lock:
            counts, zeros = sorted(self._counts.items()), self._zeros
        before = [0, *(count for _, count in counts)]
        deltas = [count - last for (_, count), last in zip(counts, before, strict=False)]
        return Buckets(zeros, [*_spans([index for index, _ in counts])], deltas)


def index_of(seconds: float) -> int:
    """The bucket of a duration: its upper bound is 2 ** (index / 8), and belongs to it."""
    index = math.ceil(math.log2(seconds) * 2**SCHEMA)
    return min(max(index, LEAST_INDEX), MOST_INDEX)


def _spans(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Distance to the span before, and length, of each run of indices that follow each other."""
    end = 0
    for _, run in groupby(enumerate(indices), key=lambda each: each[1] - each[0]):
        mine = [index for _, index in run]
        yield mine[0] - end, len(mine)
        end = mine[-1] + 1
