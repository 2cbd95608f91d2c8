"""The topics and partitions of the cluster, and the brokers that hold them, as arrays.

A ``Placement`` assigns replicas to brokers. It stays the same object until the assignment changes,
so data derived from it (encoded requests, positions of numbers in responses, key columns of frames)
can be kept. A ``PartitionListing`` adds what changes more often: leaders, leader epochs and the
ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaming.bus.bus_topics import shard_of
from twin.arrays import keys
from twin.declarations.table import UNKNOWN
from twin.tables.enums import ReplicaFlags

Array = NDArray[Any]

NO_ID: Final = bytes(16)
"""In place of a topic id where Kafka has none (before 2.8)."""

_PARTITION_BITS: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class ListedPlacement:
    """The replicas of each broker; topics by shard and name, partitions by topic and number.

    Shapes: [T] topics, [P] partitions, [N] replicas in assignment order, [S + 1] cuts of shards.
    """

    shards: int
    topic: tuple[str, ...]  # [T]
    topic_id: tuple[bytes, ...]  # [T]
    topic_of: Array  # [P] index into topic
    partition: Array  # [P] partition number
    first: Array  # [P + 1] the replicas of partition p are first[p] to first[p + 1]
    broker: Array  # [N] broker id
    partition_of: Array  # [N] index into partition
    topic_cuts: Array  # [S + 1] the topics of shard s are topic_cuts[s] to topic_cuts[s + 1]
    partition_cuts: Array  # [S + 1]
    replica_cuts: Array  # [S + 1]
    _on: dict[int, BrokerReplicas] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.partition)

    def same_as(self, other: ListedPlacement) -> bool:
        """Whether topics, partitions and replicas are equal."""
        return (
            self.shards == other.shards
            and self.topic == other.topic
            and self.topic_id == other.topic_id
            and np.array_equal(self.topic_of, other.topic_of)
            and np.array_equal(self.partition, other.partition)
            and np.array_equal(self.first, other.first)
            and np.array_equal(self.broker, other.broker)
        )

    def partition_ids(self) -> Iterator[tuple[bytes, int]]:
        """[P] topic id and partition number."""
        for topic, number in zip(self.topic_of.tolist(), self.partition.tolist(), strict=True):
            yield self.topic_id[topic], number

    def row_of(self, topic: int, partition: int) -> int | None:
        """The row of a partition of a topic (index), None if there is none."""
        start, stop = np.searchsorted(self.topic_of, [topic, topic + 1])
        row = int(start + np.searchsorted(self.partition[start:stop], partition))
        return row if row < stop and self.partition[row] == partition else None

    def replicas_on(self, broker: int) -> BrokerReplicas:
        """The replicas of one broker."""
        replicas = self._on.get(broker)
        if replicas is None:
            rows = np.flatnonzero(self.broker == broker)
            replicas = self._on[broker] = self.replicas_at(rows)
        return replicas

    def replicas_at(self, rows: Array) -> BrokerReplicas:
        """The replicas of those rows, which are sorted and on one broker."""
        topics, start = np.unique(self.topic_of[self.partition_of[rows]], return_index=True)
        cuts = [*start.tolist(), len(rows)]
        return BrokerReplicas(
            rows=rows,
            partition=self.partition[self.partition_of[rows]],
            span={
                self.topic[t]: (a, b)
                for t, a, b in zip(topics.tolist(), cuts, cuts[1:], strict=False)
            },
        )


@dataclass(frozen=True, slots=True, eq=False)
class BrokerReplicas:
    """The replicas of one broker, by topic and partition number. Shapes: [n] replicas."""

    rows: Array  # [n] index into the replicas of the placement
    partition: Array  # [n] partition number
    span: dict[str, tuple[int, int]]  # first and last + 1 of the replicas of a topic

    def find(self, topic: str, partition: Array) -> Array:
        """The rows of these partitions of a topic, UNKNOWN where the broker holds none."""
        start, stop = self.span.get(topic, (0, 0))
        mine = self.partition[start:stop]
        if not len(mine):
            return np.full(len(partition), UNKNOWN, np.int64)
        at = keys.find_sorted(mine, partition)
        return np.where(at == UNKNOWN, UNKNOWN, self.rows[start + at])


@dataclass(frozen=True, slots=True, eq=False)
class PartitionListing:
    """A placement with leaders, leader epochs and ISRs. Shapes as there."""

    placement: ListedPlacement
    leader: Array  # [P] broker id, -1 if none
    leader_epoch: Array  # [P]
    replica_flags: Array  # [N] ReplicaFlags
    complete: bool  # it has every partition that exists

    def isr_size(self) -> Array:
        """[P] how many replicas are in sync."""
        return self.count_by_partition((self.replica_flags & ReplicaFlags.IN_ISR) != 0)

    def at_leaders(self, values: Array) -> Array:
        """[P] from [N] values, the value of each leader; UNKNOWN where there is no leader."""
        partition_of = self.placement.partition_of
        leads = self.placement.broker == self.leader[partition_of]
        at_leader = np.full(len(self.leader), UNKNOWN, values.dtype)
        at_leader[partition_of[leads]] = values[leads]
        return at_leader

    def count_by_partition(self, which: Array) -> Array:
        """[P] how many replicas of each partition are true in [N]."""
        total = np.concatenate([[0], np.cumsum(which)])
        first = self.placement.first
        return total[first[1:]] - total[first[:-1]]


def empty(shards: int) -> PartitionListing:
    """A listing without partitions, which is not complete."""
    return from_metadata([], shards, lambda _: True, complete=False)


def from_metadata(
    topics: Sequence[Any],
    shards: int,
    is_included: Callable[[str], bool],
    *,
    complete: bool = True,
) -> PartitionListing:
    """Convert the topics of a Metadata response (v0 to v12) to arrays.

    A topic with an error is left out, and the listing is not complete.
    """
    included = [t for t in topics if is_included(t.name)]
    good = [t for t in included if t.error_code == 0]
    keyed = sorted((_shard_of(t.name, shards), t.name, i) for i, t in enumerate(good))
    ordered = [good[i] for _, _, i in keyed]
    by_number = [sorted(t.partitions, key=_number) for t in ordered]
    partitions = list(chain.from_iterable(by_number))
    topic_of = np.repeat(np.arange(len(ordered), dtype=np.int32), list(map(len, by_number)))
    replicas = [p.replica_nodes for p in partitions]
    width = np.fromiter(map(len, replicas), np.int64, len(replicas))
    first = np.concatenate([[0], np.cumsum(width)])
    broker = np.fromiter(chain.from_iterable(replicas), np.int32, int(first[-1]))
    partition_of = np.repeat(np.arange(len(partitions)), width)

    shard = np.array([s for s, _, _ in keyed], np.int64)
    topic_cuts = np.searchsorted(shard, np.arange(shards + 1))
    partition_cuts = np.searchsorted(topic_of, topic_cuts)
    flags = np.zeros(len(broker), np.uint8)
    at = _key(partition_of, broker)
    for flag, nodes in (
        (ReplicaFlags.IN_ISR, [p.isr_nodes for p in partitions]),
        (ReplicaFlags.OFFLINE, [p.offline_replicas or () for p in partitions]),
    ):
        flagged = np.fromiter(chain.from_iterable(nodes), np.int64)
        row = np.repeat(np.arange(len(nodes)), np.fromiter(map(len, nodes), np.int64, len(nodes)))
        flags[np.isin(at, _key(row, flagged))] |= np.uint8(flag)
    placement = ListedPlacement(
        shards=shards,
        topic=tuple(t.name for t in ordered),
        topic_id=tuple(t.topic_id.bytes if t.topic_id else NO_ID for t in ordered),
        topic_of=topic_of,
        partition=np.fromiter((p.partition_index for p in partitions), np.int32, len(partitions)),
        first=first,
        broker=broker,
        partition_of=partition_of,
        topic_cuts=topic_cuts,
        partition_cuts=partition_cuts,
        replica_cuts=first[partition_cuts],
    )
    return PartitionListing(
        placement=placement,
        leader=np.fromiter((p.leader_id for p in partitions), np.int32, len(partitions)),
        leader_epoch=np.fromiter((p.leader_epoch for p in partitions), np.int32, len(partitions)),
        replica_flags=flags,
        complete=complete and len(good) == len(included),
    )


_shard_of = lru_cache(maxsize=1 << 17)(shard_of)


def _number(partition: Any) -> int:
    return int(partition.partition_index)


def _key(row: Array, broker: Array) -> Array:
    return (row.astype(np.int64) << _PARTITION_BITS) | (broker.astype(np.int64) & 0xFFFFFFFF)


def common_partitions(before: ListedPlacement, after: ListedPlacement) -> tuple[Array, Array]:
    """Rows in each placement of the partitions in both (same topic id, name and number)."""
    if before is after:
        both = np.arange(len(after))
        return both, both
    number = {key: i for i, key in enumerate(zip(before.topic, before.topic_id, strict=True))}
    renamed = np.array(
        [number.get(key, -1) for key in zip(after.topic, after.topic_id, strict=True)], np.int64
    )
    theirs = renamed[after.topic_of] if len(renamed) else np.zeros(0, np.int64)
    old = _key(before.topic_of, before.partition)
    new = np.where(theirs < 0, -1, _key(theirs, after.partition))
    _, in_old, in_new = np.intersect1d(old, new, assume_unique=False, return_indices=True)
    return in_old, in_new


def common_replicas(before: ListedPlacement, after: ListedPlacement) -> tuple[Array, Array]:
    """Rows in each placement of the replicas that are in both."""
    in_old, in_new = common_partitions(before, after)
    place = np.full(len(after), -1, np.int64)
    place[in_new] = in_old
    came_from = place[after.partition_of]
    old = _key(before.partition_of, before.broker)
    new = np.where(came_from < 0, -1, _key(came_from, after.broker))
    _, in_old, in_new = np.intersect1d(old, new, return_indices=True)
    return in_old, in_new


def is_behind(before: PartitionListing, after: PartitionListing) -> bool:
    """Whether a partition has a lower leader epoch than before: the broker's metadata is stale.

    A frozen broker returns stale metadata for 80-100 ms after it resumes (measured).
    """
    in_old, in_new = common_partitions(before.placement, after.placement)
    return bool((after.leader_epoch[in_new] < before.leader_epoch[in_old]).any())


def merge_metadata(one: Sequence[Any], other: Sequence[Any]) -> tuple[list[Any], bool]:
    """Merge two brokers' topics: for each partition the higher leader epoch wins.

    Returns the topics, and whether both brokers list the same ones. If they differ, it is unknown
    which one is right.
    """
    theirs = {(t.name, t.topic_id): t for t in other}
    mine = {(t.name, t.topic_id): t for t in one}
    for key in mine.keys() & theirs.keys():
        epoch = {p.partition_index: p for p in mine[key].partitions}
        for partition in theirs[key].partitions:
            current = epoch.get(partition.partition_index)
            if current is None or partition.leader_epoch > current.leader_epoch:
                epoch[partition.partition_index] = partition
        mine[key].partitions = list(epoch.values())
    agree = mine.keys() == theirs.keys()
    # A recreated topic appears under two ids; keep one entry for each name.
    names = {t.name for t in mine.values()}
    more = [t for key, t in theirs.items() if key not in mine and t.name not in names]
    return [*mine.values(), *more], agree
