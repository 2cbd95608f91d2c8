"""What the loss of each broker, pair of brokers and rack would do, and of a rack with one more.

It is exact: each number is that of ``whatif.lose`` of those brokers. A loss matters to a partition
only by which of its own replicas it takes. So each partition is judged once for each such set of
slots, and the results are added to the brokers and racks that have those replicas:

    pair (a, b) = a + b + the sum, over partitions on both, of f(both) - f(on a) - f(on b)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import any_slot, count_slots, over_slots
from twin.declarations.table import KAFKA, NO_BROKER, UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.engine.state import ShardState
from twin.kafka.election import Outcome
from twin.questions.whatif import electorate_of, is_judged
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.election.next_leader import Electorate, NextLeaders, elected_under, elected_without
from twin.rules.election.silent_successors import silent_replicas
from twin.rules.election.truncations import CommonLogs
from twin.rules.election.unclean_successors import lacking
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Brokers

BY_RULE: Final = ("offline", "outside_isr", "cold")
"""Partitions that nobody leads; that are led from outside the ISR; that get a cold leader."""

BY_KAFKA: Final = ("under_min_isr", "records_lost", "records_unknown")
"""Partitions under min ISR; records that new leaders lack; partitions for which that is unknown."""


def counted_things(rules: Iterable[str]) -> list[tuple[str, str]]:
    """[C] the election rule and the name of each number of ``Contingencies``, Kafka's first."""
    return [(KAFKA, name) for name in (*BY_KAFKA, *BY_RULE)] + [
        (rule, name) for rule in rules if rule != KAFKA for name in BY_RULE
    ]


@dataclass(frozen=True, slots=True)
class Contingencies:
    """What each loss would do; the numbers of shards add up. C is that of ``counted_things``."""

    broker: Int64  # [C, B]
    pair: Int64  # [C, B, B], where the first broker is the lower one; else 0
    rack: Int64  # [C, K]
    rack_and_one: Int64  # [C, K, B], for brokers of other racks; else 0

    def __add__(self, other: Contingencies) -> Contingencies:
        return Contingencies(
            self.broker + other.broker,
            self.pair + other.pair,
            self.rack + other.rack,
            self.rack_and_one + other.rack_and_one,
        )


def contingencies(state: ShardState, broker: Int32, rack: Int64) -> Contingencies:
    """What each loss would do to the partitions of a shard.

    Args:
        state: the shard.
        broker: [B] ids of all brokers, ascending.
        rack: [B] number of each broker's rack, UNKNOWN without one.
    """
    effects = _Effects(state, np.flatnonzero(is_judged(state)))
    place = keys.find_sorted(broker, effects.electorate.assignment.broker)
    place = np.where(effects.electorate.roles.is_assigned, place, UNKNOWN)
    on_rack = np.append(rack, UNKNOWN)[place]
    of_broker = _of_brokers(effects, place, len(broker))
    of_pair = of_broker[:, :, None] + of_broker[:, None, :]
    of_pair = np.triu(of_pair + _beyond_one(effects, place, len(broker)), 1)
    of_rack = _of_racks(effects, on_rack, racks := int(rack.max(initial=UNKNOWN)) + 1)
    more = of_rack[:, :, None] + of_broker[:, None, :]
    more += _beyond_rack(effects, place, on_rack, (racks, len(broker)))
    more[:, rack[None, :] == np.arange(racks)[:, None]] = 0
    return Contingencies(of_broker, of_pair, of_rack, more)


# ---------------------------------------------------------------- sums over partitions


def _of_brokers(effects: _Effects, place: Int64, brokers: int) -> Int64:
    """[C, B] the partitions of each broker, each by the slot that the broker has."""
    sums = _Sums(effects.count, (brokers,))
    for slot in range(place.shape[1]):
        one = np.where(place[:, slot] == UNKNOWN, 0, 1 << slot)
        for rows, here in _by_set(one):
            sums.add(effects.at(here, rows), place[rows, slot])
    return sums.total


def _beyond_one(effects: _Effects, place: Int64, brokers: int) -> Int64:
    """[C, B, B] what a pair does beyond what its brokers do alone, at the lower one first."""
    sums = _Sums(effects.count, (brokers, brokers))
    for one, other in combinations(range(place.shape[1]), 2):
        first, second = 1 << one, 1 << other
        has_both = (place[:, one] != UNKNOWN) & (place[:, other] != UNKNOWN)
        for rows, both in _by_set(np.where(has_both, first | second, 0)):
            a, b = place[rows, one], place[rows, other]
            beyond = effects.beyond(rows, both, first, second)
            sums.add(beyond, np.minimum(a, b), np.maximum(a, b))
    return sums.total


def _of_racks(effects: _Effects, on_rack: Int64, racks: int) -> Int64:
    """[C, K] the partitions of each rack, by all slots that it has."""
    sums = _Sums(effects.count, (racks,))
    for slot, same in _rack_sets(on_rack):
        for rows, here in _by_set(same):
            sums.add(effects.at(here, rows), on_rack[rows, slot])
    return sums.total


def _beyond_rack(effects: _Effects, place: Int64, on_rack: Int64, shape: tuple[int, int]) -> Int64:
    """[C, K, B] what a rack and a broker of another one do beyond what each does alone."""
    sums = _Sums(effects.count, shape)
    for slot, same in _rack_sets(on_rack):
        for other in range(place.shape[1]):
            is_other = (same & (1 << other) == 0) & (place[:, other] != UNKNOWN)
            for rows, of_rack in _by_set(np.where(is_other, same, 0)):
                beyond = effects.beyond(rows, of_rack | 1 << other, of_rack, 1 << other)
                sums.add(beyond, on_rack[rows, slot], place[rows, other])
    return sums.total


def _by_set(sets: Int64) -> Iterator[tuple[Rows | slice, int]]:
    """For each set of slots that occurs in [P] sets: its partitions, and the set."""
    for one in np.unique(sets[sets != 0]).tolist():
        is_one = sets == one
        yield slice(None) if is_one.all() else np.flatnonzero(is_one), one


def _rack_sets(on_rack: Int64) -> Iterator[tuple[int, Int64]]:
    """Each slot, with [P] the set of slots in its rack where it is the first of them, else 0."""
    for slot in range(on_rack.shape[1]):
        rack = on_rack[:, slot]
        same = (on_rack == rack[:, None]) & (rack != UNKNOWN)[:, None]
        is_first = ~any_slot(same[:, :slot]) if slot else np.ones(len(rack), bool)
        yield slot, np.where(is_first, _as_sets(same), 0)


def _as_sets(mask: Bool) -> Int64:
    """[P] the slots of a mask [P, R] as bits of a number."""
    return over_slots(np.add, mask.astype(np.int64) << np.arange(mask.shape[1]))


class _Sums:
    """Sums of effects [C, ...] by broker or rack."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.total: Int64 = np.zeros((count, *shape), np.int64)

    def add(self, effect: _Effect, *place: Int64) -> None:
        """Add [N] effects at [N] places."""
        flat = np.ravel_multi_index(place, self._shape)
        for number, values in effect.items():
            sums = np.bincount(flat, values, self.total[number].size)  # exact below 2^53
            self.total[number] += sums.astype(np.int64).reshape(self._shape)


# ---------------------------------------------------------------- one partition


_Effect = Mapping[int, Array]
"""[N] numbers of partitions by their place in ``counted_things``, those that are not all 0."""


@dataclass
class _Effects:
    """What the loss of a set of slots does to each partition, judged once for each set."""

    state: ShardState
    rows: Rows
    _judged_sets: dict[int, _Effect] = field(default_factory=dict)

    def __post_init__(self) -> None:
        state = self.state.take(self.rows)
        self.electorate: Electorate = electorate_of(state)
        roles = self.electorate.roles
        # As in ``whatif.lose``: what cannot lead now, or does not answer, counts as lost too.
        self._away = roles.is_assigned & ~self.electorate.candidates.is_acceptable
        self._away |= silent_replicas(
            self.electorate.assignment, roles, state[Brokers], self.state.observed_at_ms
        )
        self._in_isr = in_isr(roles)
        self._least = state[LeaderMinIsr].min_isr
        self._leader_end = state[Leaders].log_end_offset
        self._common_end = state[CommonLogs].end_offset
        rules = state.catalog.election_rules
        self._ballots = {rule: state[Ballot.under(rule)] for rule in rules if rule != KAFKA}
        self.count = len(counted_things(rules))

    def at(self, one: int, rows: Rows | slice) -> _Effect:
        """The effects of one set on partitions that have these slots."""
        return {number: values[rows] for number, values in self._of(one).items()}

    def beyond(self, rows: Rows | slice, union: int, first: int, second: int) -> _Effect:
        """What the union of two sets does beyond what each does alone."""
        extra = {number: values.copy() for number, values in self.at(union, rows).items()}
        for part in (first, second):
            for number, values in self.at(part, rows).items():
                extra[number] = extra[number] - values if number in extra else -values
        return extra

    def _of(self, one: int) -> _Effect:
        if one not in self._judged_sets:
            columns = enumerate(self._judged(one))
            self._judged_sets[one] = {n: values for n, values in columns if values.any()}
        return self._judged_sets[one]

    def _judged(self, one: int) -> Iterator[Array]:
        """[P] each of ``counted_things``."""
        roles = self.electorate.roles
        slots = (one >> np.arange(roles.is_assigned.shape[1]) & 1).astype(bool)
        named = roles.is_assigned & slots
        gone = named | self._away
        loses_leader = any_slot(roles.is_leader & named)
        shrinks = any_slot(self._in_isr & named)
        # A leader that is in sync and not lost stays, so no election is held.
        stays = any_slot(roles.is_leader & self._in_isr & ~gone)
        rows = np.flatnonzero((loses_leader | shrinks) & ~stays)
        few = self.electorate.take(rows)
        following = elected_without(few, gone[rows])
        has_leader = stays.copy()
        has_leader[rows] = following.leader != NO_BROKER
        isr = np.maximum(count_slots(self._in_isr & ~gone), has_leader)
        falls_short = (isr < self._least) & shrinks
        loses = loses_leader[rows]
        matters = loses | falls_short[rows]
        lost_records = self._records_lost(rows, following)

        def spread(values: Array) -> Int64:
            numbers = np.zeros(len(stays), np.int64)
            numbers[rows] = values
            return numbers

        yield falls_short.astype(np.int64)
        yield spread(np.where(loses, np.maximum(lost_records, 0), 0))
        yield spread(loses & _is_unsafe(following) & (lost_records == UNKNOWN))
        by_others = (
            elected_under(ballot.take(rows), few, gone[rows], following)
            for ballot in self._ballots.values()
        )
        for each in chain([following], by_others):
            is_outside = (each.outcome > Outcome.CLEAN) & (each.outcome < Outcome.NONE)
            yield spread(matters & (each.leader == NO_BROKER))
            yield spread(loses & is_outside)
            yield spread(loses & (each.coverage == Coverage.COLD))

    def _records_lost(self, rows: Rows, following: NextLeaders) -> Int64:
        """[N] records that new leaders lack, as the fields of ``whatif lose`` have them."""
        broker = self.electorate.assignment.broker[rows]
        slot = (broker == following.leader[:, None]).argmax(axis=1)
        lacks = lacking(self._leader_end[rows], self._common_end[rows, slot])
        return np.where(_is_unsafe(following), lacks, UNKNOWN)


def _is_unsafe(following: NextLeaders) -> Bool:
    return np.isin(following.outcome, (Outcome.LAST_KNOWN, Outcome.UNCLEAN))
