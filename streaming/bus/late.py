"""Totals of a view, each series of which is computed on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from twin.totals import Samples, Sums, Totals


class _LateSamples(Mapping[str, Samples]):
    """Each series is computed once, by the first thread that reads it; others wait for it.

    Who shows a row of a fleet reads a tenth of them.
    """

    def __init__(self, sums: Callable[[], Sums]) -> None:
        self._sums_of = sums
        self._lock = threading.Lock()
        self._sums: Sums | None = None
        self._samples: dict[str, Samples] = {}

    def __getitem__(self, series_name: str) -> Samples:
        with self._lock:
            found = self._samples.get(series_name)
            if found is None:
                found = self._samples[series_name] = self._all()[series_name]()
        return found

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(self._all())

    def __len__(self) -> int:
        with self._lock:
            return len(self._all())

    def _all(self) -> Sums:
        if self._sums is None:
            self._sums = self._sums_of()
        return self._sums


def late_totals(observed_at_ms: int, sums: Callable[[], Sums]) -> Totals:
    """Totals of that observation; ``sums`` is called when the first of them is read."""
    return Totals(observed_at_ms, _LateSamples(sums))
