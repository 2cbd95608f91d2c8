"""How many series of partitions each cluster may have: the caps are those of all together.

Partitions at risk come first, whichever cluster they are of. Where not all fit, each cluster may
have as many as each other, and those that need less leave the rest to the others: so the series of
small clusters are there as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence


class SeriesBudget:
    """Shares the caps among clusters by what each wants of each class. For many threads."""

    def __init__(self, caps: Sequence[int]) -> None:
        """``caps`` are of the series of each class and those before it, together."""
        self._caps = caps
        self._lock = threading.Lock()
        self._wanted: dict[str, Sequence[int]] = {}

    def allowed(self, cluster: str, wanted: Sequence[int]) -> list[int]:
        """How many of its series of each class a cluster may have now, of those it wants."""
        with self._lock:
            self._wanted[cluster] = wanted
            mine, served = [], 0
            for number, cap in enumerate(self._caps):
                each = {name: wanted[number] for name, wanted in self._wanted.items()}
                shares = shares_of(each, max(cap - served, 0))
                served += sum(shares.values())
                mine.append(shares[cluster])
        return mine

    def forget(self, cluster: str) -> None:
        """Leave what a cluster had to the others."""
        with self._lock:
            self._wanted.pop(cluster, None)


def shares_of(wanted: Mapping[str, int], there: int) -> dict[str, int]:
    """What each gets of what is there, the smallest wishes first."""
    shares: dict[str, int] = {}
    for waiting, name in zip(
        range(len(wanted), 0, -1), sorted(wanted, key=lambda name: wanted[name]), strict=True
    ):
        shares[name] = min(wanted[name], there // waiting)
        there -= shares[name]
    return shares
