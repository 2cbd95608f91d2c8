"""Totals of a view, which are computed on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from twin.totals import Samples, Totals


class _LateSamples(Mapping[str, Samples]):
    """Computed once, by the first thread that reads them; others wait for it."""

    def __init__(self, compute: Callable[[], Totals]) -> None:
        self._compute: Callable[[], Totals] | None = compute
        self._lock = threading.Lock()
        self._samples: Mapping[str, Samples] = {}

    def _computed(self) -> Mapping[str, Samples]:
        with self._lock:
            if self._compute is not None:
                self._samples = self._compute().samples
                self._compute = None  # what it refers to may go
        return self._samples

    def __getitem__(self, series_name: str) -> Samples:
        return self._computed()[series_name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._computed())

    def __len__(self) -> int:
        return len(self._computed())


def late_totals(observed_at_ms: int, compute: Callable[[], Totals]) -> Totals:
    """Totals of that observation, which ``compute`` makes when the first of them is read."""
    return Totals(observed_at_ms, _LateSamples(compute))
