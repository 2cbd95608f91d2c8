"""Leader epoch histories: the first offset of each leader epoch, as the current leader has it.

Only tiered partitions need one (leader epochs decide whether a remote segment belongs to a log),
and it changes only with the leader epoch. No request returns a whole history, so histories are read
from the newest entry down to the log start, for all partitions at once (``leader_epochs``).

Needs DESCRIBE on the topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import pyarrow as pa

from streaming.bus.arrow import numbers
from streaming.collector.about import About, Acl
from streaming.collector.context import CycleContext
from streaming.collector.denied import RETRY_DENIED_MS, DeniedTopics
from streaming.collector.leader_epochs import LEADER_EPOCH_END, LeaderEpochRequests
from streaming.collector.listing import Array, ListedPlacement, PartitionListing
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading, Rows, partition_keys
from streaming.collector.source import Setup, Source
from streaming.collector.sources.configs import TopicSettings
from streaming.collector.sources.offsets import ReplicaOffsets
from streaming.collector.sources.replica_status import ReplicaStatus
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.tables.observations import EpochsFrame

HISTORIES: Final = About(
    "leader epoch histories",
    "which remote segments of such topics belong to their logs",
    Acl("DESCRIBE", "topic"),
    needs=(LEADER_EPOCH_END,),
    idle="no partition of a tiered topic has a leader epoch that is not known",
)

MOST_WALKS: Final = 5_000
"""Partitions whose history is read in one cycle; the others follow in later cycles."""

_SHARE_OF_DEADLINE: Final = 0.3


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """The leader epochs of one partition and the first offset of each, ascending."""

    row: int  # of the placement
    epochs: tuple[tuple[int, int], ...]


_MOST_EPOCHS: Final = 20_000
"""Rows of a frame of histories: half of what a message may hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Histories(Reading):
    """The histories that were completed in one cycle."""

    placement: ListedPlacement
    histories: Sequence[EpochHistory]

    def tables(self, shard: int) -> Iterator[Rows]:
        """Frames with the whole history of each partition."""
        first, stop = self.placement.partition_cuts[shard : shard + 2]
        batch: list[EpochHistory] = []
        for history in self.histories:
            if not first <= history.row < stop:
                continue
            if batch and sum(len(h.epochs) for h in batch) + len(history.epochs) > _MOST_EPOCHS:
                yield EpochsFrame, self._rows(batch)
                batch = []
            batch.append(history)
        if batch:
            yield EpochsFrame, self._rows(batch)

    def _rows(self, histories: Sequence[EpochHistory]) -> pa.Table:
        placement = self.placement
        row = np.repeat([h.row for h in histories], [len(h.epochs) for h in histories])
        epochs = [entry for h in histories for entry in h.epochs]
        columns = {
            **partition_keys(placement, row),
            "leader_epoch": numbers([e for e, _ in epochs], pa.int32()),
            "start_offset": numbers([o for _, o in epochs], pa.int64()),
        }
        return pa.table(columns, schema=EpochsFrame.schema())


@dataclass(slots=True)
class _Walk:
    """The known part of one partition's history, from the newest entry down."""

    row: int
    leader_epoch: int
    log_start: int
    next_epoch: int  # to request next
    lowest: int = UNKNOWN  # the lowest epoch returned, whose first offset is not known yet
    entries: list[tuple[int, int]] = field(default_factory=list)

    def add(self, epoch: int, end_offset: int) -> bool:
        """Add a response; true if the whole history is known now."""
        if epoch == UNKNOWN:
            return True  # there is no entry at all
        if self.lowest != UNKNOWN:
            if self.entries and end_offset >= self.entries[-1][1]:
                return True  # the previous entry is the lowest one
            self.entries.append((self.lowest, end_offset))
            if end_offset <= max(self.log_start, 0):
                return True
        self.lowest = epoch
        self.next_epoch = epoch - 1
        if self.next_epoch < 0:
            # Nothing is below epoch 0, so no request returns its first offset: it is the log start.
            self.entries.append((0, max(self.log_start, 0)))
            return True
        return False


class EpochSource(Source):
    """Remembers at which leader epoch each history was read, and when."""

    about = (HISTORIES,)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read when a leader epoch changes."""
        # A query that starts without state must find every history on the bus.
        reread_ms = setup.config.bus.observations_retention_ms // 2
        return cls(setup.client_id, reread_ms, retry_denied_ms=setup.retry_denied_ms)

    def __init__(
        self,
        client_id: str,
        reread_ms: int,
        *,
        most_walks: int = MOST_WALKS,
        retry_denied_ms: int = RETRY_DENIED_MS,
    ) -> None:
        """``reread_ms``: read a history again after this time, for a query that starts without
        state."""
        self._reread_s = reread_ms / 1_000
        self._most_walks = most_walks
        self._placement: ListedPlacement | None = None
        self._read_at_epoch = np.zeros(0, np.int64)  # [P]
        self._read_at_s = np.zeros(0)  # [P]
        self._denied = DeniedTopics(retry_denied_ms)
        self._requests = LeaderEpochRequests(client_id, self._denied)
        self._unanswered: dict[int, Problem] = {}  # by broker, in this cycle

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of refused topics, by their last response, and of silent brokers."""
        denied = self._denied.problems(HISTORIES.name, "histories of such topics stay unknown")
        return (*self._unanswered.values(), *denied)

    def read(
        self,
        context: CycleContext,
        status: ReplicaStatus,
        settings: TopicSettings,
        offsets: ReplicaOffsets,
    ) -> Histories:
        """The histories of tiered partitions that were completed in this cycle."""
        listing = status.listing
        log_start = listing.at_leaders(offsets.log_start)
        histories = self.walk(context, listing, settings.tiered, log_start)
        return Histories(listing.placement, histories)

    def walk(
        self, context: CycleContext, listing: PartitionListing, tiered: Array, log_start: Array
    ) -> list[EpochHistory]:
        """The histories that were completed in this cycle.

        Args:
            context: the brokers; part of its deadline is used.
            listing: with leaders and leader epochs.
            tiered: [P] remote storage is on.
            log_start: [P] log start of the leader, UNKNOWN without a response.
        """
        deadline = context.deadline(_SHARE_OF_DEADLINE)
        walks = self._begin(listing, tiered, log_start)
        complete: list[EpochHistory] = []
        self._unanswered, answered = {}, set[int]()
        while walks and not deadline.is_over:
            requests = {row: (walk.leader_epoch, walk.next_epoch) for row, walk in walks.items()}
            answers = self._requests.ask(context, listing, requests, deadline)
            self._unanswered |= {b: p.at(HISTORIES.name) for b, p in answers.problems.items()}
            answered |= answers.answered
            entries = answers.entries
            if not entries:
                break
            for row, (epoch, end_offset) in entries.items():
                walk = walks[row]
                if walk.add(epoch, end_offset):
                    self._read_at_epoch[row] = walk.leader_epoch
                    self._read_at_s[row] = time.monotonic()
                    complete.append(EpochHistory(row, tuple(reversed(walk.entries))))
                    del walks[row]
            # Partitions without a response, or with an error, are read again in a later cycle.
            walks = {row: walk for row, walk in walks.items() if row in entries}
        # A broker that answered before has run out of time; the next cycle continues.
        self._unanswered = {b: p for b, p in self._unanswered.items() if b not in answered}
        return [history for history in complete if history.epochs]

    def send_again(self, reading: Histories) -> None:
        """Read these again: the rows did not reach the bus."""
        for history in reading.histories:
            self._read_at_epoch[history.row] = UNKNOWN

    def _begin(
        self, listing: PartitionListing, tiered: Array, log_start: Array
    ) -> dict[int, _Walk]:
        """A walk for each history that has to be read, by row."""
        placement = listing.placement
        self._follow(placement)
        now_s = time.monotonic()
        is_old = now_s - self._read_at_s >= self._reread_s
        pending = tiered & (listing.leader != NO_BROKER) & (listing.leader_epoch != UNKNOWN)
        pending &= is_old | (self._read_at_epoch != listing.leader_epoch)
        if self._denied and len(placement):
            # Without remote storage no history is needed, so there is no problem to report.
            needed = np.unique(placement.topic_of[tiered]).tolist()
            self._denied.keep_only({placement.topic[t] for t in needed})
        waiting = self._denied.waiting()
        if waiting and pending.any():
            rows = [i for i, name in enumerate(placement.topic) if name in waiting]
            pending &= ~np.isin(placement.topic_of, rows)
        return {
            row: _Walk(row, int(listing.leader_epoch[row]), int(log_start[row]),
                       next_epoch=int(listing.leader_epoch[row]))
            for row in np.flatnonzero(pending)[:self._most_walks].tolist()
        }  # fmt: skip

    def _follow(self, placement: ListedPlacement) -> None:
        """Move the remembered values to a new placement."""
        if placement is self._placement:
            return
        read_at_epoch = np.full(len(placement), UNKNOWN, np.int64)
        read_at_s = np.full(len(placement), -np.inf)
        if self._placement is not None:
            old_rows = {key: row for row, key in enumerate(self._placement.partition_ids())}
            for row, key in enumerate(placement.partition_ids()):
                if (old := old_rows.get(key)) is not None:
                    read_at_epoch[row] = self._read_at_epoch[old]
                    read_at_s[row] = self._read_at_s[old]
        self._placement = placement
        self._read_at_epoch, self._read_at_s = read_at_epoch, read_at_s
