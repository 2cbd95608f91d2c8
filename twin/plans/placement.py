"""Where the replicas of a cluster are, and what a loss would do by that alone.

Every replica counts as in sync, so this is what a cluster is exposed to on a good day, and what
another placement would change. With all replicas in sync the numbers are those of
``contingencies``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import combinations

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import count_slots
from twin.declarations.table import UNKNOWN, Array, Bool, Int8, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Assignment


class Harm(IntEnum):
    """What a loss does to a partition."""

    NONE = 0
    UNDER_MIN_ISR = 1  # acks=all is refused
    OFFLINE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The replicas of P partitions on B brokers; R is the most that a partition has."""

    place: Int64  # [P, R] the place of the replica's broker among B; UNKNOWN where there is none
    min_isr: Int32  # [P] min.insync.replicas, at least 1
    rack: Int64  # [B] number of the broker's rack; UNKNOWN without one

    @property
    def replicas(self) -> Int32:
        """[P] the number of replicas."""
        return count_slots(self.place != UNKNOWN)

    @property
    def least(self) -> Int32:
        """[P] replicas in sync that acks=all needs: at most all of the partition."""
        return np.minimum(self.min_isr, np.maximum(self.replicas, 1))

    @property
    def racks(self) -> int:
        """The number of racks."""
        return int(self.rack.max(initial=UNKNOWN)) + 1

    def take(self, row: Rows) -> Placement:
        """Some of the partitions."""
        return replace(self, place=self.place[row], min_isr=self.min_isr[row])

    def in_rack(self) -> Int64:
        """[P, K] the number of replicas in each rack."""
        counts = np.zeros((len(self.place), self.racks), np.int64)
        on_rack = np.append(self.rack, UNKNOWN)[self.place]
        for slot in range(self.place.shape[1]):
            row = np.flatnonzero(on_rack[:, slot] != UNKNOWN)
            counts[row, on_rack[row, slot]] += 1
        return counts

    def most_in_one_rack(self) -> Int64:
        """[P] the replicas in the rack that has most of them; one without a rack is alone."""
        return np.maximum(self.in_rack().max(axis=1, initial=0), np.minimum(self.replicas, 1))

    def harm(self, gone: Array | int) -> Int8:
        """[P] what the loss of that many replicas of each partition does; of all, if it has fewer.

        A partition without replicas is not harmed.
        """
        gone = np.minimum(gone, self.replicas)
        left = self.replicas - gone
        harm = np.where(left <= 0, Harm.OFFLINE, Harm.UNDER_MIN_ISR)
        return np.where((gone == 0) | (left >= self.least), Harm.NONE, harm).astype(np.int8)

    def exposure(self, in_one_rack: Array) -> Int64:
        """[P] how bad it is to have that many replicas in one rack; higher is worse.

        First what the loss of the rack does, then that of the rack and one more broker.
        """
        with_one = self.harm(in_one_rack + 1)
        return self.harm(in_one_rack).astype(np.int64) * len(Harm) + with_one

    def excess(self, usable: Bool) -> Int64:
        """[P] how much worse the exposure is than the racks of usable brokers [B] require."""
        return self.exposure(self.most_in_one_rack()) - self.exposure(self.attainable(usable))

    def attainable(self, usable: Bool) -> Int64:
        """[P] the fewest replicas in one rack that the racks of usable brokers [B] allow.

        More replicas than usable brokers are as they are.
        """
        sizes = np.bincount(self.rack[usable & (self.rack != UNKNOWN)], minlength=self.racks)
        alone = int((usable & (self.rack == UNKNOWN)).sum())
        each = np.arange(self.place.shape[1] + 1)
        fit = alone + np.minimum(sizes[None, :], each[:, None]).sum(axis=1)  # by most in one rack
        return np.maximum(np.searchsorted(fit, self.replicas), 1)

    def with_places(self, row: Rows, places: Sequence[Array]) -> Placement:
        """The placement with other replicas of those rows: the places of their brokers."""
        width = max([self.place.shape[1], *map(len, places)])
        more = ((0, 0), (0, width - self.place.shape[1]))
        place = np.pad(self.place, more, constant_values=UNKNOWN)
        for at, each in zip(row.tolist(), places, strict=True):
            place[at] = np.pad(each, (0, width - len(each)), constant_values=UNKNOWN)
        return replace(self, place=place)

    def added(self, then: Placement) -> Int32:
        """[P] the number of brokers that get a replica if this placement becomes another one."""
        return count_slots(self.is_added(then))

    def is_added(self, then: Placement) -> Bool:
        """[P, R] the replicas of another placement whose brokers have none in this one."""
        is_kept = (then.place[:, :, None] == self.place[:, None, :]).any(axis=2)
        is_new: Bool = (then.place != UNKNOWN) & ~is_kept
        return is_new


def placement(states: Sequence[ShardState], broker: Int32, rack: Int64) -> Placement:
    """The placement of all partitions of those shards, one after the other.

    Args:
        states: the shards.
        broker: [B] ids of all brokers, ascending.
        rack: [B] number of each broker's rack, UNKNOWN without one.
    """
    width = max((state[Assignment].broker.shape[1] for state in states), default=1)
    places = []
    for state in states:
        place = keys.find_sorted(broker, state[Assignment].broker)
        place = np.where(state[Roles].is_assigned, place, UNKNOWN)
        more = ((0, 0), (0, width - place.shape[1]))
        places.append(np.pad(place, more, constant_values=UNKNOWN))
    min_isr = [np.maximum(state[TopicConfigs].min_insync_replicas, 1) for state in states]
    return Placement(np.concatenate(places), np.concatenate(min_isr).astype(np.int32), rack)


# ---------------------------------------------------------------- what a loss would do


@dataclass(frozen=True, slots=True)
class Reach:
    """How far losses reach, in partitions; the first of two numbers includes the second.

    ``by_one`` etc.: partitions that the loss of some broker, rack, or rack and one more broker
    takes under min ISR, and offline.
    """

    by_one: tuple[int, int]
    by_rack: tuple[int, int]
    by_rack_and_one: tuple[int, int]
    pairs_offline: int  # pairs of brokers that take a partition offline which neither does alone
    worst_pair: tuple[int, int]  # the most that a pair takes under min ISR, and offline


def reach(of: Placement) -> Reach:
    """How far losses reach."""
    in_rack = of.in_rack().max(axis=1, initial=0)
    with_one = np.where(in_rack > 0, in_rack + 1, 0)
    under, _ = _of_pairs(of, Harm.UNDER_MIN_ISR)
    offline, offline_together = _of_pairs(of, Harm.OFFLINE)
    return Reach(
        by_one=_counts(of.harm(1)),
        by_rack=_counts(of.harm(in_rack)),
        by_rack_and_one=_counts(of.harm(with_one)),
        pairs_offline=int((np.triu(offline_together, 1) > 0).sum()),
        worst_pair=(int(under.max(initial=0)), int(offline.max(initial=0))),
    )


def _of_pairs(of: Placement, harm: Harm) -> tuple[Int64, Int64]:
    """[B, B] partitions that a pair of brokers harms so; and those beyond what each does alone.

    The first has each pair once, at the lower broker first.
    """
    by_one, by_two = (of.harm(gone) >= harm for gone in (1, 2))
    row, slot = np.nonzero((of.place != UNKNOWN) & by_one[:, None])
    alone = np.bincount(of.place[row, slot], minlength=len(of.rack))
    beyond = sums_of_pairs(of, by_two.astype(np.int64) - 2 * by_one)
    return np.triu(beyond + alone[:, None] + alone[None, :], 1), beyond


def sums_of_pairs(of: Placement, values: Int64) -> Int64:
    """[B, B] for each pair of brokers the sum of [P] values of the partitions that both have."""
    brokers = len(of.rack)
    total = np.zeros(brokers * brokers, np.int64)
    for first, second in combinations(range(of.place.shape[1]), 2):
        a, b = of.place[:, first], of.place[:, second]
        row = np.flatnonzero((a != UNKNOWN) & (b != UNKNOWN) & (values != 0))
        sums = np.bincount(a[row] * brokers + b[row], values[row], brokers * brokers)
        total += sums.astype(np.int64)
    square = total.reshape(brokers, brokers)
    return square + square.T


def _counts(harm: Int8) -> tuple[int, int]:
    return int((harm >= Harm.UNDER_MIN_ISR).sum()), int((harm == Harm.OFFLINE).sum())
