"""Brokers that the cluster does not list any longer, but that may still be registered.

Before Kafka 4.0 neither Metadata nor DescribeCluster lists a fenced broker (with ZooKeeper: one
without a session). So a lost broker disappears from the list like a removed one. It counts as
registered while an assignment names it, and for a day after it was listed last. Meanwhile it gets
requests like the others, at its last listed address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from streaming.collector.listing import ListedPlacement
from streaming.collector.wire.connections import Address
from twin.tables.state import UNLISTED_STAYS_MS


@dataclass(frozen=True, slots=True)
class _Listed:
    address: Address
    at_s: float


class UnlistedBrokers:
    """Remembers the last listed address of each broker; ``now_s`` is its clock."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._listed: dict[int, _Listed] = {}
        self._assigned: tuple[ListedPlacement, frozenset[int]] | None = None

    def update(self, listed: Iterable[Address], *, complete: bool) -> None:
        """Note the brokers that are listed; a ``complete`` list names fenced ones too."""
        now_s = self._now_s()
        kept = {} if complete else self._listed
        self._listed = kept | {a.broker: _Listed(a, now_s) for a in listed}

    def addresses(self, listed: Iterable[int], placement: ListedPlacement) -> Iterator[Address]:
        """Addresses of brokers that an incomplete list lacks; without a host if never listed."""
        assigned = self._named_by(placement)
        oldest_s = self._now_s() - UNLISTED_STAYS_MS / 1_000
        self._listed = {
            b: last for b, last in self._listed.items() if b in assigned or last.at_s > oldest_s
        }
        for broker in sorted((assigned | self._listed.keys()) - set(listed)):
            last = self._listed.get(broker)
            yield Address(broker, host="", port=-1, rack="") if last is None else last.address

    def _named_by(self, placement: ListedPlacement) -> frozenset[int]:
        """The brokers that some assignment names."""
        if self._assigned is None or self._assigned[0] is not placement:
            self._assigned = placement, frozenset(np.unique(placement.broker).tolist())
        return self._assigned[1]
