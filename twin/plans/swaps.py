"""The fewest replicas to move so that a loss harms fewer partitions.

Two replicas change places: each broker holds as many replicas as before. Where no other partition
can take part, one replica moves alone. First come partitions with more replicas in one rack than
the racks require, those that suffer most first. Then come partitions of the pair of brokers that
would take the most of them: another placement cannot avoid what a pair does, only spread it over
more pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np

from twin.arrays.slots import any_slot
from twin.declarations.table import UNKNOWN, Bool, Float64, Int64, Rows
from twin.plans.placement import Harm, Placement, sums_of_pairs

_TRIED = 8
"""Partitions of the worst pair that are tried, the smallest first."""

_PARTNERS = 1_000
"""The number of misplaced partitions that may be partners, and then of the smallest replicas."""

_UNEVEN = 2
"""A pair of brokers is relieved if it would take more than that many times the mean of all pairs.

It must also take more than chance explains: three standard deviations above the mean."""


@dataclass(frozen=True, slots=True)
class Move:
    """One replica that goes to another broker."""

    row: int  # of the partition
    slot: int
    before: int  # place of the broker
    after: int


Step = tuple[Move, ...]
"""Two replicas that change places, or one that moves alone."""


@dataclass(frozen=True, slots=True, eq=False)
class SwapTerms:
    """What may be moved, and what that costs."""

    movable: Bool  # [P]
    usable: Bool  # [B] brokers that replicas may move to
    leads: Bool  # [P, R] replicas whose move moves a leader
    copied: Float64  # [P] bytes of a new replica; NaN where that is unknown


@dataclass
class Swaps:
    """The search; ``placement`` is as it is after the steps so far."""

    placement: Placement
    terms: SwapTerms
    _in_rack: Int64 = field(init=False)
    _cost: Float64 = field(init=False)
    _excess: Int64 = field(init=False)  # [P] how much worse than the racks allow
    _smallest: Rows = field(init=False)  # all rows, those that are copied fastest first

    def __post_init__(self) -> None:
        self.placement = replace(self.placement, place=self.placement.place.copy())
        self._in_rack = self.placement.in_rack()
        self._cost = np.nan_to_num(self.terms.copied, nan=np.inf)
        self._smallest = np.argsort(self._cost, kind="stable")
        self._excess = self.placement.excess(self.terms.usable)

    def misplaced(self) -> Rows:
        """[N] rows of partitions that suffer more from the loss of a rack than they have to.

        The worst come first, and of those the smallest.
        """
        row = np.flatnonzero(self._excess > 0)
        return row[np.lexsort((self._cost[row], -self._excess[row]))]

    def spread(self) -> Iterator[Step]:
        """Take replicas out of racks that have too many of a partition."""
        for row in self.misplaced().tolist():
            if not self.terms.movable[row]:
                continue
            for _ in range(self.placement.place.shape[1]):
                step = self._out_of_rack(row) if self._excess[row] > 0 else None
                if step is None:
                    break
                yield self._done(step)

    def even_out(self) -> Iterator[Step]:
        """Relieve the pair of brokers that would take most, until no pair is far above the mean."""
        weight = self._weight()
        brokers = len(self.placement.rack)
        while brokers > 1:
            taken = sums_of_pairs(self.placement, weight)
            a, b = np.unravel_index(taken.argmax(), taken.shape)
            mean = taken.sum() / (brokers * (brokers - 1))
            if taken[a, b] <= max(_UNEVEN * mean, mean + 3 * sqrt(mean * weight.max())):
                return
            step = self._out_of_pair(int(a), int(b), taken, weight)
            if step is None:
                return
            yield self._done(step)

    # ------------------------------------------------------------ racks

    def _out_of_rack(self, row: int) -> Step | None:
        counts, place = self._in_rack[row], self.placement.place[row]
        rack = np.append(self.placement.rack, UNKNOWN)
        full = int(counts.argmax())
        in_rack = np.append(counts, 0)[self.placement.rack]  # 0 for a broker without a rack
        to = (
            self.terms.usable
            & (in_rack <= counts[full] - 2)
            & ~np.isin(np.arange(len(in_rack)), place)
        )
        slots = np.flatnonzero((rack[place] == full) & (place != UNKNOWN))
        slots = slots[np.lexsort((-slots, self.terms.leads[row, slots]))]
        if not to.any():
            return None
        for slot in slots.tolist():
            if step := self._swap(row, slot, to):
                return step
        held = np.bincount(self.placement.place[self.placement.place != UNKNOWN], minlength=len(to))
        after = int(np.where(to, held, np.iinfo(np.int64).max).argmin())
        return (Move(row, int(slots[0]), int(place[slots[0]]), after),)

    # ------------------------------------------------------------ pairs

    def _weight(self) -> Int64:
        """[P] the weight of a pair: one offline outweighs all under min ISR."""
        harm = self.placement.harm(2)
        offline = np.where(self.placement.harm(1) < Harm.OFFLINE, harm == Harm.OFFLINE, False)
        under = (self.placement.harm(1) == Harm.NONE) & (harm == Harm.UNDER_MIN_ISR)
        return offline * (len(harm) + 1) + under.astype(np.int64)

    def _out_of_pair(self, a: int, b: int, taken: Int64, weight: Int64) -> Step | None:
        of, top = self.placement, taken[a, b]
        both = any_slot(of.place == a) & any_slot(of.place == b) & (weight > 0)
        both &= self.terms.movable
        rows = np.flatnonzero(both)
        for row in rows[np.argsort(self._cost[rows], kind="stable")][:_TRIED].tolist():
            slots = np.flatnonzero(np.isin(of.place[row], (a, b)))
            for slot in slots[np.argsort(self.terms.leads[row, slots], kind="stable")].tolist():
                others = np.delete(of.place[row], slot)
                others = others[others != UNKNOWN]
                to = self.terms.usable & (taken[others].max(axis=0) + weight[row] < top)
                to[of.place[row][of.place[row] != UNKNOWN]] = False
                to &= self._keeps_racks(row, slot)
                if to.any() and (step := self._swap(row, slot, to, taken, weight, int(top))):
                    return step
        return None

    def _keeps_racks(self, row: int, slot: int) -> Bool:
        """[B] the brokers where the replica may go without a partition suffering more by racks."""
        rack, of = self.placement.rack, self.placement
        counts = self._in_rack[row].copy()
        if (was := np.append(rack, UNKNOWN)[of.place[row, slot]]) != UNKNOWN:
            counts[was] -= 1
        one, there = of.take(np.array([row])), np.append(counts, 0)[rack] + 1
        most = np.maximum(there, counts.max(initial=0))
        now = one.exposure(one.most_in_one_rack())[0]
        worth = np.array([one.exposure(np.array([m]))[0] for m in range(int(most.max()) + 1)])
        return worth[most] <= now

    # ------------------------------------------------------------ both

    def _swap(
        self, row: int, slot: int, to: Bool, taken: Int64 | None = None,
        weight: Int64 | None = None, top: int = 0,
    ) -> Step | None:  # fmt: skip
        """The cheapest swap of the replica with one on such brokers [B], None if there is none.

        The other partition does not suffer more by racks; with ``taken`` no pair that it joins is
        taken as often as ``top``. Partners that are misplaced themselves come first.
        """
        before = int(self.placement.place[row, slot])
        for partners in (np.flatnonzero(self._excess > 0)[:_PARTNERS], self._smallest):
            q, t = self._fitting(partners[partners != row], to, before)
            if taken is not None and weight is not None:
                keep = self._joined(q, t, taken[before]) + weight[q] < top
                keep |= weight[q] == 0
                q, t = q[keep], t[keep]
            q, t = q[:_PARTNERS], t[:_PARTNERS]
            gain = self._gain(q, t, before)
            if (gain >= 0).any():
                best = np.lexsort((self._cost[q], self.terms.leads[q, t], -gain))[0]
                after = int(self.placement.place[q[best], t[best]])
                return (
                    Move(row, slot, before, after),
                    Move(int(q[best]), int(t[best]), after, before),
                )
        return None

    def _fitting(self, row: Rows, to: Bool, before: int) -> tuple[Rows, Rows]:
        """Replicas of these partitions that are on such brokers and may go to the other one."""
        place = self.placement.place[row]
        fits = np.append(to, False)[place]
        fits &= (self.terms.movable[row] & ~any_slot(place == before))[:, None]
        at, slot = np.nonzero(fits)
        return row[at], slot

    def _joined(self, row: Rows, slot: Rows, taken: Int64) -> Int64:
        """[N] the most that pairs of a broker and the partition's other brokers take."""
        others = self.placement.place[row].copy()
        others[np.arange(len(row)), slot] = UNKNOWN
        return np.append(taken, np.iinfo(np.int64).min // 2)[others].max(axis=1, initial=0)

    def _gain(self, row: Rows, slot: Rows, broker: int) -> Int64:
        """[N] how much less partitions suffer by racks once that replica is on the broker."""
        few = self.placement.take(row)
        place = few.place.copy()
        place[np.arange(len(row)), slot] = broker
        then = replace(few, place=place)
        return few.exposure(few.most_in_one_rack()) - then.exposure(then.most_in_one_rack())

    def _done(self, step: Step) -> Step:
        rack = np.append(self.placement.rack, UNKNOWN)
        for move in step:
            self.placement.place[move.row, move.slot] = move.after
            for broker, change in ((move.before, -1), (move.after, 1)):
                if rack[broker] != UNKNOWN:
                    self._in_rack[move.row, rack[broker]] += change
        row = np.array([move.row for move in step])
        self._excess[row] = self.placement.take(row).excess(self.terms.usable)
        return step


def improving_steps(
    placement: Placement, terms: SwapTerms, most: int
) -> tuple[Placement, list[Step]]:
    """At most so many steps, those that help most first, and the placement after them.

    There, a broker that keeps a partition keeps its slot as well, also where several steps have
    moved a partition.
    """
    search = Swaps(placement, terms)
    steps: list[Step] = []
    for kind in (search.spread, search.even_out):
        for step in kind() if len(steps) < most else ():
            steps.append(step)
            if len(steps) == most:
                break
    return _with_kept_slots(placement, search.placement, steps), steps


def _with_kept_slots(before: Placement, after: Placement, steps: list[Step]) -> Placement:
    place = after.place.copy()
    for row in {move.row for step in steps for move in step}:
        was, now = before.place[row], after.place[row]
        is_free = ~np.isin(was, now)
        place[row] = was
        place[row, is_free] = now[~np.isin(now, was)]
    return replace(after, place=place)
