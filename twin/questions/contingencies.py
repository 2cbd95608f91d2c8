"""What the loss of each broker, pair of brokers and rack would do, and of a rack with one more.

It is exact: each number is that of ``whatif.lose`` of those brokers. A loss matters to a partition
only by which of its own replicas it takes. So each partition is judged once for each such set of
slots, and the results are added to the brokers and racks that have those replicas:

    pair (a, b) = a + b + the sum, over partitions on both, of f(both) - f(on a) - f(on b)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import any_slot, as_sets
from twin.declarations.table import UNKNOWN, Array, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.questions.effects import Effects, counted_things
from twin.questions.whatif import electorate_of, is_judged
from twin.rules.election.next_leader import Electorate


@dataclass(frozen=True, slots=True)
class Contingencies:
    """Effects of each loss. C is the number of ``counted_things``."""

    broker: Int64  # [C, B]
    beyond_one: Int64  # [C, B, B] a pair beyond what its two do, at the lower broker first
    rack: Int64  # [C, K]
    beyond_rack: Int64  # [C, K, B] a rack and a broker beyond what the two do

    def pairs(self, one: Rows, other: Rows) -> Int64:
        """[C, M] pairs of brokers by their places, where the first is the lower one."""
        return self.broker[:, one] + self.broker[:, other] + self.beyond_one[:, one, other]

    def racks_and_one(self, rack: Rows, one: Rows) -> Int64:
        """[C, M] racks by number, each with a broker of another rack."""
        return self.rack[:, rack] + self.broker[:, one] + self.beyond_rack[:, rack, one]


def contingencies(states: Sequence[ShardState], broker: Int32, rack: Int64) -> Contingencies:
    """Effects of each loss on the partitions of all shards.

    Args:
        states: the shards, at least one.
        broker: [B] ids of all brokers, ascending.
        rack: [B] number of each broker's rack, UNKNOWN without one.
    """
    count = len(counted_things(states[0].catalog.election_rules))
    brokers, racks = len(broker), int(rack.max(initial=UNKNOWN)) + 1
    of_broker, of_rack = _Sums(count, (brokers,)), _Sums(count, (racks,))
    beyond_one, beyond_rack = _Sums(count, (brokers, brokers)), _Sums(count, (racks, brokers))
    for state in states:
        rows, electorate, place = _placed(state, broker)
        on_rack = np.append(rack, UNKNOWN)[place]
        effects = Effects(state, rows, electorate, _sets(on_rack))
        _add_brokers(of_broker, effects, place)
        _add_beyond_one(beyond_one, effects, place)
        _add_racks(of_rack, effects, on_rack)
        _add_beyond_rack(beyond_rack, effects, place, on_rack)
    return Contingencies(of_broker.total, beyond_one.total, of_rack.total, beyond_rack.total)


def rack_losses(states: Sequence[ShardState], broker: Int32, rack: Int64) -> Int64:
    """[C, K] effects of the loss of each rack alone, as in ``contingencies``, in less time."""
    count = len(counted_things(states[0].catalog.election_rules))
    sums = _Sums(count, (int(rack.max(initial=UNKNOWN)) + 1,))
    for state in states:
        rows, electorate, place = _placed(state, broker)
        on_rack = np.append(rack, UNKNOWN)[place]
        _add_racks(sums, Effects(state, rows, electorate, _sets_of_racks(on_rack)), on_rack)
    return sums.total


def _placed(state: ShardState, broker: Int32) -> tuple[Rows, Electorate, Int64]:
    """The partitions that are judged, and [P, R] the place of each replica's broker."""
    rows = np.flatnonzero(is_judged(state))
    electorate = electorate_of(state).take(rows)
    place = keys.find_sorted(broker, electorate.assignment.broker)
    return rows, electorate, np.where(electorate.roles.is_assigned, place, UNKNOWN)


def _sets_of_racks(on_rack: Int64) -> list[int]:
    """The sets of slots that a rack takes somewhere."""
    found = chain.from_iterable(np.unique(same).tolist() for _, same in _rack_sets(on_rack))
    return sorted({*found} - {0})


def _sets(on_rack: Int64) -> list[int]:
    """The sets of slots that a broker, a pair, a rack, or a rack and one more take somewhere."""
    slots = [1 << slot for slot in range(on_rack.shape[1])]
    racks = _sets_of_racks(on_rack)
    return sorted({one | other for one in {*slots, *racks} for other in {*slots, 0}})


# ---------------------------------------------------------------- sums over partitions


def _add_brokers(sums: _Sums, effects: Effects, place: Int64) -> None:
    """Add the partitions of each broker, each by the slot that the broker has."""
    for slot in range(place.shape[1]):
        one = np.where(place[:, slot] == UNKNOWN, 0, 1 << slot)
        for rows, here in _by_set(one):
            sums.add(effects.at(here, rows), place[rows, slot])


def _add_beyond_one(sums: _Sums, effects: Effects, place: Int64) -> None:
    """Add what a pair does beyond what its brokers do alone, at the lower one first."""
    for one, other in combinations(range(place.shape[1]), 2):
        first, second = 1 << one, 1 << other
        has_both = (place[:, one] != UNKNOWN) & (place[:, other] != UNKNOWN)
        for rows, both in _by_set(np.where(has_both, first | second, 0)):
            a, b = place[rows, one], place[rows, other]
            beyond = effects.beyond(rows, both, first, second)
            sums.add(beyond, np.minimum(a, b), np.maximum(a, b))


def _add_racks(sums: _Sums, effects: Effects, on_rack: Int64) -> None:
    """Add the partitions of each rack, by all slots that it has."""
    for slot, same in _rack_sets(on_rack):
        for rows, here in _by_set(same):
            sums.add(effects.at(here, rows), on_rack[rows, slot])


def _add_beyond_rack(sums: _Sums, effects: Effects, place: Int64, on_rack: Int64) -> None:
    """Add what a rack and a broker of another one do beyond what each does alone."""
    for slot, same in _rack_sets(on_rack):
        for other in range(place.shape[1]):
            is_other = (same & (1 << other) == 0) & (place[:, other] != UNKNOWN)
            for rows, of_rack in _by_set(np.where(is_other, same, 0)):
                beyond = effects.beyond(rows, of_rack | 1 << other, of_rack, 1 << other)
                sums.add(beyond, on_rack[rows, slot], place[rows, other])


def _by_set(sets: Int64) -> Iterator[tuple[Rows | slice, int]]:
    """For each set of slots that occurs in [P] sets: its partitions, and the set."""
    for one in np.unique(sets[sets != 0]).tolist():
        is_one = sets == one
        yield slice(None) if is_one.all() else np.flatnonzero(is_one), one


def _rack_sets(on_rack: Int64) -> Iterator[tuple[int, Int64]]:
    """For each slot, [P] the bits of its rack's slots if it is the first of them, else 0."""
    for slot in range(on_rack.shape[1]):
        rack = on_rack[:, slot]
        same = (on_rack == rack[:, None]) & (rack != UNKNOWN)[:, None]
        is_first = ~any_slot(same[:, :slot]) if slot else np.ones(len(rack), bool)
        yield slot, np.where(is_first, as_sets(same), 0)


class _Sums:
    """Sums of effects [C, ...] by broker or rack."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.total: Int64 = np.zeros((count, *shape), np.int64)

    def add(self, effect: Mapping[int, Array], *place: Int64) -> None:
        """Add [N] effects at [N] places."""
        if not effect:
            return
        flat = np.ravel_multi_index(place, self._shape)
        for number, values in effect.items():
            sums = np.bincount(flat, values, self.total[number].size)  # exact below 2^53
            self.total[number] += sums.astype(np.int64).reshape(self._shape)
