"""End offset of the previous leader epoch, for partitions whose leader has changed.

A new leader begins its epoch at its log end. Its first sample may come seconds later and be higher,
so the leader is asked once, in the cycle that lists its epoch first: what the log of the former
leader has beyond that offset is lost, or will be cut off.

A collector that has just started does not know which leaders changed while it was away. It asks
each of them once about the epoch before its own, some in each cycle. An unclean leader begins alone
in the ISR, so those that are alone come first: a change that nobody has read within 15 s is judged
without.

Source: LeaderEpochFileCache.endOffsetFor, Kafka 4.3. Needs DESCRIBE on the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa

from streaming.bus.arrow import numbers
from streaming.collector.about import About, Acl
from streaming.collector.context import CycleContext
from streaming.collector.denied import DeniedTopics
from streaming.collector.leader_epochs import LEADER_EPOCH_END, LeaderEpochRequests
from streaming.collector.listing import ListedPlacement, PartitionListing
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading, Rows, partition_keys
from streaming.collector.source import Setup, Source
from streaming.collector.sources.replica_status import ReplicaStatus
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.rules.election.leader_changes import EpochEndsFrame

EPOCH_ENDS: Final = About(
    "epoch ends",
    "from which offset on an election lost records of such topics",
    Acl("DESCRIBE", "topic"),
    needs=(LEADER_EPOCH_END,),
    idle="no partition has changed its leader epoch",
)

MOST_PARTITIONS: Final = 5_000
"""Partitions that are read in a cycle; the others follow in later cycles."""

_SHARE_OF_DEADLINE: Final = 0.3


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where the records of ``prev_epoch`` end in the log of the leader with ``leader_epoch``.

    ``found_epoch`` is the newest epoch up to that one in its log, or that one if there is none.
    """

    leader_epoch: int
    prev_epoch: int
    found_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class EpochEndsReading(Reading):
    """The answers of one cycle, by row of the placement."""

    placement: ListedPlacement
    ends: Mapping[int, EpochEnd]

    def tables(self, shard: int) -> Iterator[Rows]:
        """The answers about a shard's partitions, if there are any."""
        first, stop = self.placement.partition_cuts[shard : shard + 2]
        here = {row: end for row, end in sorted(self.ends.items()) if first <= row < stop}
        if here:
            columns = {
                **partition_keys(self.placement, np.array(list(here))),
                "leader_epoch": numbers([e.leader_epoch for e in here.values()], pa.int32()),
                "prev_epoch": numbers([e.prev_epoch for e in here.values()], pa.int32()),
                "found_epoch": numbers([e.found_epoch for e in here.values()], pa.int32()),
                "end_offset": numbers([e.end_offset for e in here.values()], pa.int64()),
            }
            yield EpochEndsFrame, pa.table(columns, schema=EpochEndsFrame.schema())


class EpochEndSource(Source):
    """Remembers the last leader epoch of each partition that is accounted for.

    ``_is_due``: [P] it was there at the start, and nobody was asked about the epoch before.
    """

    about = (EPOCH_ENDS,)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read when a leader epoch changes."""
        return cls(setup.client_id, retry_denied_ms=setup.retry_denied_ms)

    def __init__(
        self, client_id: str, *, retry_denied_ms: int, most_partitions: int = MOST_PARTITIONS
    ) -> None:
        self._most_partitions = most_partitions
        self._placement: ListedPlacement | None = None
        self._epoch = np.zeros(0, np.int64)  # [P]
        self._is_due = np.zeros(0, bool)  # [P]
        self._has_started = False  # a complete listing was seen
        self._unlisted: dict[tuple[bytes, int], tuple[int, bool]] = {}
        self._denied = DeniedTopics(retry_denied_ms)
        self._requests = LeaderEpochRequests(client_id, self._denied)
        self._unanswered: tuple[Problem, ...] = ()  # in this cycle

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of refused topics, by their last response, and of silent brokers."""
        denied = self._denied.problems(EPOCH_ENDS.name, "losses there are bounds")
        return (*self._unanswered, *denied)

    def read(self, context: CycleContext, status: ReplicaStatus) -> EpochEndsReading | None:
        """The answers about the partitions whose leader epoch has changed; None without one."""
        listing = status.listing
        self._follow(listing)
        self._unanswered = ()
        changed = self._changed(listing)
        changed |= self._at_start(listing, changed)
        if not changed:
            return None
        deadline = context.deadline(_SHARE_OF_DEADLINE)
        answers = self._requests.ask(context, listing, changed, deadline)
        self._unanswered = tuple(p.at(EPOCH_ENDS.name) for p in answers.problems.values())
        ends = {
            row: EpochEnd(*changed[row], found_epoch, end_offset)
            for row, (found_epoch, end_offset) in answers.entries.items()
        }
        for row, end in ends.items():
            self._epoch[row] = end.leader_epoch
        self._is_due[list(changed)] = False  # once, whether it answers or not
        return EpochEndsReading(listing.placement, ends)

    def send_again(self, reading: EpochEndsReading) -> None:
        """Read these again: the rows did not reach the bus."""
        if reading.placement is self._placement:
            for row, end in reading.ends.items():
                self._epoch[row] = end.prev_epoch

    def _changed(self, listing: PartitionListing) -> dict[int, tuple[int, int]]:
        """Current and previous leader epoch of the partitions to read, by row."""
        placement, epoch = listing.placement, listing.leader_epoch
        changed = (self._epoch != UNKNOWN) & (epoch > self._epoch) & (listing.leader != NO_BROKER)
        self._denied.keep_only({placement.topic[t] for t in placement.topic_of[changed].tolist()})
        waiting = self._denied.waiting()
        rows = np.flatnonzero(changed).tolist()
        if waiting:
            rows = [r for r in rows if placement.topic[placement.topic_of[r]] not in waiting]
        return {
            row: (int(epoch[row]), int(self._epoch[row])) for row in rows[: self._most_partitions]
        }

    def _at_start(
        self, listing: PartitionListing, changed: Mapping[int, tuple[int, int]]
    ) -> dict[int, tuple[int, int]]:
        """Current leader epoch and the one before, of partitions that were there at the start."""
        epoch, most = listing.leader_epoch, self._most_partitions - len(changed)
        if most <= 0 or not self._is_due.any():
            return {}
        self._is_due &= epoch > 0  # the first epoch follows none
        due = self._is_due & (listing.leader != NO_BROKER)
        due[list(changed)] = False
        rows = np.flatnonzero(due)
        rows = rows[np.argsort(listing.isr_size()[rows], kind="stable")][:most]
        return {row: (int(epoch[row]), int(epoch[row]) - 1) for row in rows.tolist()}

    def _follow(self, listing: PartitionListing) -> None:
        """Note the epochs of partitions that were not listed before.

        Partitions that an incomplete listing lacks are remembered: while no broker answers, none is
        listed, and afterwards many have other leaders.
        """
        placement = listing.placement
        if placement is not self._placement:
            known = self._unlisted
            if self._placement is not None:
                noted = zip(self._epoch.tolist(), self._is_due.tolist(), strict=True)
                known |= dict(zip(self._placement.partition_ids(), noted, strict=True))
            nothing = UNKNOWN, False
            noted_now = [known.pop(key, nothing) for key in placement.partition_ids()]
            self._placement = placement
            self._epoch = np.array([epoch for epoch, _ in noted_now], np.int64)
            self._is_due = np.array([is_due for _, is_due in noted_now], bool)
            self._unlisted = {} if listing.complete else known
        is_new = self._epoch == UNKNOWN
        self._epoch[is_new] = listing.leader_epoch[is_new]
        if not self._has_started:
            self._is_due |= is_new
            self._has_started = listing.complete
